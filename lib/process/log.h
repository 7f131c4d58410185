/* SPDX-License-Identifier: MIT */
/* Prints a line of the log; ends a server that cannot start. */
#ifndef PROCESS_LOG_H
#define PROCESS_LOG_H

#include <stddef.h>

/* Prints one line, what failed at the start and what to do, and exits 1. */
__attribute__((format(printf, 1, 2), noreturn)) void
server_fatal(const char *format, ...);

/* Prints one line of the log on standard error: the program's name, the text,
   and `end`.  Bytes of the text that are not printable ASCII become question
   marks. */
void log_line(char *text, const char *end);

#endif
