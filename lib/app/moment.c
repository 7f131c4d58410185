/* SPDX-License-Identifier: MIT */
#include "app/moment.h"

#include <stdio.h>

void moment_set(struct moment *moment, time_t now) {
    char date[HTTP_DATE_SIZE];

    if (moment->now == now && moment->fields[0] != '\0')
        return;
    moment->now = now;
    http_format_date(now, date);
    snprintf(moment->fields, sizeof moment->fields,
             "Date: %s\r\nServer: ZeroHTTPd-Seven\r\n", date);
}

void moment_next_round(struct moment *moment) {
    if (++moment->round == 0)
        moment->round = 1;
}
