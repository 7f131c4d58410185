/* SPDX-License-Identifier: MIT */
/* The floor of 06_poll: one loop over all connections, asleep in poll().  The
   answer is written at once or not at all: for the small answers that a floor
   is asked for, the socket's buffer has room. */
#include "floor.h"

#include <fcntl.h>
#include <poll.h>

static struct pollfd *watched;
static nfds_t count;

/* Often the request is there already: then poll() need not be asked. */
static void accept_all(const struct floor *floor) {
    int client;

    while ((client = accept4(floor->listener, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (floor_serve_now(floor, client))
            watched[count++] = (struct pollfd){.fd = client, .events = POLLIN};
        else
            close(client);
    }
}

int main(int argc, char **argv) {
    struct floor floor;

    floor_start(&floor, argc, argv);
    watched = calloc((size_t)sysconf(_SC_OPEN_MAX), sizeof watched[0]);
    if (watched == NULL || fcntl(floor.listener, F_SETFL, O_NONBLOCK) < 0)
        floor_give_up("start");
    watched[count++] = (struct pollfd){.fd = floor.listener, .events = POLLIN};
    for (;;) {
        poll(watched, count, -1);
        /* Backwards: what takes the place of one that leaves has been seen. */
        for (nfds_t i = count; i-- > 1;)
            if (watched[i].revents != 0 &&
                !floor_serve_now(&floor, watched[i].fd)) {
                close(watched[i].fd);
                watched[i] = watched[--count];
            }
        if (watched[0].revents != 0)
            accept_all(&floor);
    }
}
