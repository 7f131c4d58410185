/* SPDX-License-Identifier: MIT */
/* The floor of 07_epoll: one loop over all connections, asleep in epoll_wait().
   The answer is written at once or not at all: for the small answers that a
   floor is asked for, the socket's buffer has room. */
#include "floor.h"

#include <fcntl.h>
#include <sys/epoll.h>

static int set;

static void watch(int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};

    if (epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) < 0)
        floor_give_up("epoll_ctl");
}

/* Often the request is there already: then the set need not know of it. */
static void accept_all(const struct floor *floor) {
    int client;

    while ((client = accept4(floor->listener, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (floor_serve_now(floor, client))
            watch(client);
        else
            close(client);
    }
}

int main(int argc, char **argv) {
    struct epoll_event events[EVENTS_AT_ONCE];
    struct floor floor;

    floor_start(&floor, argc, argv);
    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0 || fcntl(floor.listener, F_SETFL, O_NONBLOCK) < 0)
        floor_give_up("start");
    watch(floor.listener);
    for (;;) {
        int count = epoll_wait(set, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int descriptor = events[i].data.fd;
            if (descriptor == floor.listener)
                accept_all(&floor);
            else if (!floor_serve_now(&floor, descriptor))
                close(descriptor); /* which takes it out of the set */
        }
    }
}
