/* SPDX-License-Identifier: MIT */
/* Prints lines of the log; ends a server that cannot start. */
#ifndef PROCESS_LOG_H
#define PROCESS_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Prints what failed and what to do, in one line, and exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* Limits how often a message is logged.  The structure is all zero at first, in
   memory that all processes share if several may log the message.  Messages
   that come too soon are only counted. */
struct log_limit {
    _Atomic int64_t next_at; /* earliest time of the next line */
    _Atomic unsigned suppressed;
};

/* Counts a message that may be repeated for days.  Returns true if the message
   must be logged: the first time, then at most once in a LOG_INTERVAL. */
bool log_count_message(struct log_limit *limit, int64_t now);

/* Prints one line on standard error: the program's name, the text, and the
   number of such messages since the last line, if it is above 1.  Bytes of the
   text that are not printable ASCII become question marks. */
__attribute__((format(printf, 2, 3))) void log_limited(struct log_limit *limit,
                                                       const char *format, ...);

#endif
