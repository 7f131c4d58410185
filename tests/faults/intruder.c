/* SPDX-License-Identifier: MIT */
/*
 * An attacker in control of a server: a library to preload (ld.so(8)).  When
 * the server has accepted a connection, the library tries actions, most of them
 * forbidden.  It prints each result on standard error: a name and an errno, 0
 * for success.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    dprintf(STDERR_FILENO, "intruder %s %d\n", what, result < 0 ? errno : 0);
}

/* Opens a file with openat2(2), which every server may call. */
static void try_file(const char *what, const char *below, uint64_t flags) {
    char path[PATH_MAX];
    struct open_how how = {.flags = flags};

    snprintf(path, sizeof path, "%s%s", below[0] == '/' ? "" : getenv("ROOT"),
             below);
    tell(what, syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
}

static void try_port(const char *what, const char *number, int call) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtoul(number, NULL, 10)),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};

    /* `call` is SYS_connect or SYS_bind. */
    tell(what, syscall(call, descriptor, &address, sizeof address));
    close(descriptor);
}

/* Frees a block twice, a fault that an attacker can use. */
static void free_twice(void) {
    void *volatile block = malloc(1);

    free(block);
    free(block);
}

#if __has_include(<liburing.h>)
#include <liburing.h>

static struct io_uring *ring; /* of the server, or NULL */

/* A server with io_uring calls this function before it sleeps. */
int io_uring_submit_and_wait_timeout(struct io_uring *of_server,
                                     struct io_uring_cqe **result,
                                     unsigned wait_nr,
                                     struct __kernel_timespec *time,
                                     sigset_t *signals) {
    static __typeof__(&io_uring_submit_and_wait_timeout) next;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
    ring = of_server;
    return next(of_server, result, wait_nr, time, signals);
}

/* Submits an operation; the last result in the ring is its result. */
static void try_operation(const char *what, struct io_uring_sqe *operation) {
    operation->user_data = 0; /* the server ignores the result */
    io_uring_submit(ring);
    unsigned last = *ring->cq.ktail - 1;
    int result = ring->cq.cqes[last & *ring->cq.kring_mask].res;
    errno = -result;
    tell(what, result < 0 ? -1 : 0);
}

/* Tries operations of the ring, which seccomp cannot see. */
static void try_ring(void) {
    static struct sockaddr_in address = {.sin_family = AF_INET};
    struct io_uring_sqe *operation;

    if (ring == NULL)
        return;
    operation = io_uring_get_sqe(ring);
    io_uring_prep_openat(operation, AT_FDCWD, "public/index.html", O_RDONLY, 0);
    try_operation("ring_open", operation);
    operation = io_uring_get_sqe(ring);
    io_uring_prep_socket(operation, AF_INET, SOCK_DGRAM, 0, 0);
    try_operation("ring_socket", operation);
    operation = io_uring_get_sqe(ring);
    io_uring_prep_connect(operation, 0, (struct sockaddr *)&address,
                          sizeof address);
    try_operation("ring_connect", operation);
}
#else
static void try_ring(void) {
}
#endif

__attribute__((destructor)) static void signal_at_exit(void) {
    if (getenv("SIGNAL_AT_EXIT") != NULL)
        (void)raise(SIGTERM);
}

static void intrude(void) {
    char *none[] = {NULL};

    if (getenv("FREE_TWICE") != NULL)
        free_twice(); /* the C library ends the process */
    try_file("page", "public/index.html", O_RDONLY);
    try_file("template", "templates/guestbook/index.html", O_RDONLY);
    try_file("overwrite", "public/index.html", O_WRONLY);
    try_file("redirects", "redirects", O_RDONLY);
    try_file("passwd", "/etc/passwd", O_RDONLY);
    try_file("environment", "/proc/self/environ", O_RDONLY);
    tell("open", syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
    try_port("redis", getenv("REDIS_PORT"), SYS_connect);
    try_port("connect", getenv("OTHER_PORT"), SYS_connect);
    try_port("bind", "0", SYS_bind);
    tell("execve", execve("/nowhere", none, none));
    tell("ptrace", ptrace(PTRACE_PEEKUSER, getppid(), NULL, NULL));
    tell("setuid", setuid(getuid()));
    try_ring();
    tell("kill", kill((pid_t)strtol(getenv("TEST_PID"), NULL, 10), 0));
}

static void intrude_once(void) {
    static _Atomic int intruded;

    if (!intruded++)
        intrude();
}

/* A server with io_uring calls this function for the address of a client. */
int getpeername(int fd, struct sockaddr *address, socklen_t *length) {
    static int (*next)(int, struct sockaddr *, socklen_t *);

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "getpeername");
    intrude_once();
    return next(fd, address, length);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    static int (*next)(int, struct sockaddr *, socklen_t *, int);

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "accept4");
    int client = next(fd, address, length, flags);
    if (client >= 0)
        intrude_once();
    return client;
}
