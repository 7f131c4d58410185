/* SPDX-License-Identifier: MIT */
/* The baseline of 01_iterative: one process, one connection after another.  It
   closes after each answer, as the server does; with --keep-alive it would
   serve only the first client until that one leaves. */
#include "floor.h"

int main(int argc, char **argv) {
    struct floor floor;

    floor_start(&floor, argc, argv);
    int redis = floor_connect(&floor.redis);
    for (;;) {
        int client = accept4(floor.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            floor_serve(&floor, client, redis);
    }
}
