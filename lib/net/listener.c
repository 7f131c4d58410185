/* SPDX-License-Identifier: MIT */
#include "net/listener.h"

#include "config.h"
#include "process/clock.h"
#include "process/log.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_option(int descriptor, int level, int option, const void *value,
                       socklen_t size, const char *name) {
    if (setsockopt(descriptor, level, option, value, size) < 0)
        server_fatal("cannot set %s: %s", name, strerror(errno));
}
#define SET_OPTION(descriptor, level, option, value)                           \
    set_option(descriptor, level, option, &(value), sizeof(value), #option)

/*
 * TCP_DEFER_ACCEPT (since Linux 2.4): accept() returns a connection only when
 * its first bytes are there.  The kernel waits at most the option's value in
 * seconds (rounded up to 1, 3, 7, 15 ...).  The server closes a connection
 * without bytes after REQUEST_TIMEOUT, or at once if others wait for a worker.
 * So silent clients delay no other clients, with two exceptions.
 *
 * 1. If no other client waits, a worker of 01, 03 or 05 waits for a silent
 *    client, whose request may come over a slow line.  The worker checks only
 *    after each FIRST_TIMEOUT whether another client waits.
 * 2. The kernel stores as many silent connections as the backlog may hold.  It
 *    answers more clients with a SYN cookie (net.ipv4.tcp_syncookies), stores
 *    nothing about them and cannot defer them.  While others wait, each such
 *    connection occupies a worker of 01, 03 or 05 for FIRST_TIMEOUT, less its
 *    time in the backlog.  5,000 silent clients delay 01 by 2 s.  To see it:
 *    --backlog 128 and `ab -c 3000 -n 6000`.  Production servers put an event
 *    loop in front, where a silent connection is cheap.
 *
 * TCP_NODELAY: written bytes are sent at once.  Without this option the second
 * of two pipelined responses waits until the client has acknowledged the first
 * (Nagle's algorithm), which may take 40 ms.
 *
 * Accepted connections inherit the options (on Linux), which saves calls.  The
 * receive timeout also ends accept after ten seconds without a client.
 */
static void set_options(const struct options *options, int descriptor) {
    int on = 1;
    int request = options_time(options, REQUEST_TIMEOUT);
    int seconds = request < 1000 ? 1 : request / 1000; /* 0 would not defer */
    struct timeval receive = timeval_of(request);
    struct timeval sending =
        timeval_of(options_time(options, SEND_CHECK_INTERVAL));

    SET_OPTION(descriptor, SOL_SOCKET, SO_REUSEADDR, on);
    SET_OPTION(descriptor, IPPROTO_TCP, TCP_NODELAY, on);
    SET_OPTION(descriptor, IPPROTO_TCP, TCP_DEFER_ACCEPT, seconds);
    SET_OPTION(descriptor, SOL_SOCKET, SO_RCVTIMEO, receive);
    SET_OPTION(descriptor, SOL_SOCKET, SO_SNDTIMEO, sending);
}

__attribute__((noreturn)) static void
fail_to_listen(const struct options *options) {
    const char *fix = "give another --address or --port";

    if (errno == EADDRINUSE)
        fix = "stop the program that uses it, or give another --port";
    if (errno == EACCES)
        fix = "ports below 1024 need root; give another --port";
    server_fatal("cannot listen on port %s of %s (%s); %s", options->port,
                 options->address, strerror(errno), fix);
}

/* Returns a socket that listens at the address; -1 with errno set. */
static int listen_at(const struct options *options,
                     const struct sockaddr *address, socklen_t length,
                     bool shares_port) {
    int on = 1;
    int descriptor = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (descriptor < 0)
        return -1;
    set_options(options, descriptor);
    if (shares_port)
        SET_OPTION(descriptor, SOL_SOCKET, SO_REUSEPORT, on);
    if (bind(descriptor, address, length) == 0 &&
        listen(descriptor, options->backlog) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

/* A name may have an address that this machine does not have, such as ::1 if
   IPv6 is disabled: then the next address is tried.  Any other error is final,
   for example a port that is in use. */
int listener_open(const struct options *options) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE},
                    *found;
    int descriptor = -1;

    int result = getaddrinfo(options->address, options->port, &hints, &found);
    if (result != 0)
        server_fatal(
            "cannot listen on '%s' (%s); give --address an address of this "
            "machine",
            options->address, gai_strerror(result));
    errno = EADDRNOTAVAIL;
    for (const struct addrinfo *each = found;
         each != NULL && descriptor < 0 &&
         (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT);
         each = each->ai_next)
        descriptor = listen_at(options, each->ai_addr, each->ai_addrlen, false);
    if (descriptor < 0)
        fail_to_listen(options);
    freeaddrinfo(found);
    return descriptor;
}

/* The first socket was bound without SO_REUSEPORT, because bind(2) then fails
   if any other server uses the port. */
int listener_open_another(const struct options *options, int first) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int on = 1;

    if (getsockname(first, (struct sockaddr *)&address, &length) < 0)
        server_fatal("cannot read the address of the listening socket: %s",
                     strerror(errno));
    SET_OPTION(first, SOL_SOCKET, SO_REUSEPORT, on);
    int descriptor =
        listen_at(options, (struct sockaddr *)&address, length, true);
    if (descriptor < 0)
        fail_to_listen(options);
    return descriptor;
}
