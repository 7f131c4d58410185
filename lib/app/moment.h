/* SPDX-License-Identifier: MIT */
/*
 * The time as the application sees it: its driver sets it, with no system call
 * here.  One for each worker; nothing here is shared between threads.
 */
#ifndef APP_MOMENT_H
#define APP_MOMENT_H

#include "proto/http_fields.h"

struct moment {
    time_t now; /* seconds since 1970 */
    /* The number of an event loop's round; 0: there are no rounds.  A round
       answers only requests that came before it began, so it asks only once
       whether a file has changed.  (Some came only in part.  A client that
       changes a file between two packets of its request, or between two
       requests without waiting for the first answer, may get the old one.) */
    unsigned round;
    /* The fields Date and Server: the same in each response of one second. */
    char fields[sizeof "Date: \r\nServer: ZeroHTTPd-Seven\r\n" +
                HTTP_DATE_SIZE - 1];
};

/* Formats the fields anew only when the second has changed. */
void moment_set(struct moment *moment, time_t now);

void moment_next_round(struct moment *moment);

#endif
