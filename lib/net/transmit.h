/* SPDX-License-Identifier: MIT */
#ifndef NET_TRANSMIT_H
#define NET_TRANSMIT_H

#include "app/connection.h"

/*
 * Sends some of what is pending, with one system call: bytes in memory first,
 * together in one write, then the file's part.  sendfile(2) (since Linux 2.2)
 * sends that from the page cache: it is not copied into our memory.
 * Returns how many bytes went out, 0 if the file ends before it should, or -1
 * with errno set.  It sleeps if the socket does.
 */
ssize_t transmit(int socket, struct pending pending);

/* No response follows: ends our side of the connection, with the last bytes if
   they still wait for this (see transmit.c). */
void transmit_end(int socket);

/*
 * Whether the client takes what it is sent.  The return of a send call shows
 * only that the kernel had room in its buffer.  With a slow client it may have
 * none for long, and then a third of the buffer at once.
 */
struct progress {
    uint64_t taken; /* bytes that the client had acknowledged at the last check
                     */
    int64_t since;  /* clock_milliseconds() when it was last known to take some,
                       0: never; the driver's to set when the kernel had room */
};

/* Returns, after one system call, for how many milliseconds the client has
   taken nothing, as far as the checks can show.  (tcpi_bytes_acked of TCP_INFO,
   since Linux 4.1.) */
int64_t transmit_stalled(int socket, struct progress *progress, int64_t now);

#endif
