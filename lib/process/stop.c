/* SPDX-License-Identifier: MIT */
#include "process/stop.h"

#include "config.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic bool nothing_stops; /* the flag before stop_init() */

/* The state of the signal handlers.  A process has one server. */
static struct {
    _Atomic bool stopping;
    _Atomic int64_t out_of_time_at;
    _Atomic long pause; /* before the next wake-up */
    int listener;       /* where this process accepts */
    pid_t owner; /* of all listening sockets: the process that made them */
    const int *listeners;
    size_t count;
    _Atomic bool *stop_all; /* the owner has to stop; shared by all.  Its
                               children know it before they get a signal. */
} stop = {.listener = -1, .stop_all = &nothing_stops};

/* A socket that was shut down is readable, too, but also reports POLLHUP. */
static bool has_backlog_at(int listener) {
    struct pollfd entry = {.fd = listener, .events = POLLIN};

    return poll(&entry, 1, 0) > 0 && entry.revents == POLLIN;
}

bool server_has_backlog(void) {
    return has_backlog_at(stop.listener);
}

/* Shuts down the listening sockets at which no client waits, because a later
   client would never be served.  The process that made the sockets does this
   for all.  A worker does it for its own if all stop; otherwise others use its
   socket.  Returns false if a client waits at one of them. */
static bool shut_down_listeners(void) {
    bool owner = getpid() == stop.owner, closed = true;
    const int *listeners = owner ? stop.listeners : &stop.listener;
    size_t count = owner ? stop.count : *stop.stop_all;

    for (size_t i = 0; i < count; i++)
        if (has_backlog_at(listeners[i]))
            closed = false;
        else
            shutdown(listeners[i], SHUT_RD);
    return closed;
}

/* Sets the timer of the next wake-up.  The pauses grow; one wake-up comes when
   the time is over, and then one every RETRY_DELAY.  The timer is periodic,
   because its signal may go to a thread that does not set it again. */
static void set_timer(void) {
    int64_t left = stop.out_of_time_at - clock_milliseconds();
    long pause = left > 0 ? (long)left : RETRY_DELAY;

    if (!shut_down_listeners())
        stop.pause = RETRY_DELAY;
    if (pause > stop.pause)
        pause = stop.pause;
    struct timeval time = timeval_of(pause);
    setitimer(ITIMER_REAL, &(struct itimerval){time, time}, NULL);
    if (stop.pause < WAKE_DELAY)
        stop.pause *= 2;
}

/* Every call here is allowed in a signal handler (signal-safety(7)).  The list
   there lacks setitimer, but on Linux this is only a system call. */
static void on_stop(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (getpid() == stop.owner)
        *stop.stop_all = true;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    stop.pause = RETRY_DELAY;
    /* Clients in the backlog are served, and no others may join them.  If the
       backlog is full, the kernel drops connection requests. */
    for (size_t i = 0; getpid() == stop.owner && i < stop.count; i++)
        listen(stop.listeners[i], 0);
    set_timer();
    errno = error;
}

/* SIGALRM interrupts the call that sleeps.  The main thread also checks the
   listening sockets and sets the timer again. */
static void on_tick(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (stop.stopping && gettid() == getpid())
        set_timer();
    errno = error;
}

static void set_handler(int signal_number, void (*handler)(int)) {
    /* No SA_RESTART: calls that sleep must return with EINTR. */
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL); /* fails for no signal used here */
}

/* The process that forks; 0: none does.  It is set before the first fork: if
   each child set it, the kernel would copy the page for each of them. */
static pid_t parent;

void stop_set_parent(void) {
    parent = getpid();
}

bool stop_parent_is_alive(void) {
    return getppid() == parent;
}

void stop_wake_parent(void) {
    if (parent != 0 && stop_parent_is_alive())
        kill(parent, SIGALRM);
}

void stop_set_listener(int listener) {
    stop.listener = listener;
}

void stop_init(const int *listeners, size_t count) {
    sigset_t none;

    stop.listener = listeners[0];
    stop.listeners = listeners;
    stop.count = count;
    stop.owner = getpid();
    stop.stop_all = shared_allocate(sizeof *stop.stop_all);
    set_handler(SIGALRM, on_tick);
    set_handler(SIGTERM, on_stop);
    set_handler(SIGINT, on_stop);
    /* If nohup(1) has made SIGHUP ignored, it stays ignored. */
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
        set_handler(SIGHUP, on_stop);
    /* Signals that the parent has blocked stay blocked after exec. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void stop_end(void) {
    stop.count = 0;
    stop.pause = STOP_TIMEOUT;
    set_timer();
}

bool server_is_stopping(void) {
    return stop.stopping || *stop.stop_all;
}

bool server_is_out_of_time(void) {
    return stop.stopping && clock_milliseconds() >= stop.out_of_time_at;
}

/* A worker that will accept no more shuts the socket down itself: until the
   next tick the kernel would accept clients that are never served. */
bool server_keep_accepting(void) {
    return !stop.stopping || (!server_is_out_of_time() &&
                              (server_has_backlog() || !shut_down_listeners()));
}
