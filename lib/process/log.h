/* SPDX-License-Identifier: MIT */
/* Prints lines of the log; ends a server that cannot continue. */
#pragma once

#include "config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints one line, the program's name and the text, and exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* Limits how often a message is logged.  The structure is all zero at first.
   If several processes may log the message, it is in memory that they share.
   Messages that come too soon are only counted. */
struct log_limit {
    _Atomic int64_t next_at; /* when a logged text may be logged again */
    _Atomic unsigned suppressed;
    _Atomic uint32_t texts[LOG_TEXTS]; /* hashes of logged ones; 0: none */
};

/* Counts a message.  Returns true if it must be logged: in this LOG_INTERVAL
   its text is new, and fewer than LOG_TEXTS texts have been logged. */
bool log_count_message(struct log_limit *limit, const char *text);

/* Logs a message that may be repeated for days.  In a LOG_INTERVAL each text is
   logged once, and at most LOG_TEXTS different texts. */
__attribute__((format(printf, 2, 3))) void log_limited(struct log_limit *limit,
                                                       const char *format, ...);

/* Prints one line on standard error: the program's name, the text, and (if
   `limit` is not NULL) the number of messages since the last line, if above 1.
   Bytes of the text that are not printable ASCII become question marks. */
__attribute__((format(printf, 2, 3))) void log_line(struct log_limit *limit,
                                                    const char *format, ...);
