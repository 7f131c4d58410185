/* SPDX-License-Identifier: MIT */
/* What ends a server at its start. */
#ifndef PROCESS_LOG_H
#define PROCESS_LOG_H

#include <stddef.h>

/* Prints in one line what failed at the start, and what to do; exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* As shared_memory() (process/shared.h); if there is none, prints that and
   exits 1. */
void *server_share(size_t size);

#endif
