/* SPDX-License-Identifier: MIT */
/* The limits of coroutines, each with its reason; see lib/config.h. */
#ifndef COROUTINES_LIMITS_H
#define COROUTINES_LIMITS_H

#include "config.h"

/* The deepest use was 19 KB, by /sorted; a request for another page uses 3 KB,
   a message for the log 7.  A signal adds its frame: 4 KB, up to 11 with the
   largest registers of x86-64.  The address sanitizer needs more. */
#ifdef SANITIZED
#define COROUTINE_STACK (256 * 1024)
#else
#define COROUTINE_STACK (64 * 1024)
#endif
/* The guard below each stack allows no access.  It is larger than the largest
   frame of a function (16 KB of /sorted), which could reach across a smaller
   guard. */
#define COROUTINE_GUARD  (32 * 1024)
/* COROUTINE_HEAP is a coroutine's part of the heap, like that of a connection
   of an event loop.  COROUTINE_MEMORY adds the used pages of its stack, and the
   kernel's part of a connection. */
#define COROUTINE_HEAP   CONNECTION_MEMORY
#define COROUTINE_MEMORY (24 * 1024)
/* A stack and its guard are two mappings, of which the kernel allows a
   process 65,530 (vm.max_map_count). */
#define COROUTINES_LIMIT 30000
/* After this time half of the unused stacks are unmapped, at most this many in
   a loop iteration. */
#define STACK_IDLE_TIME  500
#define STACKS_AT_ONCE   256
/* The number of sending calls after which a coroutine lets the others run. */
#define SENDS_AT_ONCE    4

#endif
