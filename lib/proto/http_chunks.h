/* SPDX-License-Identifier: MIT */
/* A body in chunks: RFC 9112, section 7.1. */
#ifndef PROTO_HTTP_CHUNKS_H
#define PROTO_HTTP_CHUNKS_H

#include "proto/bytes.h"

/* The state of a chunked body between two calls; all zero at its start. */
struct http_chunks {
    enum {
        CHUNK_SIZE,    /* the line with the size of a chunk */
        CHUNK_DATA,    /* the bytes of the chunk, then CR LF */
        CHUNK_TRAILER, /* fields after the last chunk, then an empty line */
        CHUNK_DONE,
    } state;
    uint64_t size;   /* of this chunk, bytes still to come */
    uint64_t body;   /* bytes of all chunks so far */
    size_t overhead; /* bytes so far that are no part of the body */
};

/*
 * Decodes a chunked body in place, from the byte *end of the input on, and
 * moves *end to the end of the decoded bytes.  Bytes that are not decoded yet
 * follow there.  Extensions and trailers are dropped.  Returns 1 if the body is
 * complete; the following bytes belong to the next request.  Returns 0 if more
 * bytes are needed.  Returns minus a status if the body is invalid: -413 if it
 * exceeds BODY_LIMIT.
 */
int http_decode_chunks(struct http_chunks *chunks, struct buffer *input,
                       size_t *end);

#endif
