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
#include <sys/time.h>
#include <unistd.h>

/* The state of the signal handlers.  A process has one server. */
static struct {
    _Atomic bool stopping;
    _Atomic int64_t out_of_time_at;
    _Atomic long pause; /* before the next wake-up */
    int listener;       /* where this process accepts */
    pid_t owner; /* of all listening sockets: the process that made them */
    const int *listeners;
    size_t count;
    _Atomic bool *everybody; /* the owner has to stop; shared by all */
} stop = {.listener = -1};

/* A socket that has been shut down is readable too, but reports POLLHUP as
   well. */
static bool has_backlog_at(int listener) {
    struct pollfd entry = {.fd = listener, .events = POLLIN};

    return poll(&entry, 1, 0) > 0 && entry.revents == POLLIN;
}

bool server_has_backlog(void) {
    return has_backlog_at(stop.listener);
}

/* Shuts down the listening sockets at which no client waits.  When the last
   worker stops, none may be left open: a client could still connect, and would
   never be served.  The process that made the sockets does this for all of
   them.  A worker does it for its own, and only if all stop: a worker that is
   to stop alone leaves its socket to the others, or to the one forked in its
   place.  Returns false if a client still waits at one, which therefore stays
   open. */
static bool shut_down_listeners(void) {
    bool owner = getpid() == stop.owner, closed = true;
    const int *doors = owner ? stop.listeners : &stop.listener;
    size_t count = owner ? stop.count : *stop.everybody;

    for (size_t i = 0; i < count; i++)
        if (has_backlog_at(doors[i]))
            closed = false;
        else
            shutdown(doors[i], SHUT_RD);
    return closed;
}

/* Sets the timer of the next wake-up: ever more rarely, but at the moment when
   time is up, and every RETRY_DELAY from then on.  It repeats itself: a thread
   other than the main one may get its signal, and does not set it again. */
static void set_timer(void) {
    int64_t left = stop.out_of_time_at - clock_milliseconds();
    long pause = left > 0 ? (long)left : RETRY_DELAY;

    if (!shut_down_listeners())
        stop.pause = RETRY_DELAY;
    if (pause > stop.pause)
        pause = stop.pause;
    struct timeval time = {.tv_sec = pause / 1000,
                           .tv_usec = pause % 1000 * 1000};
    setitimer(ITIMER_REAL, &(struct itimerval){time, time}, NULL);
    if (stop.pause < WAKE_DELAY)
        stop.pause *= 2;
}

/* Every call here is allowed in a signal handler: signal-safety(7).  setitimer
   is not in its list, but on Linux it is a bare system call as well. */
static void on_stop(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (getpid() == stop.owner)
        *stop.everybody = true;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    stop.pause = RETRY_DELAY;
    /* Clients in the backlog are served, and no others may join them: if it is
       full, the kernel drops packets that ask for a connection. */
    for (size_t i = 0; getpid() == stop.owner && i < stop.count; i++)
        listen(stop.listeners[i], 0);
    set_timer();
    errno = error;
}

/* SIGALRM interrupts the call that sleeps.  The main thread also checks the
   listening sockets and sets the timer again: in 01 no other thread could.
   Other threads, to which it passes the signal on, only need to be woken. */
static void on_tick(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (stop.stopping && gettid() == getpid())
        set_timer();
    errno = error;
}

static void handle(int signal_number, void (*handler)(int)) {
    /* No SA_RESTART: calls that sleep must return with EINTR. */
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL); /* fails for no signal used here */
}

/* The process that forks; 0: none does.  Set before the first fork: if each
   child set it, the kernel would copy the page for each of them. */
static pid_t parent;

void stop_note_parent(void) {
    parent = getpid();
}

bool stop_parent_lives(void) {
    return getppid() == parent;
}

void server_wake_parent(void) {
    if (parent != 0 && stop_parent_lives())
        kill(parent, SIGALRM);
}

void stop_look_at(int listener) {
    stop.listener = listener;
}

void stop_init(const int *listeners, size_t count) {
    sigset_t none;

    stop.listener = listeners[0];
    stop.listeners = listeners;
    stop.count = count;
    stop.owner = getpid();
    stop.everybody = server_share(sizeof *stop.everybody);
    handle(SIGALRM, on_tick);
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    /* nohup(1) makes the program ignore it, and so it stays. */
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
        handle(SIGHUP, on_stop);
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
    return stop.stopping;
}

bool server_is_out_of_time(void) {
    return stop.stopping && clock_milliseconds() >= stop.out_of_time_at;
}

/* A client that came between a check of the backlog and the next tick would be
   accepted by the kernel and never served.  So a worker that will accept no
   more shuts the socket down itself. */
bool server_keep_accepting(void) {
    return !stop.stopping || (!server_is_out_of_time() &&
                              (server_has_backlog() || !shut_down_listeners()));
}
