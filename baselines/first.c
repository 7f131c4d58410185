/* SPDX-License-Identifier: MIT */
/*
 * The first server: a whole web server in one file, as short as possible.  Read
 * it from top to bottom; then start it and send it a request:
 *
 *     make baselines && build/baselines/first 8000
 *     curl -i http://localhost:8000/          in another window
 *
 * A server makes seven system calls: socket, bind and listen once, then accept,
 * read, write and close for each client.  `strace build/baselines/first 8000`
 * shows each of them as it happens.  (It also shows the calls that start any
 * program, and two that only change settings: setsockopt and, for signal(),
 * rt_sigaction.)
 *
 * This server has three faults that the rest of this project removes.  It reads
 * once, although TCP may deliver a request in pieces.  It gives every request
 * the same answer.  While one client sends nothing, all others wait.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char response[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/plain\r\n"
                               "Content-Length: 7\r\n"
                               "Connection: close\r\n"
                               "\r\n"
                               "Hello!\n";

static void die(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

/* Returns a socket that clients can connect to, on a port of this machine. */
static int listen_on(unsigned short port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0)
        die("socket");
    /* Without this option the port stays in use for a minute after the server's
       end. */
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        die("bind");
    if (listen(listener, 128) < 0) /* 128 clients may wait to be accepted */
        die("listen");
    return listener;
}

int main(int argc, char **argv) {
    int listener = listen_on(
        (unsigned short)(argc > 1 ? strtoul(argv[1], NULL, 10) : 8000));
    char request[4096];

    /* A write to a client that has left must not end the server. */
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int client = accept(listener, NULL, NULL); /* waits for a client */
        if (client < 0)
            continue;
        /* Sleeps until the client sends a request. */
        if (read(client, request, sizeof request) > 0 &&
            write(client, response, strlen(response)) < 0)
            perror("write"); /* the client has left: continue */
        close(client);
    }
}
