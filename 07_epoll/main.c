/* SPDX-License-Identifier: MIT */
/*
 * epoll: one event loop serves all connections, and epoll_wait() sleeps for
 * all of them.
 *
 *     clients          kernel                    this process
 *
 *     A --------+    +--------------+  epoll_wait  +----------------------+
 *     B --------+--> | watched set: | -----------> | for each ready one:  |
 *     C --------+    | A B C Redis  |  "A, Redis"  |   serve it until its |
 *     Redis ----+    +--------------+              |   call would sleep   |
 *                       ^                          +----------------------+
 *                       +--- epoll_ctl: only what changed ---+
 *
 * Who waits, and where?  epoll_wait() is the only call that waits for the
 * network, and it waits for all clients.  Every other call on a socket returns
 * at once; if it would have to wait, the loop continues with another client.
 *
 * Where does a half-done request live?  In its `struct event_conn`, on the
 * heap: a state machine instead of a stack.  A request that waits for Redis is
 * in a queue, because all requests share one connection to Redis, and replies
 * come in order.
 *
 * What does it cost?  The kernel keeps the set between calls, so the cost of
 * epoll_wait() depends only on what is ready.  Ten thousand idle connections
 * cost some memory and no time.  Each change of interest is a system call.  So
 * a connection whose request is already there is served without entering the
 * set.
 *
 * What happens at the limit?  At the limit of descriptors the server stops
 * accepting until a client leaves; other clients wait in the backlog.  The
 * server uses only one core: a handler that computes delays all clients (try
 * /sorted).
 *
 * What to try: request a small file, while other clients request /sorted, which
 * computes.  The commands, and what to expect: docs/tutorial/book/07-epoll.md.
 *
 * To see it: `strace -e trace=/epoll ./epoll` shows no epoll_ctl for `curl -0
 * localhost:8000`, which sends its request at once, but EPOLL_CTL_ADD for an
 * idle client.  (On ARM, and with musl, epoll_wait is shown as epoll_pwait.)
 */
#include "config.h"
#include "net/readiness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static const struct architecture architecture = {
    .name = "epoll",
    .summary = "one process, one event loop (epoll)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(epoll_ctl), CALL(epoll_wait), CALL(poll)}, /* to stop */
};

_Static_assert((int)READABLE == EPOLLIN && (int)WRITABLE == EPOLLOUT &&
                   (int)BROKEN == (EPOLLERR | EPOLLHUP),
               "net/event_source.h needs the same values for poll and epoll");

struct loop {
    int set; /* the epoll descriptor: the kernel's set of watched descriptors */
};

static void loop_init(struct loop *loop) {
    loop->set = epoll_create1(EPOLL_CLOEXEC);
    if (loop->set < 0)
        server_fatal("cannot create an epoll set: %s", strerror(errno));
}

/* Reports the changed interest to the kernel, with one system call; the kernel
   stores it.  The kernel removes a closed descriptor from the set. */
static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    struct loop *loop = context;
    struct epoll_event event = {.events = interest, .data.ptr = source};
    int change = source->interest == 0 ? EPOLL_CTL_ADD
                 : interest == 0       ? EPOLL_CTL_DEL
                                       : EPOLL_CTL_MOD;

    if (source->descriptor < 0)
        return true;
    /* Fails only if memory is short (ENOMEM, or ENOSPC at the limit of
       fs.epoll.max_user_watches). */
    return epoll_ctl(loop->set, change, source->descriptor, &event) == 0;
}

/* Sleeps until a descriptor is ready, and serves all that are ready. */
static void run_round(struct loop *loop, struct evented *evented) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(loop->set, events, EVENTS_AT_ONCE,
                           readiness_prepare_wait(evented));

    evented_begin_round(evented);
    for (int i = 0; i < count; i++)
        readiness_event(evented, events[i].data.ptr, events[i].events);
    readiness_end_round(evented);
}

int main(int argc, char **argv) {
    struct server server;
    struct evented evented;
    struct loop loop;

    server_start(&server, &architecture, argc, argv);
    loop_init(&loop);
    readiness_init(&evented, &server, (struct event_loop){watch, &loop});

    server_ready(&server);
    while (readiness_keep_running(&evented))
        run_round(&loop, &evented);

    readiness_free(&evented);
    close(loop.set);
    return server_end(&server);
}
