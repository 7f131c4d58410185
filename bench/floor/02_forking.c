/* SPDX-License-Identifier: MIT */
/* The floor of 02_forking: a child for each connection.  The parent reaps after
   each accept, so at rest the last children may stay as zombies. */
#include "floor.h"

#include <sys/wait.h>

int main(int argc, char **argv) {
    struct floor floor;

    floor_start(&floor, argc, argv);
    pid_t parent = getpid();
    for (;;) {
        int client = accept4(floor.listener, NULL, NULL, SOCK_CLOEXEC);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (client < 0)
            continue;
        if (fork() == 0) { /* where it fails, this client is turned away */
            floor_die_with(parent);
            floor_serve(&floor, client);
            _exit(EXIT_SUCCESS);
        }
        close(client);
    }
}
