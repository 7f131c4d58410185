/* SPDX-License-Identifier: MIT */
#include "app/log_line.h"

#include <stdio.h>
#include <time.h>

static void append_printable(struct buffer *line, struct view text) {
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        char escaped[5];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            buffer_append(line, view_slice(text, i, 1));
        } else {
            snprintf(escaped, sizeof escaped, "\\x%02x", byte);
            buffer_append(line, view_of(escaped));
        }
    }
}

void log_line_append(struct buffer *line, const char *address,
                     const struct exchange *exchange) {
    struct view request = exchange->request.line;
    char time[40];
    struct tm tm;

    time_t now = exchange->response.cached_time->now;
    localtime_r(&now, &tm);
    strftime(time, sizeof time, "%d/%b/%Y:%H:%M:%S %z", &tm);
    buffer_append(line, view_of(address));
    buffer_append(line, VIEW(" - - ["));
    buffer_append(line, view_of(time));
    buffer_append(line, VIEW("] \""));
    append_printable(line, request.length > 0 ? request : VIEW("-"));
    buffer_append(line, VIEW("\" "));
    buffer_append_number(line, exchange->response.status);
    buffer_append(line, VIEW(" "));
    /* All bytes sent except the head. */
    uint64_t bytes = exchange->sent - exchange->response.head_length;
    if (bytes > 0)
        buffer_append_number(line, (int64_t)bytes);
    else
        buffer_append(line, VIEW("-"));
    buffer_append(line, VIEW("\n"));
}
