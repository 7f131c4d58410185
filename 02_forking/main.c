/* SPDX-License-Identifier: MIT */
/*
 * forking: a child process is forked for each connection, serves it, and ends.
 *
 *     clients          kernel               parent          children
 *
 *     A --------+     +---------+  accept  +--------+ fork  +---+
 *     B --------+---> | backlog | -------> | parent | ----> | A |  one for
 *     C --------+     |         |          |        | ----> | B |  each
 *                     +---------+          +--------+ ----> | C |  connection
 *                         lends each a connection to Redis  +---+
 *
 * Who waits, and where?  Each child waits for its own client and for Redis, in
 * recv and send (and in poll, while it connects).  The parent waits in ppoll()
 * for the next client or a child's end; it never reads from a client or from
 * Redis.
 *
 * Where does a half-done request live?  On the stack of its child's
 * blocking_serve().  A child that crashes affects only its own client.
 *
 * What does it cost?  A fork, an exit and a wait for each connection: the
 * kernel copies the page tables and frees them again.  Together these calls
 * cost more than the rest of a small request.
 *
 * What happens at the limit?  If CHILDREN_LIMIT children are alive (fewer if
 * memory is short, see main()), the parent stops accepting until a child ends;
 * other clients wait in the backlog.  If fork() fails, the accepted client
 * waits, and the parent retries.  In both cases no connection is kept alive.
 *
 * Who owns a socket after fork()?  Both processes.  A connection to Redis can
 * outlive the child that used it, if the child reports the connection's state
 * (net/children.h).
 *
 * What to try: kill -9 a child while three clients are being served, and see
 * which clients fail; then do the same with 04.  The commands:
 * docs/tutorial/book/02-forking.md.
 *
 * To see it: `strace -f -e trace=process ./forking` shows for each client:
 * clone in the parent, exit_group in the child, wait4 in the parent.
 */
#include "config.h"
#include "net/blocking.h"
#include "net/children.h"

#include <unistd.h>

static const struct architecture architecture = {
    .name = "forking",
    .summary = "a child process for each connection",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, FORKING_CALLS, CALL(ppoll)},
};

static struct children children;

/* When all slots are taken, a client may be waiting in the backlog. */
static bool others_wait(const struct worker *worker) {
    (void)worker;
    return children_are_complete(&children);
}

/* Called in the parent after each sleep. */
static void reap_children(void) {
    size_t slot;

    while (children_reap(&children, false, &slot)) {
    }
    if (server_is_stopping())
        children_stop(&children); /* children close idle connections */
}

/* The parent formats the date: if each child formatted it, the kernel would
   copy more pages. */
static void fork_child(struct worker *worker, const struct client *client) {
    size_t slot;
    pid_t child;

    cached_time_set(&worker->cached_time, time(NULL));
    /* At the limit of processes fork() fails: retry until a process ends. */
    while ((child = children_fork(&children, &slot)) < 0 &&
           !server_is_out_of_time()) {
        shortage_report("processes");
        children_sleep(&children, -1, RETRY_DELAY);
        reap_children();
    }
    if (child == 0) {
        blocking_serve(worker, client);
        children_exit(&children, slot);
    }
    close(client->socket); /* the child has its own descriptor */
}

int main(int argc, char **argv) {
    struct server server;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    server_make_listener_nonblocking(&server);
    size_t limit = limit_by_memory(CHILDREN_LIMIT, 0, CHILD_MEMORY);
    children_init(&children, &server, limit, true);
    struct worker worker = {.server = &server,
                            .counters = server.counters,
                            .others_wait = others_wait};

    server_ready(&server);
    while (!server_shut_if_drained()) {
        bool comes = children_sleep(&children, server.listener, REDIS_IDLE);
        reap_children();
        if (comes && server_accept(&server, 0, &client))
            fork_child(&worker, &client);
    }

    children_end(&children);
    return server_end(&server);
}
