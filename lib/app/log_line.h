/* SPDX-License-Identifier: MIT */
/* A line of the access log, in the Common Log Format. */
#ifndef APP_LOG_LINE_H
#define APP_LOG_LINE_H

#include "app/exchange.h"

/* Appends the line for a finished exchange, with its line feed; `address` is
   the client's.  Only printable ASCII is written: a request line may hold
   anything. */
void log_line_append(struct buffer *line, const char *address,
                     const struct exchange *exchange);

#endif
