/* SPDX-License-Identifier: MIT */
/* Messages about shortages and failures: at the start, and while serving. */
#ifndef PROCESS_TROUBLE_H
#define PROCESS_TROUBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints in one line what failed at the start, and what to do; exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* As shared_memory(); if there is none, prints that and exits 1. */
void *server_share(size_t size);

/* A rate-limited message of the log, all zero at first, in memory that all
   processes share: what comes again too soon is counted for the next line. */
struct log_limit {
    _Atomic int64_t next_at; /* the earliest next line; clock_milliseconds() */
    _Atomic unsigned untold;
};

/* Claims the next line.  Of all callers at once, one gets true and logs; then
   none for a pause, in milliseconds. */
bool log_limit_claim(struct log_limit *limit, int64_t now, int pause);

/* Prints one line on standard error, and waits for no reader
   (process/output.h): the program's name, the text, and how often it has come
   since the last such line, which begins to count anew. */
__attribute__((format(printf, 2, 3))) void log_limited(struct log_limit *limit,
                                                       const char *format, ...);

/* Something has run out, as errno shows: clients wait until another one ends.
   Logged at once, and then once in a LOG_PAUSE. */
void server_report_exhausted(const char *what);

/* Has something run out just now, in any process?  Then no connection is kept
   alive, or the first clients could keep out all others. */
bool server_is_under_pressure(void);

/* Call it before any fork, so that all processes share the messages' state. */
void trouble_init(void);

#endif
