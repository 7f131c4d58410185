/* SPDX-License-Identifier: MIT */
/*
 * Memory, all zero, that is shared with every process forked later: what one
 * writes, all see.  NULL with errno set when there is none.  It is never freed:
 * it is needed to the end.
 */
#ifndef PROCESS_SHARED_H
#define PROCESS_SHARED_H

#include <stddef.h>

/* Some bytes of a mapping that several such pieces share: each mapping more
   makes each fork slower. */
void *shared_memory(size_t size);

/* In pages of its own: so a reader outside can find it (/proc/PID/maps). */
void *shared_pages(size_t size);

#endif
