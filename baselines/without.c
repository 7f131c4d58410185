/* SPDX-License-Identifier: MIT */
/*
 * Ablation: a library to preload (ld.so(8), LD_PRELOAD) that switches off one
 * optimisation, so that its gain can be measured on an unchanged server.  The
 * variable WITHOUT names the optimisation.  The list has each name, what the
 * name switches off and, after the colon, what happens then.
 *
 *     more      MSG_MORE and TCP_CORK: the end of a connection (FIN) needs a
 *               packet of its own, and so does the head before a file
 *     cork      TCP_CORK alone: FIN has a packet of its own only after a file
 *     defer     TCP_DEFER_ACCEPT: accept() does not wait for the first bytes
 *     inherit   options that come from the listener: three of them are set for
 *               each connection
 *     at-once   an event loop's recv() right after accept(): it returns EAGAIN,
 *               and so the client is watched first
 *     gather    one call for head and body: now two calls
 *     send      send() for one piece of memory: it is sent with sendmsg()
 *     sendfile  sendfile(): files are sent through a buffer of this library
 *     nodelay   TCP_NODELAY: Nagle's algorithm waits for acknowledgements
 *     cache     the check of a kept file: the file always seems changed, so
 *               it is opened for each request, and read if it is small
 *     date      the field Date, kept for a second: time() returns now and one
 *               second later alternately, so it is formatted each time
 *     pipeline  one call for an event loop's commands to Redis: each command
 *               has its own call
 *
 * `control`, or any other name, switches nothing off: it shows the cost of the
 * library itself.  One name is for tools such as valgrind 3.19, which do not
 * support openat2():
 *
 *     openat2   files are opened by openat(): a symbolic link may lead out of
 *               the folder
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PIECE 65536

static const char *disabled = "";
static bool is_new[DESCRIPTORS_LIMIT]; /* accepted, and not yet received from */

__attribute__((constructor)) static void read_name(void) {
    const char *named = getenv("WITHOUT");
    if (named != NULL)
        disabled = named;
}

static bool is_without(const char *name) {
    return strcmp(disabled, name) == 0;
}

/* Sets `next` to the function that would be called without this library. */
#define NEXT(name)                                                             \
    static __typeof__(&(name)) next;                                           \
    if (next == NULL)                                                          \
    next = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)

static void set_each_option(int socket) {
    static const struct timeval receive = {.tv_sec = REQUEST_TIMEOUT / 1000},
                                sending = {.tv_sec =
                                               SEND_CHECK_INTERVAL / 1000};
    int on = 1;

    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &sending, sizeof sending);
}

int accept4(int listener, struct sockaddr *from, socklen_t *length, int flags) {
    NEXT(accept4);

    int socket = next(listener, from, length, flags);
    if (socket >= 0 && is_without("inherit"))
        set_each_option(socket);
    if (socket >= 0 && is_without("at-once"))
        is_new[socket] = (flags & SOCK_NONBLOCK) != 0; /* only in event loops */
    return socket;
}

ssize_t recv(int socket, void *room, size_t length, int flags) {
    NEXT(recv);

    if (is_new[socket]) {
        is_new[socket] = false;
        errno = EAGAIN;
        return -1;
    }
    return next(socket, room, length, flags);
}

/* Sends each command with a separate call. */
static ssize_t send_commands(int socket, const char *data, size_t length,
                             int flags) {
    NEXT(send);
    size_t sent = 0;

    while (sent < length) {
        const char *rest = data + sent;
        const char *end = memmem(rest, length - sent, "\r\n*", 3);
        size_t piece = end == NULL ? length - sent : (size_t)(end + 2 - rest);
        ssize_t count = next(socket, rest, piece, flags);
        if (count < 0)
            return sent > 0 ? (ssize_t)sent : -1;
        sent += (size_t)count;
    }
    return (ssize_t)sent;
}

ssize_t send(int socket, const void *data, size_t length, int flags) {
    NEXT(send);

    if (is_without("more"))
        flags &= ~MSG_MORE;
    if (is_without("send")) {
        struct iovec parts[] = {{(void *)(uintptr_t)data, length}, {NULL, 0}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        return sendmsg(socket, &message, flags);
    }
    if (is_without("pipeline") && *(const char *)data == '*')
        return send_commands(socket, data, length, flags);
    if (is_without("gather")) { /* only the head: the caller sends the rest */
        const char *blank = memmem(data, length, "\r\n\r\n", 4);
        if (blank != NULL && memcmp(data, "HTTP", 4) == 0)
            length = (size_t)(blank + 4 - (const char *)data);
    }
    return next(socket, data, length, flags);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    NEXT(sendmsg);
    struct msghdr first = *message;

    if (is_without("more"))
        flags &= ~MSG_MORE;
    if (is_without("gather")) { /* the caller sends the rest */
        while (first.msg_iovlen > 1 && first.msg_iov->iov_len == 0)
            first.msg_iov++, first.msg_iovlen--;
        first.msg_iovlen = 1;
    }
    return next(socket, &first, flags);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t length) {
    NEXT(sendfile);
    char piece[PIECE];

    if (!is_without("sendfile") || offset == NULL)
        return next(to, from, offset, length);
    ssize_t count =
        pread(from, piece, length < PIECE ? length : PIECE, *offset);
    if (count <= 0)
        return count;
    ssize_t sent = send(to, piece, (size_t)count, MSG_NOSIGNAL);
    if (sent > 0)
        *offset += sent;
    return sent;
}

int setsockopt(int socket, int level, int name, const void *value,
               socklen_t length) {
    NEXT(setsockopt);

    if (level == IPPROTO_TCP &&
        ((name == TCP_DEFER_ACCEPT && is_without("defer")) ||
         (name == TCP_NODELAY && is_without("nodelay")) ||
         (name == TCP_CORK && (is_without("more") || is_without("cork")))))
        return 0;
    return next(socket, level, name, value, length);
}

int fstatat(int folder, const char *restrict name, struct stat *restrict status,
            int flags) {
    NEXT(fstatat);

    if (!is_without("cache"))
        return next(folder, name, status, flags);
    *status = (struct stat){.st_mode = S_IFREG}; /* differs from any file that
                                                    the server has opened */
    return 0;
}

time_t time(time_t *place) {
    NEXT(time);
    static _Thread_local bool later;

    later = !later && is_without("date");
    return next(place) + later;
}

/* Most C libraries have no openat2() (glibc since 2.43), so the servers call
   syscall(). */
long syscall(long number, ...) {
    NEXT(syscall);
    long words[6]; /* no call has more arguments */
    va_list given;

    va_start(given, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(given, long);
    va_end(given);
    if (number != SYS_openat2 || !is_without("openat2"))
        return next(number, words[0], words[1], words[2], words[3], words[4],
                    words[5]);
    const struct open_how *how = (const struct open_how *)words[2];
    return openat((int)words[0], (const char *)words[1], (int)how->flags,
                  (mode_t)how->mode);
}
