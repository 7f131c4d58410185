/* SPDX-License-Identifier: MIT */
/* Messages about shortages and failures: at the start, and while serving.
 */
#ifndef PROCESS_TROUBLE_H
#define PROCESS_TROUBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints in one line what failed at the start, and a fix; exits with 1.
 */
__attribute__((format(printf, 1, 2), noreturn)) void
server_give_up(const char *format, ...);

/* As shared_memory(); where there is none for it, says so and exits 1. */
void *server_share(size_t size);

/* One kind of news for the log, all zero at first, in memory that all processes
   share: what comes again too soon is counted and logged with the next line. */
struct news {
    _Atomic int64_t next_at; /* not logged before; clock_milliseconds() */
    _Atomic unsigned untold;
};

/* Is it time to log this again?  Only one of several simultaneous callers gets
   true; then none for a pause, in milliseconds. */
bool news_are_due(struct news *news, int64_t now, int pause);

/* Prints one line on standard error, and waits for no reader
   (process/output.h): the program's name, the text, and how often it has come
   since the last such line, which begins to count anew. */
__attribute__((format(printf, 2, 3))) void news_tell(struct news *news,
                                                     const char *format, ...);

/* Something has run out, and errno says why: clients wait until another one
   ends.  Logged at once, and then once in a NEWS_PAUSE. */
void server_is_out_of(const char *what);

/* Has something run out just now, in whichever process?  Then no connection is
   kept alive, or those who came first could keep out all others. */
bool server_is_short(void);

/* Call it before any fork, so that all processes know what has been said. */
void trouble_init(void);

#endif
