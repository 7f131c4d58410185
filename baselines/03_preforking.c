/* SPDX-License-Identifier: MIT */
/* The baseline of 03_preforking: --workers processes, forked at the start. */
#include "baseline.h"

__attribute__((noreturn)) static void work(const struct baseline *baseline) {
    int redis = baseline_connect(&baseline->redis);

    for (;;) {
        int client = accept4(baseline->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            baseline_serve(baseline, client, redis);
    }
}

int main(int argc, char **argv) {
    static struct baseline baseline;

    baseline_start(&baseline, argc, argv);
    return baseline_fork_workers(&baseline, baseline.workers, work);
}
