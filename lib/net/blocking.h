/* SPDX-License-Identifier: MIT */
/* Serves one connection at a time with calls that sleep.  01 to 05 differ in
   the processes or threads that call blocking_serve(). */
#pragma once

#include "net/server.h"

/* The data that one process or thread needs to serve. */
struct worker {
    struct server *server;
    struct counters *counters;
    struct cached_time cached_time;
    /* Does a connection wait because no worker is free?  If so, no connection
       is kept alive.  The function is called at most once per request, and from
       time to time while a new client has sent nothing. */
    bool (*others_wait)(const struct worker *worker);
    /* True if a silent client occupies no process or thread.  If so, it may
       stay for the request's timeout even if other clients wait. */
    bool silent_may_stay;
};

/* Waits for a client and accepts it.  Returns false if no client has come for a
   REQUEST_TIMEOUT, if a signal has come, or after an error. */
bool blocking_accept(struct server *server, struct client *client);

/* Serves the client until the connection ends, and closes it. */
void blocking_serve(struct worker *worker, const struct client *client);
