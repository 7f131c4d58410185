/* SPDX-License-Identifier: MIT */
/*
 * RESP2, the Redis serialization protocol: writes commands and parses replies
 * (redis.io/docs/latest/develop/reference/protocol-spec).
 *
 * The functions are pure, and parsing allocates nothing: a reply points into
 * the bytes that it was parsed from.  The search for its end has a state, so
 * no byte is read twice, and the bytes of an oversized reply need not be kept.
 */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include "proto/bytes.h"

#include <sys/types.h>

enum resp_type {
    RESP_STATUS,  /* +OK */
    RESP_ERROR,   /* -ERR unknown command: Redis understood, and rejects it */
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

#define RESP_MALFORMED (-1) /* not RESP2, or above REDIS_SKIP_LIMIT */
#define RESP_TOO_LARGE (-2) /* RESP2, but above REDIS_REPLY_LIMIT */

/*
 * Parses one whole reply, with everything in it.  Returns its number of bytes,
 * 0 if more are needed, RESP_MALFORMED or RESP_TOO_LARGE.
 */
ssize_t resp_parse(struct view input, struct resp_reply *reply);

/* The state of the search for the end of one reply.  At the start `replies` is
   1, and all else is zero. */
struct resp_scan {
    uint64_t replies; /* still to come; the elements of arrays count as well */
    uint64_t string;  /* bytes of a string, with its CR LF, still to come */
    bool in_text;     /* the rest of a status or an error is still to come */
    size_t others;    /* the reply and its elements, if they are no strings */
    size_t start;     /* bytes of its type and number; 0: not complete */
    struct resp_reply reply; /* the outcome, without its bytes */
    /* For resp_read(). */
    size_t seen; /* scanned bytes of the input */
    bool skips;  /* it is too large: what was scanned is dropped */
};

/* Scans the next bytes of the reply.  Returns the number of bytes that it has
   scanned, or RESP_MALFORMED.  If a line is incomplete, its bytes remain.  The
   reply has ended when scan->replies is 0. */
ssize_t resp_scan(struct resp_scan *scan, struct view input);

/*
 * Takes the next reply from the front of the input.  Returns 1 if it is whole,
 * 0 if more bytes are needed, -1 if they are not RESP2.  *used is the number of
 * bytes that the caller must drop: after a 1 when the reply is no longer
 * needed, after a 0 at once.  Otherwise it may only append bytes to the input.
 *
 * A reply that is too large is skipped.  At its end an RESP_ERROR with our own
 * words is returned in its place, so that only its own request fails.
 */
int resp_read(struct resp_scan *scan, struct view input, size_t *used,
              struct resp_reply *reply);

/* Takes the next element from the front of items.  Returns false at the end. */
bool resp_next(struct view *items, struct resp_reply *item);

/* Appends a command: an array of strings, each of any bytes. */
void resp_append_command(struct buffer *buffer, const struct view *words,
                         size_t count);

#endif
