/* SPDX-License-Identifier: MIT */
/* How many descriptors there are, and for how many clients. */
#ifndef PROCESS_DESCRIPTORS_H
#define PROCESS_DESCRIPTORS_H

#include <stddef.h>

/* The caller may have closed the first three (`>&-`).  The next file or socket
   would then be number 1, and a line of the log would go to a client or to
   Redis.  Opens what is missing. */
void descriptors_open_standard(void);

/* Each connection needs a descriptor: raises the soft limit to the hard one. */
void descriptors_raise_limit(void);

/* Returns how many clients may be connected, so that descriptors are left for
   them and for the RESERVED_DESCRIPTORS.  At most `served` of them are served
   at once, and each of these takes `more` in addition to its own: a connection
   to Redis, a file.  At least 1. */
size_t server_room_for_clients(size_t served, size_t more);

#endif
