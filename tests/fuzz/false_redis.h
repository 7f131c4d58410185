/* SPDX-License-Identifier: MIT */
/*
 * A Redis without a socket: it knows the few commands of the application, and
 * answers them honestly or in any other way that it is told to.
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
 * Appends its honest reply to the command, which must be a whole one, an array
 * of strings, and one that the application may give.  Where that tells a
 * visitor's number or a link, they are set as well.
 */
void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link);

#endif
