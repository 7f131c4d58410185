/* SPDX-License-Identifier: MIT */
/* The start and the end of every server, and accepting clients. */
#pragma once

#include "app/app.h"
#include "app/connection.h"
#include "net/listener.h"
#include "net/redis/pool.h"
#include "ops.h"
#include "process/log.h"
#include "process/shared.h"
#include "process/stop.h"

#include <netinet/in.h>

struct server {
    /* The connections to Redis of this process; an event loop has a pipeline
       instead.  On main()'s stack the first field is next to the frames of
       called functions.  A child of 02 writes to both, so the kernel copies
       fewer pages. */
    struct redis_pool redis_pool;
    const struct architecture *architecture;
    struct options options;
    struct app app;
    struct redis_server redis;
    struct counters *counters;  /* one for each of options.workers */
    struct log_limit *refusals; /* errors of accept4(2), for all processes */
    int listener;               /* where this process accepts */
    int *listeners;             /* all of them: one, or one for each worker */
    _Atomic size_t listeners_count;
};

struct client {
    int socket;
    char address[INET6_ADDRSTRLEN]; /* for the log; empty without --log */
};

/* Reads the command line, listens and opens the files, or exits 1. */
void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv);

/* Forbids the system calls that serving does not need (ops/confine.c), and
   prints the banner.  Call this function before a worker is forked. */
void server_ready(struct server *server);

/* Called in a worker: if each worker has a listener, makes this process use its
   own listener.  The next worker with this number gets the same listener, and
   serves the clients that wait there. */
void server_take_listener(struct server *server, size_t number);

/* Makes accept(2) return at once, for servers that sleep in another call. */
void server_make_listener_nonblocking(const struct server *server);

/* Accepts a client at this process' listener, with the flags of accept4(2).
   Returns false if there is no client (errno is EAGAIN), or after an error,
   usually because descriptors or memory are exhausted.  After an error, or if
   the listener was shut down, pauses for a RETRY_DELAY, unless the flags have
   SOCK_NONBLOCK. */
bool server_accept(const struct server *server, int flags,
                   struct client *client);

/* Call this instead of server_accept() if io_uring has accepted the client. */
void server_adopt(const struct server *server, int socket,
                  struct client *client);

/* At NEED_DONE, before connection_next(): ends the server's side of a
   connection that is not kept, and adds the exchange to the counters and the
   log. */
void server_exchange_done(const struct server *server,
                          struct counters *counters,
                          const struct client *client,
                          const struct connection *connection);

/* Closes everything, prints the statistics, and returns main's exit status. */
int server_end(struct server *server);
