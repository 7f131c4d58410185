/* SPDX-License-Identifier: MIT */
/*
 * Faults of system calls and allocations: a library to preload (ld.so(8),
 * LD_PRELOAD).  It makes one call of a running server fail or do less than
 * requested, or it raises a signal after the call.
 *
 * A file names the call and the fault.  The server and the test both map it, so
 * a test can cause hundreds of faults in one running server.  The variable
 * FAULTS names the file; without it all calls are passed on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The file's content; tests/e2e/faults.py has the same structure in Python. */
struct plan {
    char call[32];          /* the name of the call that fails; "": none */
    int64_t nth;            /* the number of the call that fails; 0: none */
    int64_t error;          /* its errno; 0: the call is short; -N: the call
                               succeeds, and then raises signal N */
    _Atomic int64_t seen;   /* calls with this name */
    _Atomic int64_t failed; /* calls that failed */
    _Atomic int64_t crashes;
    _Atomic int64_t blocks; /* allocated blocks that are not freed */
};

static struct plan nothing;
static struct plan *plan = &nothing;

/* A wrapper of malloc() cannot call dlsym(3), which may allocate. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static void on_crash(int number) {
    plan->crashes++;
    raise(number); /* SA_RESETHAND: the signal has its default action now */
}

__attribute__((constructor)) static void open_plan(void) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = on_crash,
                               .sa_flags = (int)SA_RESETHAND};
    const char *name = getenv("FAULTS");

    if (name == NULL)
        return;
    int descriptor = open(name, O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED,
                        descriptor, 0);
    if (descriptor < 0 || memory == MAP_FAILED)
        abort();
    close(descriptor);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        sigaction(deadly[i], &action, NULL);
    plan = memory;
}

/* Returns whether this call has a fault; then errno has the plan's error. */
static bool is_faulty(const char *call) {
    if (strcmp(plan->call, call) != 0 || ++plan->seen != plan->nth)
        return false;
    plan->failed++;
    errno = (int)plan->error;
    return true;
}

/* Defines `next`: the function that this wrapper replaces. */
#define NEXT(name)                                                             \
    static __typeof__(&name) next;                                             \
    if (next == NULL)                                                          \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Wraps a function without a length: the call fails or is passed on. */
#define WRAP(type, failure, name, parameters, ...)                             \
    type name parameters {                                                     \
        NEXT(name);                                                            \
        return is_faulty(#name) ? (failure) : next(__VA_ARGS__);               \
    }

/* Raises the plan's signal after the call; the signal may end the process. */
static ssize_t signalled(ssize_t result) {
    raise((int)-plan->error);
    return result;
}

/* Wraps a function with a length: the call may also be short, or be followed by
   a signal. */
#define WRAP_LENGTH(name, length, parameters, ...)                             \
    ssize_t name parameters {                                                  \
        NEXT(name);                                                            \
        if (is_faulty(#name)) {                                                \
            if (errno < 0)                                                     \
                return signalled(next(__VA_ARGS__));                           \
            if (errno != 0)                                                    \
                return -1;                                                     \
            length = length > 0 ? 1 : 0;                                       \
        }                                                                      \
        return next(__VA_ARGS__);                                              \
    }

WRAP(int, -1, accept4,
     (int fd, struct sockaddr *address, socklen_t *length, int flags), fd,
     address, length, flags)
WRAP(int, -1, socket, (int domain, int type, int protocol), domain, type,
     protocol)
WRAP(int, -1, bind, (int fd, const struct sockaddr *address, socklen_t length),
     fd, address, length)
WRAP(int, -1, listen, (int fd, int backlog), fd, backlog)
WRAP(int, -1, connect,
     (int fd, const struct sockaddr *address, socklen_t length), fd, address,
     length)
WRAP(int, -1, setsockopt,
     (int fd, int level, int name, const void *value, socklen_t length), fd,
     level, name, value, length)
WRAP(int, -1, getsockopt,
     (int fd, int level, int name, void *value, socklen_t *length), fd, level,
     name, value, length)
WRAP(int, -1, getsockname,
     (int fd, struct sockaddr *address, socklen_t *length), fd, address, length)
WRAP(int, -1, shutdown, (int fd, int how), fd, how)
WRAP(int, -1, poll, (struct pollfd * fds, nfds_t count, int timeout), fds,
     count, timeout)
WRAP(int, -1, ppoll,
     (struct pollfd * fds, nfds_t count, const struct timespec *timeout,
      const sigset_t *mask),
     fds, count, timeout, mask)
WRAP(int, -1, epoll_create1, (int flags), flags)
WRAP(int, -1, epoll_ctl,
     (int set, int change, int fd, struct epoll_event *event), set, change, fd,
     event)
WRAP(int, -1, epoll_wait,
     (int set, struct epoll_event *events, int count, int timeout), set, events,
     count, timeout)
#if __has_include(<liburing.h>)
#include <liburing.h>

/* The functions of liburing return minus errno. */
WRAP(int, -errno, io_uring_queue_init_params,
     (unsigned entries, struct io_uring *ring,
      struct io_uring_params *parameters),
     entries, ring, parameters)

/* If the planned call is one of the operations to be submitted, spoils it: the
   descriptor -1 makes it fail (EBADF), or the length 1 makes it short. */
static void spoil(struct io_uring *ring) {
    static const char *const names[IORING_OP_LAST] = {
        [IORING_OP_ACCEPT] = "ring accept",
        [IORING_OP_RECV] = "ring recv",
        [IORING_OP_SEND] = "ring send",
        [IORING_OP_SENDMSG] = "ring sendmsg",
        [IORING_OP_POLL_ADD] = "ring poll"};

    for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];
        const char *name = names[sqe->opcode];
        if (name == NULL || !is_faulty(name))
            continue;
        if (errno != 0)
            sqe->fd = -1;
        else if (sqe->len > 1)
            sqe->len = 1;
    }
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring,
                                     struct io_uring_cqe **result,
                                     unsigned wait_nr,
                                     struct __kernel_timespec *time,
                                     sigset_t *signals) {
    NEXT(io_uring_submit_and_wait_timeout);
    spoil(ring);
    return is_faulty("io_uring_enter")
               ? -errno
               : next(ring, result, wait_nr, time, signals);
}
#endif
WRAP(pid_t, -1, fork, (void), )
WRAP(pid_t, -1, waitpid, (pid_t pid, int *status, int options), pid, status,
     options)
WRAP(int, errno, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes,
      void *(*start)(void *), void *context),
     thread, attributes, start, context)
WRAP(int, errno, pthread_mutex_lock, (pthread_mutex_t * mutex), mutex)
WRAP(int, -1, fstat, (int fd, struct stat *status), fd, status)
WRAP(int, -1, fstatat,
     (int folder, const char *name, struct stat *status, int flags), folder,
     name, status, flags)
WRAP(void *, MAP_FAILED, mmap,
     (void *address, size_t length, int protection, int flags, int fd,
      off_t offset),
     address, length, protection, flags, fd, offset)

WRAP_LENGTH(recv, length, (int fd, void *data, size_t length, int flags), fd,
            data, length, flags)
WRAP_LENGTH(send, length, (int fd, const void *data, size_t length, int flags),
            fd, data, length, flags)
WRAP_LENGTH(read, length, (int fd, void *data, size_t length), fd, data, length)
WRAP_LENGTH(write, length, (int fd, const void *data, size_t length), fd, data,
            length)
WRAP_LENGTH(pread, length, (int fd, void *data, size_t length, off_t offset),
            fd, data, length, offset)
WRAP_LENGTH(sendfile, length, (int to, int from, off_t *offset, size_t length),
            to, from, offset, length)

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    NEXT(sendmsg);
    if (!is_faulty("sendmsg"))
        return next(fd, message, flags);
    if (errno < 0)
        return signalled(next(fd, message, flags));
    if (errno != 0)
        return -1;
    struct iovec *part = message->msg_iov;
    while (part->iov_len == 0)
        part++;
    struct iovec byte = {part->iov_base, 1};
    return next(fd, &(struct msghdr){.msg_iov = &byte, .msg_iovlen = 1}, flags);
}

int open(const char *name, int flags, ...) {
    NEXT(open);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return is_faulty("open") ? -1 : next(name, flags, mode);
}

int fcntl(int fd, int command, ...) {
    NEXT(fcntl);
    va_list rest;
    va_start(rest, command);
    long value = va_arg(rest, long);
    va_end(rest);
    return is_faulty("fcntl") ? -1 : next(fd, command, value);
}

/* Returns the name of a call for which the C library has no function. */
static const char *name_of(long number) {
    switch (number) {
    case SYS_openat2:
        return "openat2";
    case SYS_seccomp:
        return "seccomp";
    case SYS_landlock_create_ruleset:
        return "landlock_create_ruleset";
    case SYS_landlock_add_rule:
        return "landlock_add_rule";
    case SYS_landlock_restrict_self:
        return "landlock_restrict_self";
    default:
        return "syscall";
    }
}

long syscall(long number, ...) {
    NEXT(syscall);
    va_list rest;
    long values[6];
    va_start(rest, number);
    for (size_t i = 0; i < 6; i++)
        values[i] = va_arg(rest, long);
    va_end(rest);
    if (is_faulty(name_of(number)))
        return -1;
    return next(number, values[0], values[1], values[2], values[3], values[4],
                values[5]);
}

/* ---- Memory ---- */

static void *counted(void *memory) {
    plan->blocks += memory != NULL;
    return memory;
}

void *malloc(size_t size) {
    return is_faulty("malloc") ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return is_faulty("calloc") ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size) {
    if (is_faulty("realloc"))
        return NULL;
    void *moved = __libc_realloc(memory, size);
    return memory == NULL ? counted(moved) : moved;
}

void free(void *memory) {
    plan->blocks -= memory != NULL;
    __libc_free(memory);
}
