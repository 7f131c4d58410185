/* SPDX-License-Identifier: MIT */
/*
 * Replacements of the blocking driver's calls that may sleep, and of setsockopt
 * and close.  Instead of sleeping, they switch to another coroutine.
 *
 * The driver (net/blocking.c) is the same as in 01 to 05.  The linker replaces
 * its calls: with the option --wrap=recv each recv becomes __wrap_recv, which
 * is here.  Here __real_recv is the recv of the C library (ld(1)).
 * 10_coroutines/ldflags has the list.
 *
 * Each function makes the call in a way that cannot sleep.  If the call would
 * have to sleep, the coroutine waits, and the function repeats the call.  The
 * time limit of the wait is the socket's timeout, as in the kernel
 * (SO_RCVTIMEO, SO_SNDTIMEO).
 *
 * (In a language with coroutines the library does this: in Go, for example,
 * Conn.Read.  Go's compiler also makes stacks grow, and a timer interrupts a
 * function that computes for a long time.)
 */
#include "coroutine.h"
#include "limits.h"
#include "process/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>

/* The linker's names for the C library's call and for its replacement. */
#define WRAPPED(result, name, ...)                                             \
    result __real_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
WRAPPED(int, accept4, int listener, struct sockaddr *address, socklen_t *length,
        int flags);
WRAPPED(ssize_t, recv, int socket, void *memory, size_t size, int flags);
WRAPPED(ssize_t, send, int socket, const void *memory, size_t size, int flags);
WRAPPED(ssize_t, sendmsg, int socket, const struct msghdr *message, int flags);
WRAPPED(int, poll, struct pollfd *entries, nfds_t count, int timeout);
WRAPPED(int, setsockopt, int socket, int level, int option, const void *value,
        socklen_t length);
WRAPPED(int, close, int descriptor);

/* With 64-bit offsets glibc has another name for sendfile(). */
#ifdef __GLIBC__
#define REAL_SENDFILE __real_sendfile64
#define WRAP_SENDFILE __wrap_sendfile64
#else
#define REAL_SENDFILE __real_sendfile
#define WRAP_SENDFILE __wrap_sendfile
#endif
ssize_t REAL_SENDFILE(int socket, int file, off_t *offset, size_t count);
ssize_t WRAP_SENDFILE(int socket, int file, off_t *offset, size_t count);

/* A call that may be made several times. */
struct attempt {
    int descriptor;
    uint32_t events;  /* that the call waits for */
    bool last;        /* the call is not repeated */
    int64_t deadline; /* 0: the call has not waited yet */
};

/* Waits, if the failed call would have slept.  Returns true if the call must be
   made again; otherwise false, with the errno that a sleeping call would
   set. */
static bool wait_and_retry(struct attempt *attempt) {
    const struct timeouts *timeouts;

    if (errno != EAGAIN || attempt->last)
        return false;
    if (attempt->deadline == 0) {
        timeouts = coroutine_timeouts(attempt->descriptor);
        attempt->deadline =
            clock_milliseconds() +
            (attempt->events & EPOLLIN ? timeouts->receive : timeouts->send);
    }
    switch (coroutine_wait(attempt->descriptor, attempt->events,
                           attempt->deadline)) {
    case WOKEN_READY:
        return true;
    case WOKEN_TIMEOUT: /* retry once, as the kernel does */
        attempt->last = true;
        return true;
    case WOKEN_BY_SIGNAL:
        errno = EINTR;
        return false;
    case WOKEN_NO_MEMORY:
        errno = ENOMEM;
        return false;
    }
    return false;
}

/* A coroutine that sends does not wait while the kernel has buffer space.  So
   it lets the other coroutines run after SENDS_AT_ONCE calls. */
static struct attempt attempt_to_send(int socket, int flags) {
    bool last = !coroutines_run() || (flags & MSG_DONTWAIT) != 0;

    if (!last)
        coroutine_yield_after(SENDS_AT_ONCE);
    return (struct attempt){
        .descriptor = socket, .events = EPOLLOUT, .last = last};
}

/* The accepted socket inherits the listener's timeouts, as in the kernel.
   Returns false with errno set if memory is short. */
static bool inherit_timeouts(int listener, int client) {
    struct timeouts *timeouts = coroutine_timeouts(client);

    if (timeouts != NULL) {
        *timeouts = *coroutine_timeouts(listener);
        return true;
    }
    __real_close(client);
    errno = ENOMEM;
    return false;
}

int __wrap_accept4(int listener, struct sockaddr *address, socklen_t *length,
                   int flags) {
    struct attempt attempt = {.descriptor = listener, .events = EPOLLIN};
    int client;

    coroutine_yield_after(ACCEPTS_AT_ONCE);
    /* sendfile(2) has no MSG_DONTWAIT, so clients' sockets are non-blocking. */
    do
        client =
            __real_accept4(listener, address, length, flags | SOCK_NONBLOCK);
    while (client < 0 && wait_and_retry(&attempt));
    return client < 0 || inherit_timeouts(listener, client) ? client : -1;
}

ssize_t __wrap_recv(int socket, void *memory, size_t size, int flags) {
    struct attempt attempt = {.descriptor = socket,
                              .events = EPOLLIN,
                              .last = (flags & MSG_DONTWAIT) != 0};
    ssize_t count;

    errno = EAGAIN;
    if (!attempt.last && !coroutine_may_receive(socket) &&
        !wait_and_retry(&attempt))
        return -1;
    do {
        count = __real_recv(socket, memory, size, flags | MSG_DONTWAIT);
        if (count < (ssize_t)size)
            coroutine_received_all(socket);
    } while (count < 0 && wait_and_retry(&attempt));
    if (attempt.deadline == 0)
        coroutines_next_round();
    return count;
}

ssize_t __wrap_send(int socket, const void *memory, size_t size, int flags) {
    struct attempt attempt = attempt_to_send(socket, flags);
    ssize_t count;

    do
        count = __real_send(socket, memory, size, flags | MSG_DONTWAIT);
    while (count < 0 && wait_and_retry(&attempt));
    return count;
}

ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags) {
    struct attempt attempt = attempt_to_send(socket, flags);
    ssize_t count;

    do
        count = __real_sendmsg(socket, message, flags | MSG_DONTWAIT);
    while (count < 0 && wait_and_retry(&attempt));
    return count;
}

ssize_t WRAP_SENDFILE(int socket, int file, off_t *offset, size_t count) {
    struct attempt attempt = attempt_to_send(socket, 0);
    ssize_t sent;

    do
        sent = REAL_SENDFILE(socket, file, offset, count);
    while (sent < 0 && wait_and_retry(&attempt));
    return sent;
}

/* The driver uses poll() only to pause, or to check without waiting. */
int __wrap_poll(struct pollfd *entries, nfds_t count, int timeout) {
    if (timeout == 0 || !coroutines_run())
        return __real_poll(entries, count, timeout);
    if (coroutine_wait(-1, 0, clock_milliseconds() + timeout) !=
        WOKEN_BY_SIGNAL)
        return 0;
    errno = EINTR;
    return -1;
}

/* Stores the timeouts in the process, because the kernel's timeouts have no
   effect on calls that do not sleep.  The listener's timeouts are set before
   coroutines_begin(). */
int __wrap_setsockopt(int socket, int level, int option, const void *value,
                      socklen_t length) {
    const struct timeval *time = value;

    if (level != SOL_SOCKET || (option != SO_RCVTIMEO && option != SO_SNDTIMEO))
        return __real_setsockopt(socket, level, option, value, length);
    struct timeouts *timeouts = coroutine_timeouts(socket);
    if (timeouts == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int milliseconds = (int)(time->tv_sec * 1000 + time->tv_usec / 1000);
    *(option == SO_RCVTIMEO ? &timeouts->receive : &timeouts->send) =
        milliseconds;
    return 0;
}

int __wrap_close(int descriptor) {
    if (descriptor >= 0)
        coroutine_forget(descriptor);
    return __real_close(descriptor);
}
