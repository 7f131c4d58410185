/* SPDX-License-Identifier: MIT */
/*
 * A Redis without a socket, with the commands of the application.  Its replies
 * are correct; the caller may send a false one instead (dialogue.c).
 */
#pragma once

#include "proto/bytes.h"

struct false_redis {
    int64_t visitors;
    int64_t remarks;    /* their number */
    struct buffer last; /* the newest remark */
};

/*
 * Appends the correct reply to a command.  Aborts if the command is incomplete,
 * not an array of strings, or unknown to the application.  If the reply is a
 * visitor's number or a link, *visitor or *link is set as well.
 */
void false_redis_answer(struct false_redis *redis, struct view command,
                        struct buffer *reply, int64_t *visitor,
                        struct buffer *link);
