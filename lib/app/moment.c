/* SPDX-License-Identifier: MIT */
#include "app/moment.h"

void moment_set(struct moment *moment, time_t now) {
    if (moment->now == now && moment->date[0] != '\0')
        return;
    moment->now = now;
    http_format_date(now, moment->date);
}
