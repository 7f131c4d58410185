/* SPDX-License-Identifier: MIT */
/*
 * The interface between the two storeys.
 *
 * lib/ is a complete web server.  On a real machine it also meets shortages
 * (descriptors, processes, Redis connections, memory), slow readers of the log,
 * and attackers.  The code for these is in ops/; this header declares it.
 *
 *     make all      links ops/, the second storey
 *     make plain    links lib/plain/: the same functions, most in a line or two
 *
 * A first reading of lib/ needs only these comments.
 */
#ifndef OPS_H
#define OPS_H

#include "calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- The start and the end of a server, in this order ---- */

/* Right after the command line was read.  `workers`: the largest number of
   processes that serve. */
void ops_start(size_t workers);

/* When all files are open: drops the rights to others.  The only TCP port that
   may be connected to is that of Redis (0: none).  `log`: standard output is
   the access log. */
void ops_confine_files(bool confined, const char *root, int redis_port,
                       bool log);

/* Before the first request: drops the other rights; all calls of lib/ are left,
   and these.  Returns the rights that are left, for the banner.  Exits 1 if
   there is no memory for one request. */
const char *ops_confine_calls(bool confined, const struct call *calls);

/* For --print-syscalls: prints the calls of lib/, then these. */
void ops_print_calls(const struct call *calls);

/* Nothing more is printed. */
void ops_end(void);

/* ---- The number of clients ---- */

/* Returns the number of clients for which there are descriptors, at least 1.
   At most `served` of them are served at once.  Each of these takes `more`
   additional descriptors: a connection to Redis, a file. */
size_t server_room_for_clients(size_t served, size_t more);

/* Returns the number of clients for which there is memory, 1 to `most`.  Each
   takes `real` bytes of memory, and `each` bytes of this process' addresses; 0:
   it gets a process of its own. */
size_t server_room_in_memory(size_t most, size_t each, size_t real);

/* A resource has run out, as errno shows: clients wait until another one ends.
   Logs that. */
void server_report_exhausted(const char *what);

/* Has a resource run out recently, in any process?  Then no connection is kept
   alive, so that the first clients cannot block all others. */
bool server_is_under_pressure(void);

/* ---- Memory ---- */

/* The memory of large responses.  Changes what one of them takes from `old` to
   `new` bytes; returns false, and changes nothing, if a limit forbids more. */
bool budget_change(size_t old, size_t new);
void budget_set_slot(size_t slot); /* a forked child: its slot */
void budget_reset(size_t slot); /* that child has ended: returns all it took */

/* Objects of one size, which live long: the connections of an event loop. */
struct slab {
    size_t size;               /* of one object, in bytes */
    size_t per_block;          /* how many are allocated at once */
    struct slab_block *blocks; /* the newest first */
    size_t unused;             /* those of the newest that were never taken */
    struct free_object *free;
};
void slab_init(struct slab *slab, size_t size, size_t per_block);
void *slab_take(struct slab *slab); /* all zero; NULL: there is no memory */
void slab_give_back(struct slab *slab, void *object);
void slab_free(struct slab *slab); /* all were given back */

/* Before the first fork of a server that forks many children. */
void memory_prepare_forks(void);

/* The state of memory_trim() in an event loop. */
struct trim {
    unsigned exchanges; /* count them here */
    int64_t next_at;    /* clock_milliseconds(): not before then */
};

/* At the end of a loop iteration: returns unused memory to the kernel, if there
   is likely to be some.  `busy`: clients wait for Redis.  Returns the latest
   time of the next call; INT64_MAX: after the next exchange. */
int64_t memory_trim(struct trim *trim, bool busy, int64_t now);

/* ---- Files ---- */

struct cache;
struct file;

/* Opens a folder, with the files below it; NULL with errno set if that fails.
   `texts`: small files that are all kept in memory (file_open()). */
struct cache *cache_create(const char *folder, bool texts);
void cache_destroy(struct cache *cache); /* nothing is borrowed any more */

/* Borrows the regular file of that name, relative to the folder, as it is in
   that loop iteration (app/response.h).  Errors are those of file_open(). */
struct file *cache_borrow(struct cache *cache, const char *name,
                          unsigned round);
void cache_return(struct cache *cache, struct file *file);

/* ---- Output ---- */

/* Prints one line, which ends in a line feed; waits for no reader. */
void output_line(int descriptor, const char *line, size_t length);

/* Prints some lines: for the start and the end of a server, when no request
   waits. */
void output_text(int descriptor, const char *text, size_t length);

/* ---- Statistics ---- */

struct exchange;

/* One worker's counters, in a separate cache line: writes of several cores to
   one line are slow (false sharing). */
struct counters {
    _Alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t responses[6]; /* by the first digit of their status */
    _Atomic uint64_t bytes;        /* sent to clients */
};

/* Returns the counters of this number of workers, shared with every process
   forked later. */
struct counters *statistics_create(size_t workers);
void statistics_count(struct counters *counters,
                      const struct exchange *exchange);

/* Three kinds of output about the workers: nothing; the least, median and most
   requests and the number of idle workers; that, and the requests of each. */
enum statistics_workers { NO_WORKERS, WORKERS_SUMMARY, EACH_WORKER };

/* Prints the sums, and the CPU time of this process and of its ended children.
 */
void statistics_print(const struct counters *counters, size_t workers,
                      enum statistics_workers detail, FILE *stream);

/* ---- Redis has no free connection ---- */

struct redis_server;
struct resp_reply;

/* If Redis says with this first reply on a connection that it has no free
   connection (maxclients), logs that and returns true.  Redis then closes, and
   has executed nothing. */
bool redis_report_rejection(const struct redis_server *server,
                            const struct resp_reply *reply, int64_t now);

/* If errno of redis_connect_start() shows a shortage on our side, perhaps a
   short one, logs that and returns true: descriptors, ports, memory, or the
   queue of a Unix socket. */
bool redis_report_shortage(const struct redis_server *server, int64_t now);

/* Are connections to Redis scarce?  Then idle ones are closed. */
bool redis_is_scarce(int64_t now);

#endif
