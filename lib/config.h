/* SPDX-License-Identifier: MIT */
/*
 * Every limit and timeout of all seven servers, each with its reason.  (Those
 * of the second storey are in ops/limits.h.)
 *
 * They are in one header so that the servers differ only in who waits, and
 * where.  Times are in milliseconds, sizes in bytes.
 */
#ifndef CONFIG_H
#define CONFIG_H

/* ---- What one client may cost ---- */

/* RFC 9112, section 3, wants at least 8,000 for a request line. */
#define REQUEST_LINE_LIMIT   8000
/* Browsers with large cookies stay below this. */
#define HEAD_LIMIT           16384
#define HEAD_FIELDS_LIMIT    100
/* Five times the longest form that the guestbook accepts: 1,100 characters,
   four bytes each in UTF-8, each byte written as %XX. */
#define BODY_LIMIT           65536
/* What chunk sizes, extensions and trailers may add to a chunked body. */
#define CHUNK_OVERHEAD_LIMIT 16384
/* First size of the buffer for what a client sends: one request of a browser
   fits (Chromium's has 700 bytes), so nearly all requests are read with one
   call.  Blocks of up to 1,032 bytes are cheap: glibc keeps a list of freed
   ones for each thread (tcache, since glibc 2.26). */
#define RECEIVE_SIZE         1024
/* First size of the buffer for a response: the head and, if it is small, the
   body. */
#define RESPONSE_SIZE        1024
/* First size of the body of a page that only explains its status.  A redirect
   to a long address needs more. */
#define NOTE_SIZE            384
/* A path below public/, decoded, with its NUL.  Memory for a path has at least
   SHORT_PATH bytes: so nearly all paths need a block of one size
   (memory_prepare_forks() in ops/memory.c). */
#define PATH_SIZE            1024
#define SHORT_PATH           64

/* Responses above this size are counted (budget_take() in ops.h). */
#define LARGE_RESPONSE      16384
/* How long a client may take.  All but SEND_TIMEOUT are deadlines.

   For the first byte of a connection that was accepted before any had come,
   while others wait for a worker: see TCP_DEFER_ACCEPT in net/listener.c.  A
   packet that was lost on its way comes again within this time. */
#define FIRST_TIMEOUT       1000
/* An idle kept-alive connection costs a worker in 03 and 05, so it is not
   kept for long. */
#define IDLE_TIMEOUT        5000
/* A whole request, from its first byte (from accept, while none has come).  A
   client that sends a byte now and then is disconnected, too.  So there is a
   minimum rate: 11 kbit/s for the longest form that the guestbook accepts (13
   KB), 52 kbit/s for a body of BODY_LIMIT. */
#define REQUEST_TIMEOUT     10000
/* A client that takes no byte of its response for this long has gone.  A client
   that takes some is served, however long that lasts.  (nginx's send_timeout,
   60 seconds, counts from one write that had room to the next.) To take means
   that the client's kernel acknowledges.  One byte in this time would be
   enough.  But if a client reads slowly and its receive buffer is full, its
   kernel acknowledges in steps: a packet, or a sixteenth of the buffer, at
   once.  On loopback a step is 64 KB, so the minimum rate is 6.5 KB/s.  Tested
   with 8 clients at once: at 1 Mbit/s and 256 kbit/s all received all.  At 64
   kbit/s packets are lost, and a client may receive nothing for long: one of 16
   was disconnected. */
#define SEND_TIMEOUT        10000
/* How often the server checks whether the client takes some; so a client that
   has gone is disconnected up to two of these intervals late. */
#define SEND_LOOK           1000
/* How long the server reads on after an early error response, or a long one, so
   that the kernel does not reset the connection before the client has read it.
   A client that goes on sending and does not read is reset after this time,
   because it holds a worker in 01, 03 and 05. */
#define LINGER_TIMEOUT      2000
#define LINGER_LIMIT        (1024 * 1024)
/* A connection without this limit would keep its worker for good. */
#define KEEP_ALIVE_REQUESTS 1000

/* ---- Redis ---- */

#define REDIS_CONNECT_TIMEOUT 1000
#define REDIS_REPLY_TIMEOUT   2000
/* After a failure no request tries Redis for this long, so that Redis costs
   nothing while it is down.  Service is back within a second. */
#define REDIS_RETRY           250
/* A connection that was idle this long is checked before it is used, because
   Redis may have restarted.  The time is shorter than a restart, and longer
   than a connection is idle under load. */
#define REDIS_REST            50
/* A connection that was idle this long is closed: others may need it.  (06 and
   07 keep their only connection.) */
#define REDIS_IDLE            10000
/* The log reports at most once in this time that Redis has gone or is back. */
#define REDIS_LOG_INTERVAL    1000
/* Fifty remarks of 4,000 bytes fit five times over.  A larger reply, which
   another program's remarks can cause, is skipped: its request fails. */
#define REDIS_REPLY_LIMIT     (1024 * 1024)
/* Redis sends no longer string unless its proto-max-bulk-len was raised (512 MB
   by default).  A longer one is not skipped: the connection is closed. */
#define REDIS_SKIP_LIMIT      (512 * 1024 * 1024)
/* Limits the memory for commands that wait for a Redis that does not reply. */
#define REDIS_BACKLOG_LIMIT   (16 * 1024 * 1024)

/* ---- The application ---- */

#define REMARKS_SHOWN       50
#define GUEST_NAME_LIMIT    100  /* characters, not bytes */
#define GUEST_REMARKS_LIMIT 1000 /* characters, not bytes */
#define LINK_NAME_LIMIT     100
/* Files up to this size are kept in memory and sent in one write with the head;
   larger ones are sent with sendfile(2) and never enter our memory. */
#define SMALL_FILE          16384
/* Files that are kept open while no client receives them. */
#define OPEN_FILES          64
#define TEMPLATE_LIMIT      (256 * 1024)

/* ---- The server ---- */

#define DEFAULT_PORT       8000
/* Each time limit for clients above is divided by N, so tests are short. */
#define DEFAULT_TIME_SCALE 1
#define TIME_SCALE_LIMIT   100
#define DEFAULT_WORKERS    100
#define WORKERS_LIMIT      10000
/* Connections that wait to be accepted.  The kernel lowers it silently to
   net.core.somaxconn. */
#define DEFAULT_BACKLOG    65535
/* Processes (02) or threads (04) alive at once; beyond that, connections wait
   in the backlog. */
#define CHILDREN_LIMIT     1000
/* If the system allows a billion descriptors, as some containers do, arrays of
   that length would be too large. */
#define DESCRIPTORS_LIMIT  262144
/* Our deepest handler needs a tenth of it.  The default is 8 MiB for a thread,
   8 GB for a thousand.  It is only address space, since memory is taken when it
   is used; but that may be limited as well (ulimit -v). */
#define THREAD_STACK       (256 * 1024)
/* If memory is limited (ulimit -v, -d), the limit sets the number of clients.
   A thread counts as THREAD_HEAP, for the request that it serves, and its
   stack.  A connection of an event loop counts as CONNECTION_MEMORY. */
#define THREAD_HEAP        (64 * 1024)
#define CONNECTION_MEMORY  (8 * 1024)
/* What one client really takes of the memory that the machine or the control
   group grants: a child with its page tables, a thread with the used part of
   its stack; the kernel's part of a connection is included. */
#define CHILD_MEMORY       (384 * 1024)
#define THREAD_MEMORY      (64 * 1024)
/* The deepest use was 19 KB, by /sorted; a request for another page uses 3 KB,
   a message for the log 7.  A signal adds its frame: 4 KB, up to 11 with the
   largest registers of x86-64.  The address sanitizer puts borders around
   variables. */
#ifdef SANITIZED
#define COROUTINE_STACK (256 * 1024)
#else
#define COROUTINE_STACK (64 * 1024)
#endif
/* Below each stack, without access: more than the largest frame of a function,
   16 KB of /sorted, which would step over a smaller guard into the next
   stack. */
#define COROUTINE_GUARD     (32 * 1024)
/* A coroutine's part of the heap, as that of a connection of an event loop; and
   what it really takes: that, the used pages of its stack, and the kernel's
   part of a connection. */
#define COROUTINE_HEAP      CONNECTION_MEMORY
#define COROUTINE_MEMORY    (24 * 1024)
/* A stack and its guard are two mappings, of which the kernel allows a
   process 65,530 (vm.max_map_count). */
#define COROUTINES_LIMIT    30000
/* Stacks that no coroutine needed for this long are unmapped, this many in one
   loop iteration. */
#define STACK_REST          500
#define STACKS_AT_ONCE      256
/* How long a stopped server waits for requests in flight. */
#define STOP_TIMEOUT        5000
/* How long accept pauses when no descriptor is left, and how often a stopping
   server checks whether its workers have ended. */
#define RETRY_DELAY         20
/* A shortage may last for days: the log repeats the message after this time,
   with the number of occurrences. */
#define LOG_INTERVAL        60000
/* A worker that sleeps while a server stops is woken after a RETRY_DELAY, after
   two, four, and at last this often.  To wake ten thousand every 20 ms would
   take the CPU time of the workers that still serve. */
#define WAKE_DELAY          160
/* An event loop allocates this number of connections at once: enough for the C
   library to take it from the kernel, apart from the heap (mallopt(3),
   M_MMAP_THRESHOLD: 128 KB). */
#define CONNECTIONS_AT_ONCE 256
/* Readiness events taken from the kernel at once, and connections accepted in
   one loop iteration: work per iteration is bounded, so that no client starves.
 */
#define EVENTS_AT_ONCE      512
#define ACCEPTS_AT_ONCE     512
/* Pipelined requests of one client that an event loop answers in one go. */
#define EXCHANGES_AT_ONCE   16
/* Calls that send, after which a coroutine gives the others a turn. */
#define SENDS_AT_ONCE       4
/* One sendfile(2) call: in an event loop a fast client with a huge file must
   leave time for the others. */
#define SENDFILE_AT_ONCE    (128 * 1024)

#endif
