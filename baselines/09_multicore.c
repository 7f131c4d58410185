/* SPDX-License-Identifier: MIT */
/* The baseline of 09_multicore: the loop of 07, in a process for each core, and
   one listening socket for all. */
#include "evented.h"

#include <sched.h>
#include <sys/epoll.h>

static int set;
static uint32_t *interests; /* by descriptor; 0: not watched */

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
        baseline_give_up("epoll_ctl");
    interests[descriptor] = events;
}

/* A descriptor that is closed leaves the set by itself. */
static void stop_watching(int descriptor) {
    interests[descriptor] = 0;
}

/* The set, and the connection to Redis, are not shared with the parent. */
__attribute__((noreturn)) static void work(const struct baseline *baseline) {
    struct epoll_event events[EVENTS_AT_ONCE];

    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        baseline_give_up("epoll_create1");
    watch(baseline->listener, TO_READ);
    loop.redis = baseline_connect(&baseline->redis);
    if (loop.redis >= 0)
        watch(loop.redis, TO_READ);
    for (;;) {
        int count = epoll_wait(set, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int descriptor = events[i].data.fd;
            if (descriptor == baseline->listener)
                loop_accept();
            else if (descriptor == loop.redis)
                loop_receive_redis();
            else
                loop_serve(descriptor);
        }
        loop_send_redis();
    }
}

int main(int argc, char **argv) {
    cpu_set_t cores;

    loop_start(argc, argv);
    interests = calloc(loop.limit, sizeof interests[0]);
    if (interests == NULL || sched_getaffinity(0, sizeof cores, &cores) < 0)
        baseline_give_up("start");
    return baseline_fork_workers(&loop.baseline, (size_t)CPU_COUNT(&cores),
                                 work);
}
