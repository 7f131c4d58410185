/* SPDX-License-Identifier: MIT */
/*
 * What the floors share.
 *
 * A floor is the barest program of its architecture: it accepts, reads once,
 * writes an answer made at the start, and closes (or keeps the connection).  No
 * parsing, no application, no timeouts, no tidy end.  It is the least that its
 * way of waiting can cost on this machine, and a server is measured against it.
 *
 * Simplification: one read is taken for one whole request, which holds for ab
 * and for no real client.
 *
 * The listening socket is that of the servers: same backlog, same options but
 * for the timeouts.
 */
#ifndef FLOOR_H
#define FLOOR_H

#include "config.h"

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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct floor {
    int listener;
    char *answer; /* head and body, `bytes` long */
    size_t bytes;
    size_t workers;
    bool keep_alive;
};

/* ---- For programs that sleep in each call (01-05) ---- */

/* Reads once, answers, and so on until the client leaves; or only once. */
static inline void floor_serve(const struct floor *floor, int client) {
    char request[RECEIVE_SIZE];

    while (recv(client, request, sizeof request, 0) > 0 &&
           send(client, floor->answer, floor->bytes, MSG_NOSIGNAL) > 0 &&
           floor->keep_alive)
        ;
    close(client);
}

/* ---- For programs that fork (02, 03) ---- */

/* Called by a child first of all: it shall not outlive its parent. */
static inline void floor_die_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
}

/* ---- The start ---- */

__attribute__((noreturn)) static inline void floor_give_up(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

static inline size_t floor_number(const char *text, size_t least, size_t most) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (end == text || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "%s: '%s' is no number from %zu to %zu\n",
                program_invocation_short_name, text, least, most);
        exit(EXIT_FAILURE);
    }
    return number;
}

/* Makes the answer: a head that names the length of its body, and a body of
   blanks that fills it up to `bytes`. */
static inline void floor_make_answer(struct floor *floor) {
    static const char form[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/plain\r\n"
                               "Connection: %s\r\n"
                               "Content-Length: %0*zu\r\n\r\n";
    const char *connection = floor->keep_alive ? "keep-alive" : "close";
    const int digits = 8; /* always, so that the head's length is known */

    size_t head =
        (size_t)snprintf(NULL, 0, form, connection, digits, (size_t)0);
    if (floor->bytes < head)
        floor->bytes = head;
    floor->answer = malloc(floor->bytes + 1);
    if (floor->answer == NULL)
        floor_give_up("malloc");
    memset(floor->answer, ' ', floor->bytes);
    snprintf(floor->answer, head + 1, form, connection, digits,
             floor->bytes - head);
    floor->answer[head] = ' '; /* where snprintf's zero stood */
}

static inline int floor_listen(unsigned short port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1, seconds = REQUEST_TIMEOUT / 1000;

    if (listener < 0 ||
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds,
                   sizeof seconds) < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, DEFAULT_BACKLOG) < 0)
        floor_give_up("listen");
    return listener;
}

/* Prints the address: the sign that the socket listens. */
static inline void floor_print_url(int listener) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;

    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        floor_give_up("getsockname");
    printf("url           http://127.0.0.1:%d/\n", ntohs(address.sin_port));
    fflush(stdout); /* before any fork: a child would print it again */
}

static inline void floor_start(struct floor *floor, int argc, char **argv) {
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"bytes", required_argument, NULL, 'b'},
        {"workers", required_argument, NULL, 'w'},
        {"keep-alive", no_argument, NULL, 'k'},
        {0},
    };
    unsigned short port = DEFAULT_PORT;
    struct rlimit limit;
    int option;

    *floor = (struct floor){.workers = DEFAULT_WORKERS};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'p':
            port = (unsigned short)floor_number(optarg, 0, 65535);
            break;
        case 'b':
            floor->bytes = floor_number(optarg, 0, 10000000);
            break;
        case 'w':
            floor->workers = floor_number(optarg, 1, WORKERS_LIMIT);
            break;
        case 'k':
            floor->keep_alive = true;
            break;
        default:
            fprintf(stderr,
                    "usage: %s [--port N] [--bytes N] [--workers N] "
                    "[--keep-alive]\n",
                    argv[0]);
            exit(EXIT_FAILURE);
        }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < DESCRIPTORS_LIMIT ? limit.rlim_max
                                                            : DESCRIPTORS_LIMIT;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* else we go on with fewer */
    }
    floor_make_answer(floor);
    floor->listener = floor_listen(port);
    floor_print_url(floor->listener);
}

/* For event loops: reads once if there is something.  False: the connection is
 * at its end. */
static inline bool floor_serve_now(const struct floor *floor, int client) {
    char request[RECEIVE_SIZE];
    ssize_t got = recv(client, request, sizeof request, 0);

    if (got < 0 && errno == EAGAIN)
        return true;
    return got > 0 &&
           send(client, floor->answer, floor->bytes, MSG_NOSIGNAL) > 0 &&
           floor->keep_alive;
}

#endif
