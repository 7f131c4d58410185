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
    int64_t remarks;    /* their number */
    struct buffer last; /* the newest remark */
};

/*
 * Appends the right reply to the command.  Aborts if the command is not whole,
 * no array of strings, or unknown to the application.  If the reply is a
 * visitor's number or a link, *visitor or *link is set as well.
 */
void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link);

#endif
