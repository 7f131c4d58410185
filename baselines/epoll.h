/* SPDX-License-Identifier: MIT */
/* Shared code of the baselines with epoll (07, 09): the loop. */
#pragma once

#include "evented.h"

#include <sys/epoll.h>

static int set;
static uint32_t *interests; /* by descriptor; 0: not watched */

/* EPOLLEXCLUSIVE is for 09: a connection wakes only one of the processes. */
static void watch(int descriptor, enum interest interest) {
    uint32_t events = interest == TO_READ ? EPOLLIN : EPOLLOUT;
    uint32_t before = interests[descriptor];
    bool shared = descriptor == loop.baseline.listener;
    struct epoll_event event = {.events =
                                    events | (shared ? EPOLLEXCLUSIVE : 0u),
                                .data.fd = descriptor};

    if (before == events)
        return;
    if (epoll_ctl(set, before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor,
                  &event) < 0)
        baseline_fatal("epoll_ctl");
    interests[descriptor] = events;
}

/* The kernel removes a closed descriptor from the set. */
static void stop_watching(int descriptor) {
    interests[descriptor] = 0;
}

__attribute__((noreturn)) static void loop_run(void) {
    struct epoll_event events[EVENTS_AT_ONCE];

    set = epoll_create1(EPOLL_CLOEXEC);
    interests = calloc(loop.limit, sizeof interests[0]);
    if (set < 0 || interests == NULL)
        baseline_fatal("start");
    watch(loop.baseline.listener, TO_READ);
    if (loop.redis >= 0)
        watch(loop.redis, TO_READ);
    for (;;) {
        int count = epoll_wait(set, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int descriptor = events[i].data.fd;
            if (descriptor == loop.baseline.listener)
                loop_accept();
            else if (descriptor == loop.redis)
                loop_receive_redis();
            else
                loop_serve(descriptor);
        }
        loop_send_redis();
    }
}
