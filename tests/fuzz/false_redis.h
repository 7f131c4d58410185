/* SPDX-License-Identifier: MIT */
/*
 * A Redis without a socket: it knows the few commands of the application, and
 * answers them honestly or in any other way that the script says.
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
 * Appends its honest reply to the command, which must be whole, an array of
 * strings, and a command that the application may give.  If the reply holds a
 * visitor's number or a link, they are set as well.
 */
void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link);

#endif
