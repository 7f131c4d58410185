/* SPDX-License-Identifier: MIT */
#include "net/children.h"

#include "config.h"
#include "net/shared.h"
#include "net/stop.h"
#include "net/trouble.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *server_share(size_t size) {
    void *memory = shared_memory(size);

    if (memory == NULL)
        server_give_up("no memory to share (%s); allow it more",
                       strerror(errno));
    return memory;
}

/* Of a child; 0: this process is none. */
static pid_t parent;

pid_t server_fork(void) {
    pid_t self = getpid();
    pid_t child = fork();

    if (child != 0)
        return child;
    /* The kernel kills us when the parent dies; it may have died already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self)
        _exit(EXIT_FAILURE);
    parent = self;
    return 0;
}

void server_wake_parent(void) {
    if (parent != 0 && getppid() == parent)
        kill(parent, SIGALRM);
}

void server_tell_children(const pid_t *children, size_t count, int number) {
    for (size_t i = 0; i < count; i++)
        if (children[i] > 0)
            kill(children[i], number);
}

void server_end_children(const pid_t *children, size_t count) {
    bool killed = false;
    pid_t ended;

    server_tell_children(children, count, SIGTERM);
    while ((ended = waitpid(-1, NULL, WNOHANG)) >= 0 || errno == EINTR) {
        if (ended == 0)
            poll(NULL, 0, PAUSE);
        if (server_is_out_of_time() && !killed) {
            poll(NULL, 0, 5 * PAUSE); /* they know themselves that it is time */
            server_tell_children(children, count, SIGKILL);
            killed = true;
        }
    }
}
