/* SPDX-License-Identifier: MIT */
/* The baseline of 06_poll: one loop for all connections, with poll(). */
#include "evented.h"

#include <poll.h>

enum { LISTENER, REDIS, FIRST_CLIENT };

static struct pollfd *watched;
static nfds_t count;
static nfds_t *slots; /* by descriptor; 0: not watched */

static void watch(int descriptor, enum interest interest) {
    if (slots[descriptor] == 0) {
        slots[descriptor] = count;
        watched[count++] = (struct pollfd){.fd = descriptor};
    }
    watched[slots[descriptor]].events = interest == TO_READ ? POLLIN : POLLOUT;
}

static void stop_watching(int descriptor) {
    nfds_t slot = slots[descriptor];

    if (slot == 0)
        return;
    watched[slot] = watched[--count];
    slots[watched[slot].fd] = slot;
    slots[descriptor] = 0;
}

int main(int argc, char **argv) {
    loop_start(argc, argv);
    watched = calloc(loop.limit + FIRST_CLIENT, sizeof watched[0]);
    slots = calloc(loop.limit, sizeof slots[0]);
    if (watched == NULL || slots == NULL)
        baseline_fatal("calloc");
    watched[LISTENER] =
        (struct pollfd){.fd = loop.baseline.listener, .events = POLLIN};
    watched[REDIS] = (struct pollfd){.fd = loop.redis, .events = POLLIN};
    count = FIRST_CLIENT;
    for (;;) {
        poll(watched, count, -1);
        /* Backwards: the last entry takes the place of a removed one, and has
           been checked already. */
        for (nfds_t i = count; i-- > FIRST_CLIENT;)
            if (watched[i].revents != 0)
                loop_serve(watched[i].fd);
        if (watched[REDIS].revents != 0)
            loop_receive_redis();
        if (watched[LISTENER].revents != 0)
            loop_accept();
        loop_send_redis();
    }
}
