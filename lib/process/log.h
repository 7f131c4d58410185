/* SPDX-License-Identifier: MIT */
/* A line of the log, and what ends a server at its start. */
#ifndef PROCESS_LOG_H
#define PROCESS_LOG_H

#include <stddef.h>

/* Prints in one line what failed at the start, and what to do; exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* Prints one line of the log on standard error: the program's name, the text,
   in which other bytes than printable ASCII become question marks, and `end`.
 */
void log_line(char *text, const char *end);

/* As shared_memory() (process/shared.h); if there is none, prints that and
   exits 1. */
void *server_share(size_t size);

#endif
