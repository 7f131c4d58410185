/* SPDX-License-Identifier: MIT */
/* Functions of ops/ that other files of ops/ call. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- output.c ---- */

/* Makes writes to standard output and standard error return at once.  Call this
   function before the user is changed (--user), and before any fork.  `log`:
   standard output is the access log. */
void output_open(bool log);

/* Starts the log writers that are needed.  Call this function after the user
   was changed, before any fork or thread.  If no process may be forked
   (EAGAIN), logs that write(2) may block.  Any other failure returns -1 with
   errno set. */
int output_start_writers(void);

/* ---- shortage.c ---- */

/* Call this function before any fork, so that all processes share the state of
   a shortage. */
void shortage_init(void);

/* ---- budget.c ---- */

/* Sets the limits, in bytes: for all processes together, and for each process.
   `taken`: a counter for each process, in shared memory, so that a parent can
   reset the counter of a killed child. */
void budget_init(size_t limit, size_t process_limit, _Atomic size_t *taken,
                 size_t slots);

/* ---- memory.c ---- */

/* Returns the bytes that all processes of the server together may use.  This is
   the least of the machine's memory and the limits of the control group
   (versions 1 and 2) and its parents.  `root` is put before each path: ""
   except in a test. */
uint64_t memory_granted(const char *root);

/* Reads the memory that the server may use, and sets the budget of its
   `workers` processes.  Call it before the server confines itself.  After this
   call the C library returns each freed block of LARGE_BLOCK bytes or more to
   the kernel, not only the first one (mallopt(3), M_MMAP_THRESHOLD). */
void memory_init(size_t workers);

/* If there is no memory for that size and RESERVED_MEMORY, prints that and
   exits 1.  So a server that has started can answer. */
void memory_require(size_t size);
