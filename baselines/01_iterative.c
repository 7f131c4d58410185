/* SPDX-License-Identifier: MIT */
/* The baseline of 01_iterative: one process, one connection after another.  Run
   it without --keep-alive: then it closes each connection after one answer, as
   the server does.  With --keep-alive it would serve only the first client. */
#include "baseline.h"

int main(int argc, char **argv) {
    struct baseline baseline;

    baseline_start(&baseline, argc, argv);
    int redis = baseline_connect(&baseline.redis);
    for (;;) {
        int client = accept4(baseline.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            baseline_serve(&baseline, client, redis);
    }
}
