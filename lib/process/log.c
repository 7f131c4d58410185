/* SPDX-License-Identifier: MIT */
#include "process/log.h"

#include "ops.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Others may have written the text; a terminal must not obey them.  Some take
   bytes above ASCII for control characters as well (C1, also in UTF-8). */
void log_line(char *text, const char *end) {
    char line[1200];

    for (char *c = text; *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    int length = snprintf(line, sizeof line, "%.80s: %s%s\n",
                          program_invocation_short_name, text, end);
    output_line(STDERR_FILENO, line, (size_t)length);
}

void server_fatal(const char *format, ...) {
    static char text[3 * PATH_MAX]; /* the stack may be short */
    va_list arguments;

    int name =
        snprintf(text, sizeof text, "%.80s: ", program_invocation_short_name);
    va_start(arguments, format);
    vsnprintf(text + name, sizeof text - (size_t)name - 1, format, arguments);
    va_end(arguments);
    size_t length = strlen(text);
    text[length] = '\n';
    output_text(STDERR_FILENO, text, length + 1);
    exit(EXIT_FAILURE);
}
