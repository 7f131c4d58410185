/* SPDX-License-Identifier: MIT */
#include "net/children.h"

#include "config.h"
#include "process/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void children_init(struct children *children, const struct server *server,
                   size_t limit, bool lends) {
    *children = (struct children){.limit = limit, .lends = lends};
    redis_lending_init(&children->lending, &server->redis, limit);
    /* Only the parent needs the process ids.  But it writes a process id after
       each fork.  The kernel copies a page at the first write after a fork,
       unless the page is shared, as these are. */
    children->pids = server_share(limit * sizeof children->pids[0]);
    children->alive = server_share(sizeof *children->alive);
    stop_set_parent();
    memory_prepare_forks();
}

bool children_are_complete(const struct children *children) {
    return *children->alive == children->limit;
}

/* Returns the slot of this child; for 0, the first free slot.  Returns the
   limit if there is none. */
static size_t slot_of(const struct children *children, pid_t child) {
    size_t slot = 0;

    while (slot < children->limit && children->pids[slot] != child)
        slot++;
    return slot;
}

pid_t children_fork(struct children *children, size_t *slot,
                    struct redis_pool *redis) {
    *slot = slot_of(children, 0);
    if (children->lends)
        redis_lending_prepare(&children->lending, *slot);
    ++*children->alive; /* before the child could read it */
    pid_t child = fork();
    if (child > 0)
        children->pids[*slot] = child;
    if (child < 0)
        --*children->alive;
    if (child != 0)
        return child;
    /* The kernel kills this process when the parent ends; the parent may have
       ended already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!stop_parent_is_alive())
        _exit(EXIT_FAILURE);
    budget_set_slot(*slot);
    redis_lending_open(&children->lending, *slot, redis);
    return 0;
}

void children_exit(struct children *children, size_t slot,
                   struct redis_pool *redis) {
    if (children->lends)
        redis_lending_leave(&children->lending, slot, redis);
    else
        redis_pool_destroy(redis);
    _exit(EXIT_SUCCESS);
}

/* A child should end by itself: if a signal has ended it, that is logged.  But
   not when time is up, because then the parent kills those that still run. */
static void log_crash(pid_t child, int status) {
    static struct log_limit crashes;

    if (!WIFSIGNALED(status) || server_is_out_of_time())
        return;
    if (log_is_due(&crashes, clock_milliseconds()))
        log_limited(
            &crashes,
            "child %d was ended by signal %d (%s); the kernel's log may "
            "show the reason (dmesg)",
            (int)child, WTERMSIG(status), strsignal(WTERMSIG(status)));
}

bool children_reap(struct children *children, bool wait, size_t *slot) {
    int status = 0;
    pid_t child;

    /* A shell may have had children before exec made it this program: they do
       not count, and need not end. */
    do {
        child = waitpid(-1, &status, wait ? 0 : WNOHANG);
        *slot = child > 0 ? slot_of(children, child) : children->limit;
    } while (child > 0 && *slot == children->limit);
    if (child > 0) {
        log_crash(child, status);
        children->pids[*slot] = 0;
        --*children->alive;
        redis_lending_child_ended(&children->lending, *slot);
        budget_reset(*slot);
    }
    redis_lending_close_idle(&children->lending, children->pids);
    return child > 0;
}

/* Its only purpose: SIGCHLD interrupts ppoll(). */
static void on_child(int signal_number) {
    (void)signal_number;
}

/* Blocks SIGCHLD.  Only ppoll(2) (since Linux 2.6.16) unblocks it, while it
   sleeps, by the previous mask.  Otherwise a child could end between a check
   for ended children and the sleep, and stay a zombie until another event. */
void children_watch_exits(struct children *children) {
    struct sigaction action = {.sa_handler = on_child,
                               .sa_flags = SA_NOCLDSTOP};
    sigset_t child_ended;

    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, &children->mask);
    sigaction(SIGCHLD, &action, NULL);
}

bool children_sleep(const struct children *children, int listener,
                    int milliseconds) {
    bool room = !children_are_complete(children);
    struct pollfd entry = {.fd = listener, .events = POLLIN};
    struct timespec time = {.tv_sec = milliseconds / 1000,
                            .tv_nsec = milliseconds % 1000 * 1000000L};

    ppoll(&entry, room ? 1 : 0, &time, &children->mask);
    return entry.revents != 0;
}

static void send_stop_signal(const struct children *children,
                             int signal_number) {
    for (size_t i = 0; i < children->limit; i++)
        if (children->pids[i] > 0)
            kill(children->pids[i], signal_number);
}

void children_stop(struct children *children) {
    if (!children->stopped)
        send_stop_signal(children, SIGTERM);
    children->stopped = true;
}

void children_end(struct children *children) {
    bool killed = false;
    size_t slot;

    send_stop_signal(children, SIGTERM);
    while (*children->alive > 0) {
        if (children_reap(children, false, &slot))
            continue;
        poll(NULL, 0, RETRY_DELAY);
        if (server_is_out_of_time() && !killed) {
            poll(NULL, 0,
                 5 * RETRY_DELAY); /* each ends itself when time is up */
            send_stop_signal(children, SIGKILL);
            killed = true;
        }
    }
    redis_lending_close(&children->lending);
}
