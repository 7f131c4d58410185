/* SPDX-License-Identifier: MIT */
/* What every server does at its start, when it accepts, and at its end. */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include "app/connection.h"
#include "net/listener.h"
#include "net/redis/redis.h"
#include "ops.h"
#include "process/log.h"
#include "process/stop.h"

struct server {
    const struct architecture *architecture;
    struct options options;
    struct app app;
    struct redis_server redis;
    struct counters *counters; /* one for each of options.workers */
    int listener;              /* where this process accepts */
    int *listeners;            /* all: one, or one for each worker */
    size_t listeners_count;
    FILE *notes; /* writes to the text: what start and end print */
    char *text;
    size_t text_length;
};

/* Reads the command line, listens, and opens what is served.  An error prints
   one line and exits 1. */
void server_start(struct server *server,
                  const struct architecture *architecture, int argc,
                  char **argv);

/* The start is over: drops the rights that serving does not need
   (ops/confine.c), and prints the banner.  Call it before any fork. */
void server_ready(struct server *server);

/* Call it in each worker, if each can have a listener (.listeners of its
   architecture, has_workers too): from now on this process accepts at its own,
   if there is one for each.  The listener outlives the worker: the worker
   forked in its place serves the clients that wait there. */
void server_take_listener(struct server *server, size_t number);

/* As listener_never_waits() and listener_accept(), of this process' listener.
 */
void server_accept_without_waiting(const struct server *server);
bool server_accept(const struct server *server, int flags,
                   struct client *client);

/* In place of server_accept(): the kernel has accepted this client by itself.
 */
void server_adopt(const struct server *server, int socket,
                  struct client *client);

/* Call it at NEED_DONE, before connection_next(): ends our side of a connection
   that is not kept (net/transmit.h), and notes the exchange in the counters and
   in the access log, if there is one. */
void server_exchange_done(const struct server *server,
                          struct counters *counters,
                          const struct client *client,
                          const struct connection *connection);

/* Closes everything, prints the statistics, and returns main's exit status. */
int server_end(struct server *server);

#endif
