/* SPDX-License-Identifier: MIT */
/* The parts of a start, for start.c: each is called once. */
#ifndef OPS_START_H
#define OPS_START_H

#include <stdbool.h>

/* ---- descriptors.c ---- */

/* The caller may have closed the first three (`>&-`).  The next file or socket
   would then be number 1, and a line of the log would go to a client or to
   Redis.  Opens what is missing. */
void descriptors_open_standard(void);

/* Each connection needs a descriptor: raises the soft limit to the hard one. */
void descriptors_raise_limit(void);

/* ---- output.c ---- */

/* Keeps both descriptors from waiting.  Call it while the process still has the
   user that started it, before any fork. */
void output_open(void);

/* Starts the log writers that are needed; `log`: standard output is the access
   log.  Call it after the user was changed, before any fork or thread.  If the
   user may have no more processes (EAGAIN), there is none: then a line waits
   for its reader.  Returns -1 with errno set for any other failure. */
int output_start_writers(bool log);

/* The process prints no more to standard output and standard error.  Waits
   OUTPUT_TIMEOUT at most for the log writers to write what they were given. */
void output_close(void);

/* ---- shortage.c ---- */

/* Call it before any fork, so that all processes know of a shortage. */
void shortage_init(void);

/* ---- redis_shortage.c ---- */

void redis_shortage_init(void);

#endif
