/* SPDX-License-Identifier: MIT */
#include "net/stop.h"

#include "config.h"
#include "net/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* What the signal handlers know.  One server a process. */
static struct {
    _Atomic bool stopping;
    _Atomic int64_t out_of_time_at;
    int64_t pause; /* before we are woken again */
    pid_t owner;   /* of the listening socket: the process that made it */
    int listener;
} stop = {.listener = -1};

/* A socket that has been shut down is readable too, but says POLLHUP as well.
 */
bool server_somebody_waits(void) {
    struct pollfd listener = {.fd = stop.listener, .events = POLLIN};

    return poll(&listener, 1, 0) > 0 && listener.revents == POLLIN;
}

/* One worker told to stop must not close the door of the others.  False: it
   stands open, for some still wait. */
static bool close_door_behind_last(void) {
    if (getpid() != stop.owner)
        return true;
    if (server_somebody_waits())
        return false;
    shutdown(stop.listener, SHUT_RD);
    return true;
}

/* Has us woken again: ever more rarely, but when time is up at once, and often
   from then on.  The timer repeats itself, for a thread that happens to get its
   signal does not come here. */
static void set_timer(void) {
    int64_t left = stop.out_of_time_at - clock_milliseconds();
    int64_t pause = left > 0 ? left : PAUSE;
    struct timeval time = {0};

    if (!close_door_behind_last())
        stop.pause = PAUSE;
    if (pause > stop.pause)
        pause = stop.pause;
    time.tv_usec = (suseconds_t)pause * 1000;
    setitimer(ITIMER_REAL, &(struct itimerval){time, time}, NULL);
    if (stop.pause < STOP_PAUSE)
        stop.pause *= 2;
}

/* Every call here may be made in a signal handler: signal-safety(7).  setitimer
   is not in its list, but on Linux it is a bare system call as well. */
static void on_stop(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    stop.pause = PAUSE;
    /* Who waits shall be served, and nobody join them: where the backlog is
       full, the kernel drops what asks for a connection. */
    if (getpid() == stop.owner)
        listen(stop.listener, 0);
    set_timer();
    errno = error;
}

/* It interrupts the call that sleeps; and in 01 nobody else has the time.
   Threads are woken by the main thread, and need no more. */
static void on_tick(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (stop.stopping && gettid() == getpid())
        set_timer();
    errno = error;
}

static void handle(int signal_number, void (*handler)(int)) {
    /* No SA_RESTART: calls that sleep shall return with EINTR. */
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL); /* fails for no signal used here */
}

void stop_init(int listener) {
    stop.listener = listener;
    stop.owner = getpid();
    handle(SIGALRM, on_tick);
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
}

bool server_is_stopping(void) {
    return stop.stopping;
}

bool server_is_out_of_time(void) {
    return stop.stopping && clock_milliseconds() >= stop.out_of_time_at;
}

bool server_goes_on(void) {
    return !stop.stopping ||
           (!server_is_out_of_time() && server_somebody_waits());
}
