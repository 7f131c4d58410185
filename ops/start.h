/* SPDX-License-Identifier: MIT */
/* The parts of a start, for start.c: each is called once. */
#ifndef OPS_START_H
#define OPS_START_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- descriptors.c ---- */

/* Opens the standard descriptors that the caller has closed (`>&-`): otherwise
   a line of the log would go to a client or to Redis. */
void descriptors_open_standard(void);

/* Each connection needs a descriptor: raises the soft limit to the hard one. */
void descriptors_raise_limit(void);

/* ---- output.c ---- */

/* Keeps both descriptors from waiting.  Call it while the process still has the
   user that started it, before any fork. */
void output_open(void);

/* Starts the log writers that are needed; `log`: standard output is the access
   log.  Call it after the user was changed, before any fork or thread.  If
   processes are short (EAGAIN), there is none: a line waits for its reader.
   Returns -1 with errno set for any other failure. */
int output_start_writers(bool log);

/* Nothing more is printed: waits OUTPUT_TIMEOUT at most for the log writers. */
void output_close(void);

/* ---- shortage.c ---- */

/* Call it before any fork, so that all processes know of a shortage. */
void shortage_init(void);

/* ---- budget.c ---- */

/* Sets the limits, in bytes: for all processes together, and for each. `taken`:
   a counter for each process, in memory that all processes share.  When a child
   is killed, its parent can return what it had taken.  Until this call there is
   no limit. */
void budget_init(size_t limit, size_t process_limit, _Atomic size_t *taken,
                 size_t slots);

#endif
