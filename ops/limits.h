/* SPDX-License-Identifier: MIT */
/* The limits of ops/, most with a reason; see lib/config.h. */
#pragma once

#include "config.h"

/* ---- Memory ---- */

/* All large responses, requests and replies together may take 1/MEMORY_SHARE of
   the memory that the machine or the control group grants.  Those of one
   process may take the same share of its own limit. */
#define MEMORY_SHARE    4
/* If memory is limited, this part is reserved for files and Redis.  Without
   this reserve, the last clients' requests would have no memory. */
#define RESERVED_MEMORY (512 * 1024)
/* The memory for the largest request: two copies of a guestbook of 333 KB, and
   what the C library adds.  Redis' reply is in RESERVED_MEMORY. */
#define REQUEST_MEMORY  (1024 * 1024)
/* A block of this size or more returns to the kernel when it is freed; this is
   glibc's initial value (mallopt(3), M_MMAP_THRESHOLD). */
#define LARGE_BLOCK     (128 * 1024)
/* A large block that the C library still takes from its heap. */
#define HEAP_BLOCK      (LARGE_BLOCK - 1024)
/* The least size of the main thread's stack, which also has the environment.
   With 32 KB some of the servers crashed at their start, with 48 KB none. */
#define STACK_MINIMUM   (64 * 1024)
/* After this number of exchanges an event loop returns unused memory to the
   kernel, at most once in a TRIM_INTERVAL (milliseconds).  TRIM_PAD bytes stay
   at the heap's end, for the next exchanges. */
#define TRIM_AFTER      100
#define TRIM_INTERVAL   500
#define TRIM_PAD        (128 * 1024)

/* ---- Descriptors and files ---- */

/* For stdin, stdout, stderr, folders, listener, loop, Redis, file, clients. */
#define DESCRIPTORS_MINIMUM  16
/* For files, Redis, stdin, stdout and stderr: clients may not take them.
   If the system allows few descriptors, at most half of them are reserved. */
#define RESERVED_DESCRIPTORS (OPEN_FILES + 36)
/* Files that no client receives take at most 1/8 of all descriptors. */
#define OPEN_FILES_SHARE     8
/* A small file is kept only if it is unchanged for this number of seconds. */
#define FILE_SETTLE_TIME     3

/* ---- Shortages and the log, in milliseconds ---- */

/* After a shortage no connection is kept alive for this long. */
#define SHORTAGE       1000
/* Servers close idle connections to Redis for this long after Redis has
   rejected one (maxclients), or ports or the system's open files have run out.
   (06 to 10 keep theirs.) */
#define REDIS_SCARCE   5000
/* The longest time that a server waits for the reader of its output at its
   start and at its end.  Between start and end, no line waits (output.c). */
#define OUTPUT_TIMEOUT 1000
/* The time that the log writer sleeps after it has emptied its pipe.  The pipe
   holds 10,000 lines, enough at ten times the rate of the fastest server. */
#define WRITER_PAUSE   10
