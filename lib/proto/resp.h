/* SPDX-License-Identifier: MIT */
/*
 * RESP2, the Redis serialization protocol: writes commands and parses replies
 * (redis.io/docs/latest/develop/reference/protocol-spec).
 *
 * The functions do no I/O, and parsing allocates nothing: a reply points into
 * the bytes that it was parsed from.  The search for the reply's end has a
 * state, so it does not begin again when more bytes come.
 */
#pragma once

#include "proto/bytes.h"

#include <sys/types.h>

enum resp_type {
    RESP_STATUS,  /* +OK */
    RESP_ERROR,   /* -ERR unknown command: Redis rejects the command */
    RESP_INTEGER, /* :42 */
    RESP_STRING,  /* $5 hello */
    RESP_ARRAY,   /* *2 and two replies */
    RESP_NULL,    /* $-1 or *-1 */
};

struct resp_reply {
    enum resp_type type;
    struct view text;  /* of a status, an error or a string */
    int64_t integer;   /* of an integer */
    size_t count;      /* of an array: its elements */
    bool all_strings;  /* of an array: each of them is a string */
    struct view items; /* of an array: their bytes, for resp_next */
};

/* The state of resp_read() in the middle of a reply.  All zero at its start. */
struct resp_scan {
    uint64_t replies; /* still to come; the elements of arrays count as well */
    uint64_t string;  /* bytes of a string, with its CR LF, still to come */
    bool in_text;     /* the rest of a status or an error is still to come */
    size_t others;    /* replies and elements that are not strings */
    size_t start;     /* bytes of the type and number; 0: incomplete */
    struct resp_reply reply; /* the result, without its bytes */
    size_t seen;             /* scanned bytes of the input */
    bool skips; /* the reply is too large: scanned bytes are dropped */
};

/*
 * Reads a reply, with all its elements, from the front of the input.  Returns 1
 * if the reply is whole, 0 if more bytes are needed, -1 if the bytes are not
 * RESP2, or announce more than REDIS_SKIP_LIMIT.  The caller must drop *used
 * bytes: at once after a 0, but after a 1 only when the reply is no longer
 * needed.  Between two calls for one reply it may only append to the input.
 *
 * A reply above REDIS_REPLY_LIMIT, or a string above REDIS_STRING_LIMIT, is
 * skipped.  At the end of the reply the function returns a RESP_ERROR with its
 * own text instead, so that only the request of that reply fails.
 */
int resp_read(struct resp_scan *scan, struct view input, size_t *used,
              struct resp_reply *reply);

/* Takes the next element from the front of items.  Returns false at the end. */
bool resp_next(struct view *items, struct resp_reply *item);

/* Appends a command: an array of strings, each of any bytes. */
void resp_append_command(struct buffer *buffer, const struct view *words,
                         size_t count);
