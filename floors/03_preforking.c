/* SPDX-License-Identifier: MIT */
/* The baseline of 03_preforking: --workers processes, forked at the start. */
#include "floor.h"

__attribute__((noreturn)) static void work(const struct floor *floor) {
    int redis = floor_connect(&floor->redis);

    for (;;) {
        int client = accept4(floor->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            floor_serve(floor, client, redis);
    }
}

int main(int argc, char **argv) {
    static struct floor floor;

    floor_start(&floor, argc, argv);
    return floor_fork_workers(&floor, floor.workers, work);
}
