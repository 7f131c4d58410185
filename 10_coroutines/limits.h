/* SPDX-License-Identifier: MIT */
/* The limits of coroutines; see lib/config.h. */
#pragma once

#include "config.h"

/* The deepest use of a stack was 19 KB, by /sorted.  A request for another page
   uses 3 KB, a log message 7 KB.  A signal adds its frame of 4 KB, or up to 11
   KB with the largest registers of x86-64.  The address sanitizer needs
   more. */
#ifdef SANITIZED
#define COROUTINE_STACK (256 * 1024)
#else
#define COROUTINE_STACK (64 * 1024)
#endif
/* The guard below each stack allows no access.  It is larger than the largest
   frame of a function (16 KB, in /sorted), because such a frame could reach
   across a smaller guard. */
#define COROUTINE_GUARD  (32 * 1024)
/* COROUTINE_HEAP is the heap memory of a coroutine: as much as a connection of
   an event loop has.  COROUTINE_MEMORY is this memory, the used pages of the
   stack, and the kernel's memory for the connection. */
#define COROUTINE_HEAP   CONNECTION_MEMORY
#define COROUTINE_MEMORY (24 * 1024)
/* A stack and its guard are two mappings.  The kernel allows a process 65,530
   mappings (vm.max_map_count). */
#define COROUTINES_LIMIT 30000
/* While stacks are unused, half of them are unmapped every STACK_IDLE_TIME
   milliseconds, but at most STACKS_AT_ONCE in a loop iteration. */
#define STACK_IDLE_TIME  500
#define STACKS_AT_ONCE   256
/* The number of sending calls after which a coroutine lets the others run. */
#define SENDS_AT_ONCE    4
