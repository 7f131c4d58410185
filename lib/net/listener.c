/* SPDX-License-Identifier: MIT */
#include "net/listener.h"

#include "config.h"
#include "ops.h"
#include "process/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct timeval timeval_of(int milliseconds) {
    return (struct timeval){.tv_sec = milliseconds / 1000,
                            .tv_usec = milliseconds % 1000 * 1000};
}

static void set_option(int descriptor, int level, int name, const void *value,
                       socklen_t size, const char *what) {
    if (setsockopt(descriptor, level, name, value, size) < 0)
        server_fatal("cannot set %s: %s", what, strerror(errno));
}

/*
 * TCP_DEFER_ACCEPT (since Linux 2.4): the kernel shows a connection only when
 * its first bytes are there.  Without it a client that connects and sends
 * nothing would hold a worker.  The kernel waits for this number of seconds,
 * rounded up to 1, 3, 7, 15 ...: 10 are 15.  Then it hands over the silent
 * connection.  We close that in REQUEST_TIMEOUT, or at once if others wait for
 * a worker of 01 to 05.  So silent clients delay no others, with two
 * exceptions.
 *
 * 1. A worker of 01, 03 or 05 that no other client needs waits for a silent one
 *    for FIRST_TIMEOUT: on a slow line its request may still come.
 * 2. The kernel has room for as many silent connections as for the backlog.
 *    It answers those beyond with a SYN cookie (net.ipv4.tcp_syncookies): then
 *    it remembers nothing of them, not even that they should be deferred, and
 *    we accept them before they have sent anything.  If such a client stays
 *    silent while others wait, it holds a worker of 01, 03 or 05 for
 *    FIRST_TIMEOUT, but not if it was in the backlog for as long.  So 5,000
 *    silent clients delay 01 by two seconds.
 *
 * To see the second: --backlog 128 and `ab -c 3000 -n 6000`.  ab ends with up
 * to 3,000 open connections on which it requests nothing, and counts those that
 * we close as failed.  Production servers put an event loop in front, where a
 * silent connection is cheap.
 *
 * TCP_NODELAY (since Linux 1.0): what is written leaves at once.  Without it a
 * small packet waits until the client has acknowledged the small one before it
 * (Nagle's algorithm).  A Linux client may delay that by 40 ms, and so the
 * second of two pipelined responses.
 *
 * On Linux the connections that accept(2) returns inherit the other options,
 * which saves three calls for each of them.  The receive timeout counts for
 * accept as well: without a client it returns every ten seconds, harmlessly.
 */
static void set_options(const struct options *options, int descriptor) {
    int on = 1;
    int seconds = options_time(options, REQUEST_TIMEOUT) / 1000;
    struct timeval receive = timeval_of(options_time(options, REQUEST_TIMEOUT));
    struct timeval sending = timeval_of(options_time(options, SEND_LOOK));

    seconds += seconds == 0; /* 0 would not defer at all */

    set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on,
               "SO_REUSEADDR");
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on,
               "TCP_NODELAY");
    set_option(descriptor, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds,
               sizeof seconds, "TCP_DEFER_ACCEPT");
    set_option(descriptor, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive,
               "SO_RCVTIMEO");
    set_option(descriptor, SOL_SOCKET, SO_SNDTIMEO, &sending, sizeof sending,
               "SO_SNDTIMEO");
}

/* Returns -1 with errno set: no such family, or too few descriptors. */
static int make_socket(const struct options *options, int family) {
    int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (descriptor >= 0)
        set_options(options, descriptor);
    return descriptor;
}

static bool start_listening(const struct options *options, int descriptor,
                            const struct sockaddr *address, socklen_t length) {
    return bind(descriptor, address, length) == 0 &&
           listen(descriptor, options->backlog) == 0;
}

__attribute__((noreturn)) static void
give_up_listening(const struct options *options) {
    const char *cure = "give another --address or --port";

    if (errno == EADDRINUSE)
        cure = "stop the program that uses it, or give another --port";
    if (errno == EACCES)
        cure = "ports below 1024 need root; give another --port";
    server_fatal("cannot listen on port %s of %s (%s); %s", options->port,
                 options->address, strerror(errno), cure);
}

/* Returns a socket that listens at the address; -1 with errno set. */
static int listen_at(const struct options *options,
                     const struct addrinfo *address) {
    int descriptor = make_socket(options, address->ai_family);

    if (descriptor < 0 || start_listening(options, descriptor, address->ai_addr,
                                          address->ai_addrlen))
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

/* A name may have addresses that this machine does not have: ::1 if IPv6 is
   switched off.  Then the next one is tried.  Any other error is final: a port
   that is in use at the first address must not move us to the second. */
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
        descriptor = listen_at(options, each);
    if (descriptor < 0)
        give_up_listening(options);
    freeaddrinfo(found);
    return descriptor;
}

/* The first socket was bound without SO_REUSEPORT.  So bind(2) failed there if
   another server had the port, with the option or without. */
int listener_open_beside(const struct options *options, int first) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int on = 1;

    if (getsockname(first, (struct sockaddr *)&address, &length) < 0)
        server_fatal("cannot tell the address of the listening socket: %s",
                     strerror(errno));
    int descriptor = make_socket(options, address.ss_family);
    if (descriptor < 0)
        give_up_listening(options);
    set_option(first, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on, "SO_REUSEPORT");
    set_option(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on,
               "SO_REUSEPORT");
    if (!start_listening(options, descriptor, (struct sockaddr *)&address,
                         length))
        give_up_listening(options);
    return descriptor;
}

static void note_address(struct client *client,
                         const struct sockaddr_storage *from) {
    const void *address =
        from->ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)from)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)from)->sin_addr;

    if (inet_ntop(from->ss_family, address, client->address,
                  sizeof client->address) == NULL)
        client->address[0] = '\0';
}

void listener_note_address(struct client *client, int socket, bool log) {
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof from;

    *client = (struct client){.socket = socket};
    if (log && getpeername(socket, (struct sockaddr *)&from, &length) == 0)
        note_address(client, &from);
}

void listener_never_waits(int listener) {
    int flags = fcntl(listener, F_GETFL);
    if (fcntl(listener, F_SETFL, flags | O_NONBLOCK) < 0)
        server_fatal("cannot make the socket non-blocking: %s",
                     strerror(errno));
}

bool listener_accept(int listener, bool log, int flags, struct client *client) {
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof from;

    client->address[0] = '\0';
    client->socket = accept4(listener, log ? (struct sockaddr *)&from : NULL,
                             log ? &length : NULL, flags | SOCK_CLOEXEC);
    if (client->socket < 0) {
        /* Many errors say only that the client left while it waited: see
           accept(2). */
        bool short_of_something = errno == EMFILE || errno == ENFILE ||
                                  errno == ENOBUFS || errno == ENOMEM;
        /* The parent of 03, or another worker, has shut the socket down: the
           server stops, and this process will receive the signal, too. */
        bool closed = errno == EINVAL;
        if (short_of_something)
            server_report_exhausted("descriptors or memory");
        else
            errno = EAGAIN;
        if ((short_of_something || closed) && (flags & SOCK_NONBLOCK) == 0)
            poll(NULL, 0, RETRY_DELAY); /* some client will end meanwhile */
        return false;
    }
    if (log)
        note_address(client, &from);
    return true;
}
