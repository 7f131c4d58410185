/* SPDX-License-Identifier: MIT */
/* The baseline of 02_forking: a child for each connection.  The parent reaps
   children after each accept, so an idle baseline may have zombies.

   Connections to Redis outlive the children.  The parent lends a connection to
   each child, which inherits the descriptor.  The connection is free again when
   the child has ended.  If all are lent, the parent opens another. */
#include "baseline.h"

#include <sys/wait.h>

/* One slot for each connection to Redis. */
static struct {
    int redis;
    pid_t child; /* 0: it is not lent */
} slots[CHILDREN_LIMIT];
static size_t count;

static void reap(int flags) {
    pid_t child;

    while ((child = waitpid(-1, NULL, flags)) > 0) {
        for (size_t i = 0; i < count; i++)
            if (slots[i].child == child)
                slots[i].child = 0;
        flags = WNOHANG;
    }
}

/* Returns a slot whose connection is free. */
static size_t borrow(const struct baseline_redis *redis) {
    for (;;) {
        for (size_t i = 0; i < count; i++)
            if (slots[i].child == 0)
                return i;
        if (count < CHILDREN_LIMIT) {
            slots[count].redis = baseline_connect(redis);
            return count++;
        }
        reap(0); /* sleeps until a child ends */
    }
}

int main(int argc, char **argv) {
    struct baseline baseline;

    baseline_start(&baseline, argc, argv);
    bool asks = baseline.redis.asks.count > 0;
    pid_t parent = getpid();
    for (;;) {
        int client = accept4(baseline.listener, NULL, NULL, SOCK_CLOEXEC);
        reap(WNOHANG);
        if (client < 0)
            continue;
        size_t slot = asks ? borrow(&baseline.redis) : 0;
        pid_t child = fork();
        if (child == 0) {
            baseline_die_with(parent);
            baseline_serve(&baseline, client, slots[slot].redis);
            _exit(EXIT_SUCCESS);
        }
        if (asks && child > 0) /* if fork fails, the client is rejected */
            slots[slot].child = child;
        close(client);
    }
}
