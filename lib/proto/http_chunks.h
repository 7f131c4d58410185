/* SPDX-License-Identifier: MIT */
/* A body in chunks: RFC 9112, section 7.1.  Answers like proto/http.h. */
#ifndef PROTO_HTTP_CHUNKS_H
#define PROTO_HTTP_CHUNKS_H

#include "proto/bytes.h"

#include <sys/types.h>

/* The state of a chunked body between two calls; all zero at its start. */
struct http_chunks {
    enum http_chunk_state {
        CHUNK_SIZE,
        CHUNK_SIZE_BLANK,
        CHUNK_EXTENSION,
        CHUNK_SIZE_LF,
        CHUNK_DATA,
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        TRAILER_START,
        TRAILER_NAME,
        TRAILER_VALUE,
        TRAILER_LF,
        TRAILER_END_LF,
    } state;
    bool has_digit;    /* of the size being read */
    uint64_t size;     /* of this chunk, bytes still to come */
    uint64_t body;     /* bytes of the body so far */
    uint64_t overhead; /* bytes that were not body so far */
};

/*
 * Decodes the received part of a chunked body in place: afterwards the first
 * *decoded bytes are body.  Extensions and trailers are dropped.  A positive
 * result is the offset in `bytes` at which the body ended; with 0 all of them
 * were used up.  Bodies above BODY_LIMIT are -413.
 */
ssize_t http_decode_chunks(struct http_chunks *chunks, char *bytes,
                           size_t length, size_t *decoded);

#endif
