/* SPDX-License-Identifier: MIT */
/*
 * A Redis without a socket: it knows the few commands of the application, and
 * answers them correctly or in another way that a test sets.
 */
#ifndef FUZZ_FALSE_REDIS_H
#define FUZZ_FALSE_REDIS_H

#include "proto/bytes.h"

struct false_redis {
    int64_t visitors;
    int64_t remarks;    /* how many there are */
    struct buffer last; /* the newest one */
};

/*
 * Appends its correct reply to the command, which must be a complete array of
 * strings, and a command that the application may send.  If the reply contains
 * a visitor's number or a link, they are set as well.
 */
void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link);

#endif
