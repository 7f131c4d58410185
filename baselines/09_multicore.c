/* SPDX-License-Identifier: MIT */
/* The baseline of 09_multicore: the loop of 07, in a process for each core, and
   one listening socket for all. */
#include "epoll.h"

#include <sched.h>

/* Each worker creates its own epoll set and its own connection to Redis. */
__attribute__((noreturn)) static void work(const struct baseline *baseline) {
    loop.redis = baseline_connect(&baseline->redis);
    loop_run();
}

int main(int argc, char **argv) {
    cpu_set_t cores;

    loop_start(argc, argv);
    if (sched_getaffinity(0, sizeof cores, &cores) < 0)
        baseline_fatal("sched_getaffinity");
    return baseline_fork_workers(&loop.baseline, (size_t)CPU_COUNT(&cores),
                                 work);
}
