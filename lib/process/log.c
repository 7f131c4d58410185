/* SPDX-License-Identifier: MIT */
#include "process/log.h"

#include "config.h"
#include "ops.h"
#include "process/clock.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool log_count_message(struct log_limit *limit, int64_t now) {
    atomic_fetch_add(&limit->suppressed, 1);
    return clock_claim(&limit->next_at, now, LOG_INTERVAL);
}

/* Redis or a client may have sent the text.  A terminal would execute control
   characters, and some terminals bytes above ASCII (C1, also in UTF-8). */
void log_limited(struct log_limit *limit, const char *format, ...) {
    unsigned times = atomic_exchange(&limit->suppressed, 0);
    char text[1000], count[64] = "", line[1200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    if (times > 1)
        snprintf(count, sizeof count, " (%u times since the last such line)",
                 times);
    int length = snprintf(line, sizeof line, "%.80s: %s%s\n",
                          program_invocation_short_name, text, count);
    output_line(STDERR_FILENO, line, (size_t)length);
}

void server_fatal(const char *format, ...) {
    static char text[3 * PATH_MAX]; /* the stack may be small */
    va_list arguments;

    int name =
        snprintf(text, sizeof text, "%.80s: ", program_invocation_short_name);
    va_start(arguments, format);
    vsnprintf(text + name, sizeof text - (size_t)name - 1, format, arguments);
    va_end(arguments);
    size_t length = strlen(text);
    text[length] = '\n';
    output_text(STDERR_FILENO, text, length + 1);
    ops_end();
    exit(EXIT_FAILURE);
}
