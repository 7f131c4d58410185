/* SPDX-License-Identifier: MIT */
/* Serves one connection at a time, from its first byte to its last, with calls
   that sleep.  01 to 05 differ in the processes or threads that call it. */
#ifndef NET_BLOCKING_H
#define NET_BLOCKING_H

#include "net/server.h"

/* The data that one process or thread needs to serve. */
struct worker {
    struct server *server;
    struct counters *counters;
    struct cached_time cached_time;
    /* Is no worker free for a connection that waits?  Then none is kept alive.
       Called once per request, and at times while nothing has come on a new
       connection.  NULL: one is always free. */
    bool (*others_wait)(const struct worker *worker);
};

/* Accepts a client, sleeping until one comes.  Returns false if none has come
   for a while, or the server stops: then it has closed idle connections to
   Redis. */
bool blocking_accept(struct server *server, struct client *client);

/* Serves the client until one of the two ends the connection; closes it. */
void blocking_serve(struct worker *worker, const struct client *client);

#endif
