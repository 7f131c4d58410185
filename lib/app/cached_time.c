/* SPDX-License-Identifier: MIT */
#include "app/cached_time.h"

#include <stdio.h>

void cached_time_set(struct cached_time *cached_time, time_t now) {
    char date[HTTP_DATE_SIZE];

    if (cached_time->now == now && cached_time->fields[0] != '\0')
        return;
    cached_time->now = now;
    http_format_date(now, date);
    snprintf(cached_time->fields, sizeof cached_time->fields,
             "Date: %s\r\nServer: ZeroHTTPd-Seven\r\n", date);
}

void cached_time_next_round(struct cached_time *cached_time) {
    if (++cached_time->round == 0)
        cached_time->round = 1;
}
