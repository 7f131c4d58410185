/* SPDX-License-Identifier: MIT */
#include "process/stop.h"

#include "config.h"
#include "process/clock.h"
#include "process/shared.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

/* The state of the signal handlers.  A process has one server. */
static struct {
    _Atomic bool stopping;
    _Atomic int64_t out_of_time_at;
    const int *listeners; /* the first: where this process accepts */
    const _Atomic size_t *count;
    pid_t owner; /* the process that made the listening sockets, and forks */
    _Atomic bool *stop_all; /* the owner has received a stop signal; shared: a
                               child may read it before its own signal */
} stop = {.stop_all = &stop.stopping};

/* A socket that was shut down is readable, too, but also reports POLLHUP. */
static bool has_backlog_at(int listener) {
    struct pollfd entry = {.fd = listener, .events = POLLIN};

    return poll(&entry, 1, 0) > 0 && entry.revents == POLLIN;
}

bool server_has_backlog(void) {
    return has_backlog_at(stop.listeners[0]);
}

/* All calls here except setitimer are in the list of signal-safety(7).  On
   Linux a signal handler may call setitimer, too. */
static void on_stop(int signal_number) {
    struct itimerval timer = {.it_value = timeval_of(RETRY_DELAY),
                              .it_interval = timeval_of(WAKE_DELAY)};
    int error = errno;

    (void)signal_number;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    /* Only once: when a later signal comes, main() may have returned. */
    if (getpid() == stop.owner && !atomic_exchange(stop.stop_all, true)) {
        /* No further clients may join the backlog. */
        for (size_t i = 0; i < *stop.count; i++)
            listen(stop.listeners[i], 0);
    }
    setitimer(ITIMER_REAL, &timer, NULL);
    errno = error;
}

/* Does nothing: a signal with a handler interrupts the call that sleeps. */
static void on_tick(int signal_number) {
    (void)signal_number;
}

static void set_handler(int signal_number, void (*handler)(int)) {
    /* No SA_RESTART: calls that sleep must return with EINTR. */
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL); /* cannot fail for these signals */
}

bool stop_parent_is_alive(void) {
    return getppid() == stop.owner;
}

void stop_wake_parent(void) {
    if (getpid() != stop.owner && stop_parent_is_alive())
        kill(stop.owner, SIGALRM);
}

void stop_init(const int *listeners, const _Atomic size_t *count) {
    sigset_t none;

    stop.listeners = listeners;
    stop.count = count;
    stop.owner = getpid();
    stop.stop_all = shared_allocate(sizeof *stop.stop_all);
    set_handler(SIGALRM, on_tick);
    set_handler(SIGTERM, on_stop);
    set_handler(SIGINT, on_stop);
    /* If nohup(1) made the program ignore SIGHUP, it stays ignored. */
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
        set_handler(SIGHUP, on_stop);
    /* Signals that the starting program has blocked stay blocked: unblock. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

bool server_is_stopping(void) {
    return stop.stopping || *stop.stop_all;
}

bool server_is_out_of_time(void) {
    return stop.stopping && clock_milliseconds() >= stop.out_of_time_at;
}

/* The shutdown rejects later clients, which would never be served. */
bool server_shut_if_drained(void) {
    bool drained = true;

    if (!stop.stopping)
        return false;
    for (size_t i = 0; i < *stop.count; i++)
        if (has_backlog_at(stop.listeners[i]))
            drained = false;
        else if (*stop.stop_all)
            shutdown(stop.listeners[i], SHUT_RD);
    return drained || server_is_out_of_time();
}
