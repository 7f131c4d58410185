/* SPDX-License-Identifier: MIT */
/*
 * Tricks switched off: a library to preload (ld.so(8), LD_PRELOAD), so that
 * what one of them brings can be measured on a server that knows nothing of it.
 * The variable WITHOUT names one:
 *
 *     more      MSG_MORE and TCP_CORK: the end of a connection (FIN) is no more
 *               in one packet with its last bytes, nor a file's first bytes
 *               with the head
 *     defer     TCP_DEFER_ACCEPT: a connection is shown before its first bytes
 *     gather    one call for head and body: now they are two
 *     sendfile  files go out through a buffer of ours
 *     nodelay   TCP_NODELAY: Nagle's algorithm waits for acknowledgements
 *
 * And one for tools that look at the servers and do not know openat2(), as
 * valgrind 3.19 does not:
 *
 *     openat2   files are opened by openat(): nothing keeps them in a folder
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE 65536

static const char *trick = "";

__attribute__((constructor)) static void read_trick(void) {
    const char *named = getenv("WITHOUT");
    if (named != NULL)
        trick = named;
}

static bool is_without(const char *name) {
    return strcmp(trick, name) == 0;
}

/* The function of that name that would have been called without us. */
#define NEXT(name)                                                             \
    static __typeof__(&(name)) next;                                           \
    if (next == NULL)                                                          \
    next = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)

ssize_t send(int socket, const void *data, size_t length, int flags) {
    NEXT(send);

    if (is_without("more"))
        flags &= ~MSG_MORE;
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
         (name == TCP_CORK && is_without("more"))))
        return 0;
    return next(socket, level, name, value, length);
}

/* The C library has no openat2() of its own: who wants it calls this. */
long syscall(long number, ...) {
    NEXT(syscall);
    long words[6]; /* no call has more */
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
