/* SPDX-License-Identifier: MIT */
/* The baseline of 10_coroutines: a stack for each connection, and one loop that
   switches to the stack whose descriptor is ready.  As in the baselines of
   01 to 05, baseline_serve() serves each connection.  But macros replace
   recv(), send() and sendfile() by functions that switch to the loop.  A pool
   has the connections to Redis: the connection returned last is lent first. */
#include "../10_coroutines/limits.h"
#include "../10_coroutines/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

/* Each function repeats a call that does not sleep, and waits at each
   EAGAIN. */
static ssize_t recv_switching(int socket, void *memory, size_t size, int flags);
static ssize_t send_switching(int socket, const void *memory, size_t size,
                              int flags);
static ssize_t sendfile_switching(int socket, int file, off_t *offset,
                                  size_t count);
#define recv     recv_switching
#define send     send_switching
#define sendfile sendfile_switching
#include "baseline.h"
#undef recv
#undef send
#undef sendfile

/* The stack also holds a reply of Redis. */
#define STACK_SIZE (REPLY_SIZE + COROUTINE_STACK)

struct coroutine {
    struct stack stack;
    int client;
    struct coroutine *next; /* in the list of unused coroutines */
};

static struct {
    struct baseline baseline;
    int set;
    struct stack stack; /* of the loop */
    struct coroutine *current;
    struct coroutine *unused;
    size_t idle_count;
    struct {
        struct coroutine *waiter;
        bool in_set;
    } watched[DESCRIPTORS_LIMIT]; /* only used pages take memory */
    int idle[DESCRIPTORS_LIMIT];  /* connections to Redis */
} loop;

static void wait_for(int descriptor) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.fd = descriptor};

    if (!loop.watched[descriptor].in_set &&
        epoll_ctl(loop.set, EPOLL_CTL_ADD, descriptor, &event) < 0)
        baseline_fatal("epoll_ctl");
    loop.watched[descriptor].in_set = true;
    loop.watched[descriptor].waiter = loop.current;
    stack_switch(&loop.current->stack, &loop.stack, false);
}

static ssize_t recv_switching(int socket, void *memory, size_t size,
                              int flags) {
    ssize_t count;

    while ((count = recv(socket, memory, size, flags | MSG_DONTWAIT)) < 0 &&
           errno == EAGAIN)
        wait_for(socket);
    return count;
}

static ssize_t send_switching(int socket, const void *memory, size_t size,
                              int flags) {
    ssize_t count;

    while ((count = send(socket, memory, size, flags | MSG_DONTWAIT)) < 0 &&
           errno == EAGAIN)
        wait_for(socket);
    return count;
}

static ssize_t sendfile_switching(int socket, int file, off_t *offset,
                                  size_t count) {
    ssize_t sent;

    while ((sent = sendfile(socket, file, offset, count)) < 0 &&
           errno == EAGAIN)
        wait_for(socket);
    return sent;
}

static void resume(struct coroutine *coroutine) {
    loop.current = coroutine;
    stack_switch(&loop.stack, &coroutine->stack, false);
}

/* The function on each stack: it serves one connection after another. */
static void run(void) {
    bool asks = loop.baseline.redis.asks.count > 0;

    for (;;) {
        struct coroutine *self = loop.current;
        int redis = -1;
        if (asks)
            redis = loop.idle_count > 0
                        ? loop.idle[--loop.idle_count]
                        : baseline_connect(&loop.baseline.redis);
        baseline_serve(&loop.baseline, self->client, redis);
        if (asks)
            loop.idle[loop.idle_count++] = redis;
        self->next = loop.unused;
        loop.unused = self;
        stack_switch(&self->stack, &loop.stack, false);
    }
}

static struct coroutine *take_coroutine(void) {
    struct coroutine *coroutine = loop.unused;

    if (coroutine != NULL) {
        loop.unused = coroutine->next;
        return coroutine;
    }
    coroutine = calloc(1, sizeof *coroutine);
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (coroutine == NULL || stack == MAP_FAILED)
        baseline_fatal("a stack");
    stack_prepare(&coroutine->stack, stack, STACK_SIZE, run);
    return coroutine;
}

static void accept_clients(void) {
    int client;

    while ((client = accept4(loop.baseline.listener, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct coroutine *coroutine = take_coroutine();
        coroutine->client = client;
        loop.watched[client].in_set = false;
        loop.watched[client].waiter = NULL;
        resume(coroutine);
    }
}

int main(int argc, char **argv) {
    struct epoll_event events[EVENTS_AT_ONCE];
    struct epoll_event listening = {.events = EPOLLIN};

    baseline_start(&loop.baseline, argc, argv);
    loop.set = epoll_create1(EPOLL_CLOEXEC);
    listening.data.fd = loop.baseline.listener;
    if (loop.set < 0 ||
        fcntl(loop.baseline.listener, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(loop.set, EPOLL_CTL_ADD, loop.baseline.listener, &listening) <
            0)
        baseline_fatal("start");
    for (;;) {
        int count = epoll_wait(loop.set, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int descriptor = events[i].data.fd;
            struct coroutine *waiter = loop.watched[descriptor].waiter;
            if (descriptor == loop.baseline.listener) {
                accept_clients();
            } else if (waiter != NULL) {
                loop.watched[descriptor].waiter = NULL;
                resume(waiter);
            }
        }
    }
}
