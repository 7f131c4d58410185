/* SPDX-License-Identifier: MIT */
/*
 * Memory, all zero, that is shared with every process forked later.  All these
 * processes see each write.  If the kernel has no memory, the functions print
 * that and exit 1.  The memory is never freed, because it is needed to the end.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

/* An atomic that is not lock-free uses a lock in the memory of this process,
   which does not exclude other processes.  2 means: always lock-free. */
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 &&
                   ATOMIC_LONG_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "this processor has no lock-free atomics of the sizes needed");

/* Returns a part of a common mapping (above 64 KB: a separate mapping).  Each
   additional mapping makes each fork slower. */
void *shared_allocate(size_t size);

/* Returns a separate mapping: it has its own line in /proc/PID/maps. */
void *shared_allocate_pages(size_t size);
