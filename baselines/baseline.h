/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the baselines.
 *
 * A baseline is the minimal program of its architecture.  It accepts, reads
 * once, sends Redis the commands of its options (redis.h), and writes an answer
 * made at the start.  Then it closes or keeps the connection.  It has no
 * parser of requests, no application, timeouts or clean shutdown.  It is not a
 * lower bound: a server with fewer or cheaper system calls can cost less.
 *
 * Simplifications: one read is treated as one whole request, which is true for
 * ab, but not for every client.  Connections are kept for all clients or for
 * none, whatever a client requests.
 *
 * The listening socket is like that of the servers: it has the same backlog,
 * and the same options except the timeouts.
 */
#pragma once

#include "config.h"
#include "redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct baseline {
    int listener;
    char *answer; /* head and body, `bytes` long */
    size_t bytes;
    int file; /* holds a long answer; otherwise -1 */
    size_t workers;
    bool keep_alive;
    struct baseline_redis redis;
};

/* Sends as much as possible of the answer, from offset `from` on.  Returns the
   result of send(2) or sendfile(2).  Like the servers, it sends a short answer
   from memory, and a long one from a file, which is not copied again for each
   client. */
static inline ssize_t baseline_send(const struct baseline *baseline, int client,
                                    size_t from) {
    off_t offset = (off_t)from;
    int on = 1;

    /* MSG_MORE and TCP_CORK, as in transmit(): the FIN is in the last
       packet. */
    if (baseline->file < 0)
        return send(client, baseline->answer + from, baseline->bytes - from,
                    baseline->keep_alive ? 0 : MSG_MORE);
    if (!baseline->keep_alive)
        setsockopt(client, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    return sendfile(client, baseline->file, &offset, baseline->bytes - from);
}

/* ---- For programs that sleep in each call (01-05, 10) ---- */

static inline bool baseline_answer(const struct baseline *baseline,
                                   int client) {
    size_t sent = 0;

    while (sent < baseline->bytes) {
        ssize_t count = baseline_send(baseline, client, sent);
        if (count <= 0)
            return false;
        sent += (size_t)count;
    }
    return true;
}

/* Reads once, asks Redis, and answers.  With --keep-alive, repeats this until
   the client leaves.  `redis` is the connection to Redis; -1: there is no
   command for Redis. */
static inline void baseline_serve(const struct baseline *baseline, int client,
                                  int redis) {
    char request[RECEIVE_SIZE];

    while (recv(client, request, sizeof request, 0) > 0) {
        baseline_ask(&baseline->redis, redis);
        if (!baseline_answer(baseline, client) || !baseline->keep_alive)
            break;
    }
    close(client);
}

/* ---- For programs that fork (02, 03, 09) ---- */

/* Call this function first in a child: the child must not outlive its
   parent. */
static inline void baseline_die_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
}

/* Forks worker processes, waits for SIGTERM, and ends the workers.  A
   worker's CPU time is added to its parent's when the parent has waited for the
   worker. */
static inline int baseline_fork_workers(const struct baseline *baseline,
                                        size_t count,
                                        void (*work)(const struct baseline *)) {
    sigset_t terminate;
    int number;

    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pid_t parent = getpid();
    pid_t *workers = calloc(count, sizeof workers[0]);
    if (workers == NULL)
        baseline_fatal("calloc");
    for (size_t i = 0; i < count; i++) {
        if ((workers[i] = fork()) < 0)
            baseline_fatal("fork");
        if (workers[i] == 0) {
            baseline_die_with(parent);
            work(baseline);
        }
    }
    sigprocmask(SIG_BLOCK, &terminate, NULL);
    sigwait(&terminate, &number);
    for (size_t i = 0; i < count; i++)
        kill(workers[i], SIGTERM);
    free(workers);
    while (wait(NULL) > 0)
        ;
    return EXIT_SUCCESS;
}

/* ---- The start ---- */

static inline size_t baseline_number(const char *text, size_t least,
                                     size_t most) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (end == text || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "%s: '%s' is not a number from %zu to %zu\n",
                program_invocation_short_name, text, least, most);
        exit(EXIT_FAILURE);
    }
    return number;
}

/* Makes the answer, `bytes` long: a head with Content-Length, and a body of
   blanks.  If `bytes` is less than the head's length, there is no body. */
static inline void baseline_make_answer(struct baseline *baseline) {
    static const char form[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/plain\r\n"
                               "Connection: %s\r\n"
                               "Content-Length: %0*zu\r\n\r\n";
    const char *connection = baseline->keep_alive ? "keep-alive" : "close";
    const int digits = 8; /* fixed, so that the head's length is known */

    size_t head =
        (size_t)snprintf(NULL, 0, form, connection, digits, (size_t)0);
    if (baseline->bytes < head)
        baseline->bytes = head;
    baseline->answer = malloc(baseline->bytes + 1);
    if (baseline->answer == NULL)
        baseline_fatal("malloc");
    memset(baseline->answer, ' ', baseline->bytes);
    snprintf(baseline->answer, head + 1, form, connection, digits,
             baseline->bytes - head);
    baseline->answer[head] = ' '; /* replaces snprintf's zero */
    baseline->file = -1;
    if (baseline->bytes <= SMALL_FILE)
        return;
    baseline->file = memfd_create("answer", MFD_CLOEXEC);
    if (baseline->file < 0 ||
        write(baseline->file, baseline->answer, baseline->bytes) !=
            (ssize_t)baseline->bytes)
        baseline_fatal("memfd_create");
}

static inline int baseline_listen(const char *where, unsigned short port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1, seconds = REQUEST_TIMEOUT / 1000;

    if (inet_pton(AF_INET, where, &address.sin_addr) != 1)
        errno = EINVAL, baseline_fatal(where);
    if (listener < 0 ||
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds,
                   sizeof seconds) < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, DEFAULT_BACKLOG) < 0)
        baseline_fatal("listen");
    return listener;
}

/* Prints the address, which also shows that the socket listens. */
static inline void baseline_print_url(int listener) {
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;

    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        baseline_fatal("getsockname");
    printf("url           http://%s:%d/\n", inet_ntoa(address.sin_addr),
           ntohs(address.sin_port));
    fflush(stdout); /* before any fork: a child would print it again */
}

static const struct option baseline_options[] = {
    {"address", required_argument, NULL, 'a'},
    {"port", required_argument, NULL, 'p'},
    {"bytes", required_argument, NULL, 'b'},
    {"workers", required_argument, NULL, 'w'},
    {"redis", required_argument, NULL, 'r'},
    {"greet", required_argument, NULL, 'g'},
    {"ask", required_argument, NULL, 'q'},
    {"keep-alive", no_argument, NULL, 'k'},
    {0},
};

__attribute__((noreturn)) static inline void baseline_usage(const char *name) {
    fprintf(stderr,
            "usage: %s [--address A] [--port N] [--bytes N] [--workers N] "
            "[--keep-alive] [--redis HOST:PORT|unix:PATH] [--greet COMMAND] "
            "... [--ask COMMAND] ...\n",
            name);
    exit(EXIT_FAILURE);
}

/* Each connection needs a descriptor. */
static inline void baseline_raise_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur =
        limit.rlim_max < DESCRIPTORS_LIMIT ? limit.rlim_max : DESCRIPTORS_LIMIT;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* if it fails: fewer clients */
}

static inline void baseline_start(struct baseline *baseline, int argc,
                                  char **argv) {
    const char *address = "127.0.0.1";
    unsigned short port = DEFAULT_PORT;
    int option;

    *baseline = (struct baseline){.workers = DEFAULT_WORKERS};
    while ((option = getopt_long(argc, argv, "", baseline_options, NULL)) != -1)
        switch (option) {
        case 'a':
            address = optarg;
            break;
        case 'p':
            port = (unsigned short)baseline_number(optarg, 0, 65535);
            break;
        case 'b':
            baseline->bytes = baseline_number(optarg, 0, 10000000);
            break;
        case 'w':
            baseline->workers = baseline_number(optarg, 1, WORKERS_LIMIT);
            break;
        case 'r':
            baseline_find_redis(&baseline->redis, optarg);
            break;
        case 'g':
            baseline_add_command(&baseline->redis.greetings, optarg);
            break;
        case 'q':
            baseline_add_command(&baseline->redis.asks, optarg);
            break;
        case 'k':
            baseline->keep_alive = true;
            break;
        default:
            baseline_usage(argv[0]);
        }
    signal(SIGPIPE, SIG_IGN); /* sendfile() takes no MSG_NOSIGNAL */
    baseline_raise_limit();
    baseline_make_answer(baseline);
    baseline->listener = baseline_listen(address, port);
    baseline_print_url(baseline->listener);
}
