/* SPDX-License-Identifier: MIT */
/*
 * The limits and timeouts that the servers share, most with a reason.  (Those
 * of ops/ are in ops/limits.h.)
 *
 * All servers use the same limits, so that measurements compare only the
 * architectures.  Times are in milliseconds, sizes in bytes.
 */
#pragma once

/* ---- The cost of one client ---- */

/* RFC 9112, section 3, recommends at least 8,000 bytes for a request line. */
#define REQUEST_LINE_LIMIT   8000
/* The head of a browser's request is nearly always smaller. */
#define HEAD_LIMIT           16384
#define HEAD_FIELDS_LIMIT    100
/* About five times the longest form of the guestbook: 1,100 characters, four
   bytes each in UTF-8, each byte written as %XX. */
#define BODY_LIMIT           65536
/* The bytes that chunk sizes, extensions and trailers may add to a body. */
#define CHUNK_OVERHEAD_LIMIT 16384
/* First size of the receive buffer.  A request of a browser has about 700
   bytes.  Blocks up to 1,032 bytes are cheap: glibc caches them (tcache). */
#define RECEIVE_SIZE         1024
/* RESPONSE_SIZE: the first size of a response, for the head and a small body.
   NOTE_SIZE: the first size of a page that has no template. */
#define RESPONSE_SIZE        1024
#define NOTE_SIZE            384
/* The limit of a decoded path, with its NUL. */
#define PATH_SIZE            1024

/* Responses, replies of Redis and requests above these sizes are counted
   (budget_count() in ops.h).  CONNECTION_MEMORY includes a smaller request. */
#define LARGE_RESPONSE      16384
#define LARGE_REQUEST       4096
/* The timeouts of a client.  Further bytes extend only SEND_TIMEOUT.

   FIRST_TIMEOUT is for a connection that was accepted without a byte
   (TCP_DEFER_ACCEPT in net/listener.c), while other clients wait for a
   worker. */
#define FIRST_TIMEOUT       1000
/* The time between two requests of a connection.  It is short, because in 03
   and 05 an idle connection occupies a worker. */
#define IDLE_TIMEOUT        5000
/* The time for a whole request, from its first byte.  So there is a minimum
   rate: 52 kbit/s for a body of BODY_LIMIT.  A new client has the same time,
   from accept, for its first byte; in 06 to 09, for its first request. */
#define REQUEST_TIMEOUT     10000
/* A client whose kernel acknowledges no byte of its response for this long is
   disconnected.  The kernel of a slow client acknowledges in steps of a packet
   or a sixteenth of its buffer.  On loopback a step is 64 KB, so the minimum
   rate is 6.5 KB/s. */
#define SEND_TIMEOUT        10000
/* SEND_TIMEOUT is checked this often, and may be exceeded by two intervals. */
#define SEND_CHECK_INTERVAL 1000
/* The longest time that the server still reads before it closes a connection
   after a long response or a partly read request.  A close with unread bytes
   could lose the response. */
#define LINGER_TIMEOUT      2000
#define LINGER_LIMIT        (1024 * 1024)
/* Without this limit, a connection could occupy its worker forever. */
#define KEEP_ALIVE_REQUESTS 1000

/* ---- Redis ---- */

#define REDIS_CONNECT_TIMEOUT 1000
#define REDIS_REPLY_TIMEOUT   2000
/* While Redis is down, one request in each interval tries to connect. */
#define REDIS_RETRY           250
/* 01 to 05 check a connection before its use if it was idle this long, or if
   another one has failed since its last use.  A restart of Redis takes longer
   than this; under load, a connection is used more often. */
#define REDIS_CHECK_AFTER     50
/* A connection that was idle this long is closed, because other processes may
   need one.  (06 to 10 keep theirs.) */
#define REDIS_IDLE            10000
/* Threads that may connect to Redis at the same time.  The backlog of Redis has
   room for 511; a connection that finds no room waits for seconds. */
#define REDIS_NEW_AT_ONCE     128
/* The least time between two log lines "is unavailable", or two "is back". */
#define REDIS_LOG_INTERVAL    1000
/* Five times the size of fifty remarks of 4,000 bytes.  A larger reply, which
   only another program's data can cause, is skipped: its request fails. */
#define REDIS_REPLY_LIMIT     (1024 * 1024)
/* The limit of a reply that is a string: the target of a link.  No client could
   request a longer target from this server. */
#define REDIS_STRING_LIMIT    REQUEST_LINE_LIMIT
/* The longest string that Redis sends by default (proto-max-bulk-len).  A
   longer string is not skipped: the connection is closed. */
#define REDIS_SKIP_LIMIT      (512 * 1024 * 1024)
/* The limit of the memory for queued commands if Redis does not reply. */
#define REDIS_BACKLOG_LIMIT   (16 * 1024 * 1024)

/* ---- The application ---- */

#define REMARKS_SHOWN       50
#define GUEST_NAME_LIMIT    100  /* characters, not bytes */
#define GUEST_REMARKS_LIMIT 1000 /* characters, not bytes */
#define LINK_NAME_LIMIT     100
/* Files up to this size are kept in memory; sendfile(2) sends larger ones. */
#define SMALL_FILE          16384
/* The largest number of files that stay open while no client receives them. */
#define OPEN_FILES          64
#define TEMPLATE_LIMIT      (256 * 1024)

/* ---- The server ---- */

#define DEFAULT_PORT       8000
/* --time-scale N divides each timeout of a client by N, for short tests. */
#define DEFAULT_TIME_SCALE 1
#define TIME_SCALE_LIMIT   100
#define DEFAULT_WORKERS    100
#define WORKERS_LIMIT      10000
/* The kernel silently limits the backlog to net.core.somaxconn. */
#define DEFAULT_BACKLOG    65535
/* Processes (02) or threads (04) alive at the same time. */
#define CHILDREN_LIMIT     1000
/* Some containers allow a billion descriptors: too many for an array. */
#define DESCRIPTORS_LIMIT  262144
/* More than ten times what the deepest handler needs.  The default, 8 MiB, may
   be more address space than is allowed (ulimit -v). */
#define THREAD_STACK       (256 * 1024)
/* The memory that is reserved for one client if memory is limited (ulimit -v,
   -d).  A thread needs its stack and THREAD_HEAP, a connection of an event loop
   needs CONNECTION_MEMORY. */
#define THREAD_HEAP        (64 * 1024)
#define CONNECTION_MEMORY  (8 * 1024)
/* The memory that one client really uses: a child with its page tables, or a
   thread's used stack.  Both include the kernel's part of a connection. */
#define CHILD_MEMORY       (384 * 1024)
#define THREAD_MEMORY      (64 * 1024)
/* The longest time that a stopping server waits for requests in flight. */
#define STOP_TIMEOUT       5000
/* The pause before a failed call such as accept() is repeated, and the interval
   at which a stopping parent checks whether its children have ended. */
#define RETRY_DELAY        20
/* In each period of this length, a repeated message is logged only once with
   each text, and with LOG_TEXTS different texts at most. */
#define LOG_INTERVAL       60000
#define LOG_TEXTS          8
/* A stopping server wakes sleeping workers after RETRY_DELAY, and then at this
   interval (STOP_TIMEOUT is a multiple of it).  A thread that waits for a
   connection to Redis looks for a free one at least as often. */
#define WAKE_DELAY         125
/* The limits of one loop iteration, so that no client starves: events taken
   from the kernel, and accepted connections. */
#define EVENTS_AT_ONCE     512
#define ACCEPTS_AT_ONCE    512
/* Pipelined requests of one client that 06, 07 and 09 answer in one turn. */
#define EXCHANGES_AT_ONCE  16
/* The most bytes of one sendfile(2) call; then other clients are served. */
#define SENDFILE_AT_ONCE   (128 * 1024)
