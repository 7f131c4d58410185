/* SPDX-License-Identifier: MIT */
/*
 * preforking: a fixed number of processes, forked at the start, each of which
 * serves one connection after another.
 *
 *     clients          kernel               worker processes
 *
 *     A --------+     +---------+  accept  +---+  +---+  +---+      +---+
 *     B --------+---> | backlog | -------> | A |  | B |  | C | ...  | 100 |
 *     C --------+     |  D  E   |          +---+  +---+  +---+      +---+
 *     D, E -----+     +---------+            parent: waits until one ends
 *
 * Who waits, and where?  Each worker waits for its own client and its own
 * connection to Redis, in recv and send (and in poll, while it connects).  Free
 * workers all sleep in accept() on the same socket; for each connection the
 * kernel wakes only one of them, not all (since Linux 2.4).
 *
 * Where does a half-done request live?  On the stack of its worker's
 * blocking_serve().  Workers share the listening socket and some counters and
 * flags, but no request.  A crash of a worker affects only its client, and the
 * parent forks another worker.
 *
 * What does it cost?  A process for each worker, forked once: worker and parent
 * share each page of memory until one of them writes to it.  Each worker has a
 * connection to Redis, and closes it after each use if Redis allows too few
 * connections (net/children.h).  The kernel switches processes whenever one
 * waits.
 *
 * What happens at the limit?  N workers serve N connections; the next
 * connection waits in the backlog until a worker is free.  While a connection
 * waits in the backlog and no worker is free, no connection is kept alive.  A
 * connection that was already idle holds its worker until IDLE_TIMEOUT.
 *
 * What to try: delay Redis' replies by 5 ms, and use 1, 2, 10 and 100 workers.
 * The commands, and what to expect: docs/tutorial/book/03-preforking.md.
 *
 * To see it: `ss -tlnp 'sport = :8000'`, while the server runs, shows one
 * listening socket, and 101 processes that share it.
 */
#include "config.h"
#include "net/blocking.h"
#include "net/children.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static const struct architecture architecture = {
    .name = "preforking",
    .summary = "processes forked at the start; each has one client at a time",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
    .worker_memory = CHILD_MEMORY,
    .calls = {BLOCKING_CALLS, FORKING_CALLS},
};

static struct children workers;

/* For each worker, in shared memory: whether it has a client.  There is no
   counter, because a killed worker could not decrement it. */
static _Atomic bool *is_busy;

/* Does a connection wait because no worker is free?  The backlog is checked
   only when all workers are busy, because the check costs a system call. */
static bool others_wait(const struct worker *worker) {
    for (size_t i = 0; i < worker->server->options.workers; i++)
        if (!atomic_load_explicit(&is_busy[i], memory_order_relaxed))
            return false;
    return server_has_backlog();
}

/* The main function of a worker. */
static void work(struct server *server, size_t number) {
    struct client client;
    struct worker worker = {.server = server,
                            .counters = &server->counters[number],
                            .others_wait = others_wait};

    while (!server_shut_if_drained()) {
        is_busy[number] = false;
        if (blocking_accept(server, &client)) {
            is_busy[number] = true;
            blocking_serve(&worker, &client);
        }
    }
}

/* Forks a worker for a free slot.  Returns false if that fails. */
static bool start_worker(struct server *server) {
    size_t number;
    pid_t pid = children_fork(&workers, &number);

    if (pid != 0)
        return pid > 0;
    work(server, number);
    children_exit(&workers, number);
}

/* Forks workers to replace workers that have ended (after a crash), and waits
   until the next worker ends.  The pause limits the rate of forks if each
   worker crashes early.  A failed fork is logged and retried.  A worker that
   Redis has rejected wakes the parent.  The parent then wakes all workers, so
   that they close idle connections to Redis. */
static void replace_workers(struct server *server) {
    size_t number;

    while (!children_are_complete(&workers) && start_worker(server)) {
    }
    if (!children_are_complete(&workers))
        shortage_report("processes");
    if (children_reap(&workers, children_are_complete(&workers), &number))
        is_busy[number] = true; /* the empty slot has no free worker */
    if (!server_is_stopping())
        poll(NULL, 0, RETRY_DELAY);
}

int main(int argc, char **argv) {
    struct server server;

    server_start(&server, &architecture, argc, argv);
    size_t count = server.options.workers;
    children_init(&workers, &server, count, false);
    is_busy = shared_allocate(count * sizeof *is_busy);

    server_ready(&server);
    while (!children_are_complete(&workers))
        if (!start_worker(&server)) /* the forked workers end with the parent */
            server_fatal("cannot fork worker %zu (%s); give fewer --workers",
                         *workers.alive + 1, strerror(errno));

    while (!server_is_stopping())
        replace_workers(&server);

    children_end(&workers);
    /* Ctrl-C goes to all processes of the group.  All workers may have ended
       before the parent has handled the signal.  So the parent serves clients
       that came after the workers ended. */
    work(&server, 0);
    return server_end(&server);
}
