/* SPDX-License-Identifier: MIT */
#include "process/log.h"

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

/* Returns a hash of the text (FNV-1a), never 0. */
static uint32_t hash_of(const char *text) {
    uint32_t hash = 2166136261U;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash | 1;
}

bool log_count_message(struct log_limit *limit, const char *text) {
    uint32_t hash = hash_of(text);

    atomic_fetch_add(&limit->suppressed, 1);
    if (clock_claim(&limit->next_at, clock_milliseconds(), LOG_INTERVAL))
        for (int i = 0; i < LOG_TEXTS; i++)
            atomic_store(&limit->texts[i], 0);
    for (int i = 0; i < LOG_TEXTS; i++) {
        uint32_t logged = 0;
        if (atomic_compare_exchange_strong(&limit->texts[i], &logged, hash))
            return true;
        if (logged == hash)
            return false;
    }
    return false;
}

void log_limited(struct log_limit *limit, const char *format, ...) {
    char text[1000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (log_count_message(limit, text))
        log_line(limit, "%s", text);
}

/* The text may have parts from Redis or a client.  Terminals execute control
   characters; some also execute bytes above ASCII (C1, also in UTF-8). */
void log_line(struct log_limit *limit, const char *format, ...) {
    unsigned times = limit == NULL ? 0 : atomic_exchange(&limit->suppressed, 0);
    char text[1000], count[64] = "", line[1200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    if (times > 1)
        snprintf(count, sizeof count,
                 " (%u messages of this kind since the last line)", times);
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
