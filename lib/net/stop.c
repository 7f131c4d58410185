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
    pid_t owner; /* of the listening socket: the process that made it */
    int listener;
} stop = {.listener = -1};

/* A socket that has been shut down is readable too, but says POLLHUP as well.
 */
bool server_somebody_waits(void) {
    struct pollfd listener = {.fd = stop.listener, .events = POLLIN};

    return poll(&listener, 1, 0) > 0 && listener.revents == POLLIN;
}

/* One worker told to stop must not close the door of the others. */
static void close_door_behind_last(void) {
    if (getpid() == stop.owner && !server_somebody_waits())
        shutdown(stop.listener, SHUT_RD);
}

/* Every call here may be made in a signal handler: signal-safety(7).  setitimer
   is not in its list, but on Linux it is a bare system call as well. */
static void on_stop(int signal_number) {
    int error = errno;
    struct itimerval tick = {.it_interval = {.tv_usec = PAUSE * 1000},
                             .it_value = {.tv_usec = PAUSE * 1000}};

    (void)signal_number;
    if (!stop.stopping)
        stop.out_of_time_at = clock_milliseconds() + STOP_TIMEOUT;
    stop.stopping = true;
    /* Who waits shall be served, and nobody join them: where the backlog is
       full, the kernel drops what asks for a connection. */
    if (getpid() == stop.owner)
        listen(stop.listener, 0);
    close_door_behind_last();
    setitimer(ITIMER_REAL, &tick, NULL);
    errno = error;
}

/* It interrupts the call that sleeps; and in 01 nobody else has the time. */
static void on_tick(int signal_number) {
    int error = errno;

    (void)signal_number;
    if (stop.stopping)
        close_door_behind_last();
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

pid_t stop_owner(void) {
    return stop.owner;
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
