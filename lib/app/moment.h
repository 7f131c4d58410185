/* SPDX-License-Identifier: MIT */
/*
 * The time as the application sees it: told by whoever drives it, never asked
 * for.  One a worker; nothing here is shared between threads.
 */
#ifndef APP_MOMENT_H
#define APP_MOMENT_H

#include "proto/http_fields.h"

struct moment {
    time_t now; /* seconds since 1970 */
    /* An event loop's round; 0: there is none.  All that a round answers was
       asked before it began: so a file need be looked at only once in it.  (Or
       the asking had begun.  Who changes a file between two packets of his own
       request, or of requests that he does not wait for, may get the old one.)
     */
    unsigned round;
    /* The fields Date and Server: the same in each response of one second. */
    char fields[sizeof "Date: \r\nServer: ZeroHTTPd-Seven\r\n" +
                HTTP_DATE_SIZE - 1];
};

/* Formats the fields anew only when the second has changed. */
void moment_set(struct moment *moment, time_t now);

void moment_next_round(struct moment *moment);

#endif
