/* SPDX-License-Identifier: MIT */
/*
 * The time for the application: its driver sets it, the application never reads
 * the clock.  Each worker has one; no threads share it.
 */
#ifndef APP_CACHED_TIME_H
#define APP_CACHED_TIME_H

#include "proto/http_fields.h"

struct cached_time {
    time_t now; /* seconds since 1970 */
    /* The number of an event loop's iteration; 0: there are none.  An iteration
       answers only requests that came before it began, so it checks only once
       whether a file has changed.  (Some came only in part.  If a client
       changes a file between two packets of a request, or between two requests
       without waiting for the first answer, it may get the old file.) */
    unsigned round;
    /* The fields Date and Server: the same in each response of one second. */
    char fields[sizeof "Date: \r\nServer: ZeroHTTPd-Seven\r\n" +
                HTTP_DATE_SIZE - 1];
};

/* Formats the fields anew only when the second has changed. */
void cached_time_set(struct cached_time *cached_time, time_t now);

void cached_time_next_round(struct cached_time *cached_time);

#endif
