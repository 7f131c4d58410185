/* SPDX-License-Identifier: MIT */
/*
 * The interface between lib/ (the first storey) and ops/ (the second storey).
 *
 * lib/ is a complete web server.  A production server also meets shortages
 * (descriptors, processes, Redis connections, memory), slow readers of the log,
 * and attackers.  ops/ handles these.
 *
 *     make all      links ops/
 *     make plain    links lib/plain/: the same functions, most in a line or two
 *
 * For a first reading of lib/ this header is enough; ops/ can be left out.
 */
#pragma once

#include "calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- The start and the end of a server, in this order ---- */

/* Raises the limit of descriptors, reads the limits of memory, opens the
   output.  Call it right after the command line was read.  `workers`: an
   upper limit of the processes that serve.  `log`: standard output is the
   access log. */
void ops_start(size_t workers, bool log);

/* Starts the log writers.  If `confined`, drops the rights to all files outside
   of public/ and templates/, and to all TCP ports except that of Redis (0:
   none).  Call this function when all other files are open. */
void ops_confine_files(bool confined, const char *root, int redis_port);

/* If `confined`, drops the rights to all system calls except those of lib/ and
   `calls`.  Call it before the first request.  Returns the remaining rights,
   for the banner.  Exits 1 after a failure or if memory is too short. */
const char *ops_confine_calls(bool confined, const struct call *calls);

/* For --print-syscalls: prints the calls of lib/, then `calls`. */
void ops_print_calls(const struct call *calls);

/* Ends the output: nothing may be printed after this. */
void ops_end(void);

/* ---- The number of clients ---- */

/* Returns the number of clients for which there are descriptors, at least 1.
   At most `served` of them are served at a time.  Each of these takes `more`
   further descriptors, for example for a file. */
size_t limit_by_descriptors(size_t served, size_t more);

/* Returns the number of clients for which there is memory, 1 to `most`.  Each
   client takes `real` bytes of memory, and `each` bytes of this process'
   address space (0: each client has its own process). */
size_t limit_by_memory(size_t most, size_t each, size_t real);

/* Logs that the resource `what` has run out, with errno as the reason. */
void shortage_report(const char *what);

/* Has a resource run out recently, in any process?  If so, no connection is
   kept alive, so that the first clients cannot block all others. */
bool shortage_is_recent(void);

/* ---- Memory ---- */

/* Changes the memory that is counted for one large response, request or reply
   of Redis, from `old` bytes to `new`.  Returns false, and changes nothing, if
   a limit forbids more. */
bool budget_change(size_t old, size_t new);

/* Changes *counted to `bytes` in this way; up to `free` bytes count as 0. */
static inline bool budget_count(size_t *counted, size_t bytes, size_t free) {
    size_t wanted = bytes > free ? bytes : 0;

    /* Nearly always both numbers are 0. */
    if (wanted != *counted && !budget_change(*counted, wanted))
        return false;
    *counted = wanted;
    return true;
}
void budget_set_slot(size_t slot); /* in a forked child, with its slot */
void budget_reset(size_t slot); /* in the parent, when that child has ended */

/* Returns unused memory to the kernel, if there is likely to be some.  Call
   this function at the end of an event loop's iteration, and again at the
   returned time (INT64_MAX: after the next exchange).  *exchanges: the number
   of exchanges since memory was last returned.  `busy`: clients wait for
   Redis. */
int64_t memory_trim(unsigned *exchanges, bool busy, int64_t now);

/* ---- Files ---- */

struct cache;
struct file;

/* Makes a cache for the files below an open folder, which cache_destroy()
   closes.  Returns NULL if out of memory.  `texts`: see file_open(). */
struct cache *cache_create(int folder, bool texts);
void cache_destroy(struct cache *cache); /* when nothing is borrowed */

/* Borrows the regular file of that name, relative to the folder.  In one round
   (app/response.h) the file is checked only once for a change.  After an
   error returns NULL with the errno of fstatat(2) or file_open(). */
struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round);
void cache_return(struct file *file);

/* ---- Output ---- */

/* Prints a line, which ends in a line feed, without waiting for a reader. */
void output_line(int descriptor, const char *line, size_t length);

/* Prints some lines, and may wait for their reader.  Call it only at the start
   and at the end of a server. */
void output_text(int descriptor, const char *text, size_t length);

/* ---- Statistics ---- */

struct exchange;
struct server;

/* One worker's counters, in a cache line of their own (process/shared.c). */
struct counters {
    _Alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t responses[6]; /* by the first digit of their status */
    _Atomic uint64_t bytes;        /* sent to clients */
};

/* Returns the counters of all workers, shared with processes forked later. */
struct counters *statistics_create(size_t workers);
void statistics_count(struct counters *counters,
                      const struct exchange *exchange);

/* Prints the sums, CPU time and peak memory, including ended children.  If the
   server has workers, also the least, median and most requests of a worker and
   the number of idle workers; with --each-worker, the requests of each. */
void statistics_print(const struct server *server, FILE *stream);

/* ---- Redis has no free connection ---- */

struct redis_server;
struct resp_reply;

/* `reply` is the first reply on a connection.  If it is the error "max number
   of clients reached", logs the error and returns true.  Redis then closes the
   connection, and has executed no command. */
bool redis_report_rejection(const struct redis_server *server,
                            const struct resp_reply *reply, int64_t now);

/* If the errno of redis_connect_start() shows that this host lacks a resource,
   perhaps only briefly, logs that and returns true.  The host may lack
   descriptors, ports, memory, or room in the queue of a Unix socket. */
bool redis_report_shortage(const struct redis_server *server, int64_t now);

/* Are connections to Redis scarce?  If so, idle connections are closed. */
bool redis_is_scarce(int64_t now);
