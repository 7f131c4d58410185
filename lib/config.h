/* SPDX-License-Identifier: MIT */
/*
 * Every limit and timeout of all seven servers, each with its reason.
 *
 * They stand in one header so that no server can differ from its neighbour in
 * anything but who waits, and where.  Times are in milliseconds, sizes in
 * bytes.
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
/* First size of the buffer for a response: the head, and behind it the body
   where that is small. */
#define RESPONSE_SIZE        1024
/* First size of the body of a page that only says what its status means.  More
   is needed for a redirect to a long address. */
#define NOTE_SIZE            384
/* A path below public/, decoded, with its NUL.  Memory for a path has at least
   SHORT_PATH bytes: so nearly all paths need a block of one size (see
   leave_blocks() in process/children.c). */
#define PATH_SIZE            1024
#define SHORT_PATH           64

/* Responses above this size are counted (app/budget.h): all of them together
   may take 1/MEMORY_SHARE of what the machine or the control group grants, and
   those of one process 1/MEMORY_SHARE of its RLIMIT_AS or RLIMIT_DATA.  The
   rest is for connections, small responses, Redis' replies and the kernel. */
#define LARGE_RESPONSE      16384
#define MEMORY_SHARE        4
/* How long a client may take.  All but SEND_TIMEOUT are deadlines.

   For the first byte of a connection that was accepted before any had come,
   while others wait for a worker: see TCP_DEFER_ACCEPT in net/listener.c.  A
   packet that was lost on its way comes again within this time. */
#define FIRST_TIMEOUT       1000
/* An idle kept-alive connection costs a worker in 03 and 05, so it is not
   kept for long. */
#define IDLE_TIMEOUT        5000
/* A whole request, from its first byte (from accept, while none has come): a
   client that sends a byte now and then is cut off, too.  So there is a
   least rate: 11 kbit/s for the longest form that the guestbook accepts (13
   KB), 52 kbit/s for a body of BODY_LIMIT. */
#define REQUEST_TIMEOUT     10000
/* A client that takes no byte of its response for this long has gone.  A client
   that takes some is served, however long that lasts.  (nginx's send_timeout,
   60 seconds, counts from one write that had room to the next.)  To take means
   that the client's kernel acknowledges.  One byte in this time would be
   enough.  But where a client reads slowly and its receive buffer is full, its
   kernel acknowledges in steps: a packet, or a sixteenth of the buffer, at
   once.  On loopback a step is 64 KB, so the least rate is 6.5 KB/s.  Tried
   with 8 clients at once: through 1 Mbit/s and 256 kbit/s all got all; through
   64 kbit/s, where packets are lost and one may get nothing for long, one of 16
   was cut off. */
#define SEND_TIMEOUT        10000
/* How often we look whether it takes some; so a client that has gone is cut off
   up to two of these late. */
#define SEND_LOOK           1000
/* How long we read on after an early error response, or a long one, so that the
   kernel does not reset the connection before the client has read it.  A
   client that goes on sending and does not read is reset after this time, for
   it holds a worker in 01, 03 and 05. */
#define LINGER_TIMEOUT      2000
#define LINGER_LIMIT        (1024 * 1024)
/* A long-lived connection would let a lucky client keep its worker for good. */
#define KEEP_ALIVE_REQUESTS 1000

/* ---- Redis ---- */

#define REDIS_CONNECT_TIMEOUT 1000
#define REDIS_REPLY_TIMEOUT   2000
/* Time without a new try after a failure, so that a Redis which is down costs
   each request nothing; service is back within a second. */
#define REDIS_RETRY           250
/* A connection that has rested this long is looked at before it is used:
   Redis may have been restarted meanwhile.  Shorter than a restart takes, and
   longer than a connection rests under load. */
#define REDIS_REST            50
/* A connection that is idle for this long is closed, because others may need a
   client of Redis.  (06 and 07 keep their only connection.) */
#define REDIS_IDLE            10000
/* At most so many threads begin a connection at once.  Redis' backlog has room
   for 511; a connection that finds none there waits for seconds. */
#define REDIS_NEW_AT_ONCE     128
/* After Redis rejects a connection (maxclients), or ports or the system's open
   files run out, servers close idle connections to Redis for this long.  (06
   and 07 keep their only one.) */
#define REDIS_SCARCE          5000
/* The log tells at most once in this time that Redis has gone or is back. */
#define REDIS_NEWS            1000
/* Fifty remarks of 4,000 bytes fit five times over.  A larger reply, which
   another program's remarks can cause, is skipped: its request fails. */
#define REDIS_REPLY_LIMIT     (1024 * 1024)
/* Redis sends no longer string unless its proto-max-bulk-len was raised (512 MB
   by default).  A longer one is not skipped: the connection is closed. */
#define REDIS_SKIP_LIMIT      (512 * 1024 * 1024)
/* Commands that wait for a Redis that says nothing must not fill the memory. */
#define REDIS_BACKLOG_LIMIT   (16 * 1024 * 1024)

/* ---- The application ---- */

#define REMARKS_SHOWN       50
#define GUEST_NAME_LIMIT    100  /* characters, not bytes */
#define GUEST_REMARKS_LIMIT 1000 /* characters, not bytes */
#define LINK_NAME_LIMIT     100
/* Files up to this size are kept in memory, and leave in the same write as the
   head; larger ones leave through sendfile(2) and never enter our memory. */
#define SMALL_FILE          16384
/* A file that has changed within so many seconds is read anew each time. */
#define FILE_SETTLES        3
/* Files that are kept open though no response uses them; or an eighth of the
   descriptors, if the system allows so few that this is less. */
#define OPEN_FILES          64
#define OPEN_FILES_SHARE    8
#define TEMPLATE_LIMIT      (256 * 1024)

/* ---- The server ---- */

#define DEFAULT_PORT         8000
/* Clients get 1/N of each time above: so a test of timeouts can be short. */
#define DEFAULT_TIME_SCALE   1
#define TIME_SCALE_LIMIT     100
#define DEFAULT_WORKERS      100
#define WORKERS_LIMIT        10000
/* Connections that wait to be accepted.  The kernel lowers it to
   net.core.somaxconn without a word. */
#define DEFAULT_BACKLOG      65535
/* Processes (02) or threads (04) alive at once; beyond that, connections wait
   in the backlog. */
#define CHILDREN_LIMIT       1000
/* With fewer there is hardly room for a client next to the standard three, the
   folders, the listener, the loop, Redis and a file. */
#define DESCRIPTORS_LEAST    16
/* Where the system allows a billion descriptors, as some containers do, we do
   not want arrays of that length. */
#define DESCRIPTORS_LIMIT    262144
/* The main thread's stack.  With 32 KB some servers crashed at their
   start, with 48 KB none; and the environment lies there as well. */
#define STACK_LEAST          (64 * 1024)
/* Our deepest handler needs a tenth of it.  The default is 8 MiB for a thread,
   8 GB for a thousand.  It is only address space, since memory is taken where
   it is used; but that may be limited as well (ulimit -v). */
#define THREAD_STACK         (256 * 1024)
/* If memory is limited (ulimit -v, -d), it sets how many clients are accepted.
   Counted are THREAD_HEAP for each thread, next to its stack, for the request
   that it serves; or CONNECTION_MEMORY for each connection of an event loop.
   RESERVED_MEMORY is left for files and Redis.  Otherwise the last accepted
   clients would find no memory for their requests, and would be rejected. */
#define THREAD_HEAP          (64 * 1024)
#define CONNECTION_MEMORY    (8 * 1024)
#define RESERVED_MEMORY      (512 * 1024)
/* What one client really takes of the memory that the machine or the control
   group grants: a child with its page tables, a thread with the used part of
   its stack; the kernel's part of a connection is included. */
#define CHILD_MEMORY         (384 * 1024)
#define THREAD_MEMORY        (64 * 1024)
/* A block from this size on goes back to the kernel when it is freed; glibc's
   own first value. */
#define LARGE_BLOCK          (128 * 1024)
/* The dearest request of a server without Redis' reply: a page of 333 KB, twice
   while it is made, and a block of connections of an event loop. */
#define REQUEST_MEMORY       (1024 * 1024)
/* The largest block that the C library takes from its heap.  A larger one gets
   a mapping of its own (mallopt(3), M_MMAP_THRESHOLD: 128 KB). */
#define HEAP_BLOCK           (127 * 1024)
/* Descriptors that clients may not take: files, Redis, the standard three; or
   half of all, where the system allows so few that this is less. */
#define RESERVED_DESCRIPTORS (OPEN_FILES + 36)
/* How long a stopped server waits for requests in flight. */
#define STOP_TIMEOUT         5000
/* How long accept rests when no descriptor is left, and how often a stopping
   server looks whether its workers have ended. */
#define PAUSE                20
/* Trouble may go on for days: the log repeats what it says of it after this
   time, and tells how often it has happened meanwhile. */
#define NEWS_PAUSE           60000
/* How long the start and the end of a server wait for the reader of what they
   print.  A line printed meanwhile waits for none (process/output.h). */
#define OUTPUT_TIMEOUT       1000
/* How long the log writer rests after it has emptied its pipe, whose capacity
   is 10,000 lines: at ten times the rate of the fastest server enough. */
#define WRITER_REST          10
/* After something has run out (descriptors, processes, memory) no connection is
   kept alive for this long.  While the shortage lasts, it is tried again every
   PAUSE, and each failure begins this time anew. */
#define SHORTAGE             1000
/* A sleeping thread of a stopping server is woken after 1, 2, 4 PAUSEs, then at
   this interval: ten thousand that are woken every 20 ms would take the CPU
   time of those that serve. */
#define STOP_PAUSE           160
/* An event loop gets memory for so many connections at once: enough for the C
   library to take it from the kernel, apart from the heap (mallopt(3),
   M_MMAP_THRESHOLD: 128 KB). */
#define CONNECTIONS_AT_ONCE  256
/* After so many exchanges an event loop gives back memory that it does not need
   now, once in a TIDY_PAUSE at most.  TIDY_REST bytes stay at the heap's end,
   for the next exchanges. */
#define TIDY_AFTER           100
#define TIDY_PAUSE           500
#define TIDY_REST            (128 * 1024)
/* Readiness events taken from the kernel at once, and connections accepted in
   one round: work per round is bounded, so that no client starves. */
#define EVENTS_AT_ONCE       512
#define ACCEPTS_AT_ONCE      512
/* Pipelined requests of one client that an event loop answers in one go. */
#define EXCHANGES_AT_ONCE    16
/* One sendfile(2) call: in an event loop a fast client with a huge file must
   leave time for the others. */
#define SENDFILE_AT_ONCE     (128 * 1024)

#endif
