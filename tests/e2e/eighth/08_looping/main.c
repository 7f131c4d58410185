/* SPDX-License-Identifier: MIT */
/*
 * An eighth server, which the tests build and run like the seven servers.
 * It forks processes at the start, each with an event loop.  A silent client
 * does not slow down the others, as in 06; it uses several cores, as in 03.
 */
#include "config.h"
#include "net/children.h"
#include "net/readiness.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* 09 changes only these two. */
#ifndef OWN_LISTENERS
#define OWN_LISTENERS false
#define NAME          "looping"
#endif

static const struct architecture architecture = {
    .name = NAME,
    .summary = "processes forked at the start, an event loop (epoll) in each",
    .listener_each = OWN_LISTENERS,
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
    .calls = {FORKING_CALLS, CALL(fcntl), CALL(prlimit64), CALL(epoll_create1),
              CALL(epoll_ctl), CALL(epoll_wait), CALL(madvise), CALL(poll)},
};

static struct children workers;

static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    struct epoll_event event = {.data.ptr = source};
    int change = source->interest == 0 ? EPOLL_CTL_ADD
                 : interest == 0       ? EPOLL_CTL_DEL
                                       : EPOLL_CTL_MOD;

    if (source->descriptor < 0)
        return true;
    if (interest & READABLE)
        event.events |= EPOLLIN;
    if (interest & WRITABLE)
        event.events |= EPOLLOUT;
    return epoll_ctl(*(int *)context, change, source->descriptor, &event) == 0;
}

static unsigned readiness_of(uint32_t events) {
    return (events & EPOLLIN ? READABLE : 0u) |
           (events & EPOLLOUT ? WRITABLE : 0u) |
           (events & (EPOLLERR | EPOLLHUP) ? BROKEN : 0u);
}

static void run_round(int set, struct evented *evented) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(set, events, EVENTS_AT_ONCE,
                           readiness_prepare_wait(evented));

    evented_begin_round(evented);
    for (int i = 0; i < count; i++)
        readiness_event(evented, events[i].data.ptr,
                        readiness_of(events[i].events));
    readiness_end_round(evented);
}

/* Run a worker's event loop until the server stops. */
static void work(struct server *server, size_t number) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct evented evented;

    if (OWN_LISTENERS)
        server_take_listener(server, number);
    if (set < 0)
        return;
    server->counters += number;
    readiness_init(&evented, server, (struct event_loop){watch, &set});
    while (readiness_keep_running(&evented))
        run_round(set, &evented);
    readiness_free(&evented);
}

static bool start_worker(struct server *server) {
    struct redis_pool unused;
    size_t number;
    pid_t pid = children_fork(&workers, &number, &unused);

    if (pid != 0)
        return pid > 0;
    work(server, number);
    children_exit(&workers, number, &unused);
}

int main(int argc, char **argv) {
    struct server server;
    size_t number;

    server_start(&server, &architecture, argc, argv);
    server_ready(&server);
    children_init(&workers, &server, server.options.workers, false);
    while (!children_are_complete(&workers))
        if (!start_worker(&server))
            server_fatal("cannot fork worker %zu (%s); give fewer --workers",
                         *workers.alive + 1, strerror(errno));
    while (!server_is_stopping()) {
        bool whole = children_are_complete(&workers) || start_worker(&server);
        (void)children_reap(&workers, whole, &number);
        if (!server_is_stopping())
            poll(NULL, 0, RETRY_DELAY);
    }
    children_end(&workers);
    return server_end(&server);
}
