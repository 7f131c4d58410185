/* SPDX-License-Identifier: MIT */
/* The listening socket, and its options. */
#pragma once

#include "net/options.h"

/* Opens a socket that listens at the address, or prints a line and exits 1. */
int listener_open(const struct options *options);

/* Opens another socket that listens on the port of the first one (SO_REUSEPORT,
   since Linux 3.9: socket(7)), with a backlog of its own.  The kernel chooses
   the socket by a hash of the client's address and port.  So a connection may
   wait for a busy worker while others are free.  Another program of the same
   user could now take a share of the port's connections. */
int listener_open_another(const struct options *options, int first);
