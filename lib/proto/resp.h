/* SPDX-License-Identifier: MIT */
/*
 * RESP2, the Redis serialization protocol: commands out, replies in.
 * Described at redis.io/docs/latest/develop/reference/protocol-spec.
 *
 * Pure, and free of allocation: a reply points into the bytes that it was
 * parsed from, and an array's elements are parsed one at a time while they are
 * walked.
 */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include "proto/bytes.h"

#include <sys/types.h>

enum resp_type {
    RESP_STATUS,  /* +OK */
    RESP_ERROR,   /* -ERR unknown command: Redis understood, and refuses */
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

/*
 * Parses one whole reply, with everything in it.  Returns how many bytes it
 * has, 0 if more are needed, -1 if the bytes are no RESP2 or go beyond
 * REDIS_REPLY_LIMIT.
 */
ssize_t resp_parse(struct view input, struct resp_reply *reply);

/* Takes the next element from the front of items.  Returns false at the end. */
bool resp_next(struct view *items, struct resp_reply *item);

/* Appends a command: an array of strings, each of any bytes. */
void resp_append_command(struct buffer *buffer, const struct view *words,
                         size_t count);

#endif
