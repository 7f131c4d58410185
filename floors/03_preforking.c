/* SPDX-License-Identifier: MIT */
/* The baseline of 03_preforking: --workers processes, forked at the start.  The
   parent only waits for SIGTERM and then for its children, because a process'
   CPU time is added to its parent's when it is waited for. */
#include "floor.h"

#include <sys/wait.h>

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
    sigset_t terminate;
    int number;

    floor_start(&floor, argc, argv);
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pid_t parent = getpid();
    pid_t *workers = calloc(floor.workers, sizeof workers[0]);
    if (workers == NULL)
        floor_give_up("calloc");
    for (size_t i = 0; i < floor.workers; i++) {
        if ((workers[i] = fork()) < 0)
            floor_give_up("fork");
        if (workers[i] == 0) {
            floor_die_with(parent);
            work(&floor);
        }
    }
    sigprocmask(SIG_BLOCK, &terminate, NULL);
    sigwait(&terminate, &number);
    for (size_t i = 0; i < floor.workers; i++)
        kill(workers[i], SIGTERM);
    free(workers);
    while (wait(NULL) > 0)
        ;
    return EXIT_SUCCESS;
}
