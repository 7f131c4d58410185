/* SPDX-License-Identifier: MIT */
#ifndef NET_TRANSMIT_H
#define NET_TRANSMIT_H

#include "app/exchange.h"

/*
 * Sends some of what is pending, with one system call: bytes in memory first,
 * together in one write, then the file's part, which goes from the page cache
 * to the socket without passing through us.  Returns how many bytes went out,
 * 0 if the file ends before it should, or -1 with errno set.  It sleeps if the
 * socket does.
 */
ssize_t transmit(int socket, struct exchange_pending pending);

#endif
