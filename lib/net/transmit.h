/* SPDX-License-Identifier: MIT */
#pragma once

#include "app/connection.h"

/* Sends some of the pending bytes: the bytes in memory, or, if none are left,
   the part of the file.  For that part sendfile(2) (since Linux 2.2) reads the
   page cache, so nothing is copied into the server's memory.  Returns how many
   bytes it sent, 0 if the file is shorter than expected, or -1 with errno set.
   If the socket is blocking, the call may sleep. */
ssize_t transmit(int socket, struct pending pending);

/* The client's progress in receiving a response.  The return of a send call
   shows only that the kernel had room in its buffer.  If a client is slow, the
   buffer may be full for long, and then a third of it becomes free. */
struct progress {
    uint64_t acknowledged; /* bytes, at the last check */
    int64_t since; /* clock_milliseconds() of the last known progress, 0: none;
                      the driver sets it when the kernel had room */
};

/* Makes one system call and returns the milliseconds since the last known
   progress.  (tcpi_bytes_acked of TCP_INFO, since Linux 4.1.) */
int64_t transmit_stalled(int socket, struct progress *progress, int64_t now);
