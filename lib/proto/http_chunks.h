/* SPDX-License-Identifier: MIT */
/* A body in chunks: RFC 9112, section 7.1. */
#ifndef PROTO_HTTP_CHUNKS_H
#define PROTO_HTTP_CHUNKS_H

#include "proto/bytes.h"

/* The state of a chunked body between two calls; all zero at its start. */
struct http_chunks {
    enum {
        CHUNK_SIZE,    /* a line with the size of a chunk is awaited */
        CHUNK_DATA,    /* the bytes of the chunk, then CR LF */
        CHUNK_TRAILER, /* fields after the last chunk, then an empty line */
        CHUNK_DONE,
    } state;
    uint64_t size;   /* of this chunk, bytes still to come */
    uint64_t body;   /* bytes of all chunks so far */
    size_t overhead; /* bytes that were not body so far */
};

/*
 * Decodes a chunked body in place: *end is the end of what is decoded of it,
 * and what came after it in the input follows.  Extensions and trailers are
 * dropped.  Returns 1 if the body is whole: then what follows is the next
 * request.  Returns 0 if more bytes are needed: then the beginning of a line
 * may follow.  Returns minus a status if it is bad; bodies above BODY_LIMIT are
 * -413.
 */
int http_decode_chunks(struct http_chunks *chunks, struct buffer *input,
                       size_t *end);

#endif
