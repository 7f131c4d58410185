/* SPDX-License-Identifier: MIT */
/*
 * multicore: an event loop for each core, as in 07, in processes that are
 * forked at the start, as in 03.
 *
 *     clients          kernel              worker processes
 *
 *     A --------+     +---------+        +----------------------+
 *     B --------+---> | backlog | ---+-> | loop: A, C, Redis    |
 *     C --------+     |   E     |    |   +----------------------+
 *     D --------+     +---------+    +-> | loop: B, D, Redis    |
 *     E --------+                        +----------------------+
 *                                          parent: waits until one ends
 *
 * Who waits, and where?  Each worker waits in epoll_wait(), for its own
 * clients, its own connection to Redis, and the listening socket that all
 * workers share.
 *
 * Where does a half-done request live?  In its `struct event_conn`, on the heap
 * of one worker.  A connection stays with the worker that has accepted it: no
 * other worker can take it over, even if the first is busy.
 *
 * What does it cost?  Each core has a process and a connection to Redis.  While
 * a process has no client, it needs 80 KB of its own memory.  A request costs
 * as much CPU time as in 07, or a little more: with several loops, each call of
 * epoll_wait() returns fewer events.
 *
 * What happens at the limit?  Each worker has as many descriptors as 07, and
 * its share of the memory.  A handler that computes delays only the clients of
 * its worker.  If a worker crashes, only its clients are affected, and the
 * parent forks another.
 *
 * Why processes, and not threads?  A crash ends only one process.  Processes
 * share only counters and flags, so the loop of 07 needs no lock.  Speed is not
 * the reason: on two cores a version with threads took about as much CPU time.
 *
 * Which worker gets a connection?  The kernel gives it to the first worker in
 * its list that sleeps in epoll_wait(), so no connection stays in the backlog
 * while a worker sleeps.  But on a quiet server that is always the same worker.
 * If the connections of this worker are kept and then become busy, one core
 * does all the work.  With --listener-each every worker has a socket and a
 * backlog of its own (SO_REUSEPORT).  The kernel chooses by a hash of the
 * client's address and port.  So the workers receive about equal shares, but a
 * connection may wait for a busy worker while another worker sleeps.
 *
 * What to try: stop a worker for a second, with each kind of listener.  The
 * commands and the results are in docs/tutorial/book/13-multicore.md.
 *
 * To see it: `strace -f -e trace=/epoll,accept4 ./multicore --workers 2`: each
 * worker adds the listening socket to its own set (EPOLL_CTL_ADD with
 * EPOLLEXCLUSIVE).  For one client only one worker returns from epoll_wait.
 */
#include "config.h"
#include "net/children.h"
#include "net/readiness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

static const struct architecture architecture = {
    .name = "multicore",
    .summary = "one process per core, an event loop (epoll) in each",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
    .worker_memory = CHILD_MEMORY,
    .worker_per_core = true,
    .listeners = LISTENER_OPTION,
    .calls = {FORKING_CALLS, CALL(fcntl), CALL(prlimit64), CALL(epoll_create1),
              CALL(epoll_ctl), CALL(epoll_wait), CALL(poll)},
};

static struct children workers;

struct loop {
    int set; /* the epoll descriptor: the kernel's set of watched descriptors */
};

/* Creates the set after the fork, because a set from before the fork would be
   shared by all workers. */
static bool loop_init(struct loop *loop) {
    loop->set = epoll_create1(EPOLL_CLOEXEC);
    if (loop->set < 0)
        shortage_report("descriptors or memory");
    return loop->set >= 0;
}

/* EPOLLEXCLUSIVE (since Linux 4.5): a connection wakes only one of the loops
   that sleep on the shared listening socket.  Without this flag it wakes all
   loops, and only one of them can accept. */
static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    struct loop *loop = context;
    struct epoll_event event = {.events = interest, .data.ptr = source};
    int change = source->interest == 0 ? EPOLL_CTL_ADD
                 : interest == 0       ? EPOLL_CTL_DEL
                                       : EPOLL_CTL_MOD;

    if (source->descriptor < 0)
        return true;
    if (source->kind == SOURCE_LISTENER)
        event.events |= EPOLLEXCLUSIVE;
    return epoll_ctl(loop->set, change, source->descriptor, &event) == 0;
}

/* Sleeps until a descriptor is ready, and serves all ready descriptors. */
static void run_round(struct loop *loop, struct evented *evented) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(loop->set, events, EVENTS_AT_ONCE,
                           readiness_prepare_wait(evented));

    evented_begin_round(evented);
    for (int i = 0; i < count; i++)
        readiness_event(evented, events[i].data.ptr, events[i].events);
    readiness_end_round(evented);
}

/* The main function of a worker. */
static void work(struct server *server, size_t number) {
    struct evented evented;
    struct loop loop;

    if (!loop_init(&loop))
        return;
    server_take_listener(server, number);
    server->counters += number;
    readiness_init(&evented, server, (struct event_loop){watch, &loop});
    while (readiness_keep_running(&evented))
        run_round(&loop, &evented);
    readiness_free(&evented);
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
   worker crashes early.  A failed fork is logged and retried. */
static void replace_workers(struct server *server) {
    size_t number;

    if (server_is_stopping())
        children_stop(&workers);
    while (!children_are_complete(&workers) && start_worker(server)) {
    }
    bool complete = children_are_complete(&workers);
    if (!complete)
        shortage_report("processes");
    if (children_reap(&workers, complete, &number) || !complete)
        poll(NULL, 0, RETRY_DELAY);
}

int main(int argc, char **argv) {
    struct server server;

    server_start(&server, &architecture, argc, argv);
    children_init(&workers, &server, server.options.workers, false);

    server_ready(&server);
    while (!children_are_complete(&workers))
        if (!start_worker(&server)) /* the forked workers end with the parent */
            server_fatal("cannot fork worker %zu (%s); give fewer --workers",
                         *workers.alive + 1, strerror(errno));

    /* Ctrl-C sends a signal to all processes of the group.  If all workers have
       ended while clients are in the backlog, the parent forks new workers for
       these clients. */
    while (!server_shut_if_drained())
        replace_workers(&server);

    children_end(&workers);
    return server_end(&server);
}
