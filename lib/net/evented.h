/* SPDX-License-Identifier: MIT */
/*
 * Serving with calls that never sleep: many connections at once, each driven
 * as far as it goes now.  06 and 07 differ in the one call that sleeps, for all
 * connections, and in how it learns what to watch.
 *
 * Regular files are the exception in every event loop: poll calls them ready at
 * any time, epoll rejects them (EPERM), and reading one may sleep until the
 * disk has answered, while all clients wait.  Our files are nearly always in
 * the page cache; a server of large cold files would hand them to threads, or
 * use io_uring.
 */
#ifndef NET_EVENTED_H
#define NET_EVENTED_H

#include "net/redis/pipeline.h"
#include "net/server.h"
#include "net/transmit.h"

/* A connection while it is served: it holds the half-done request. */
struct event_conn {
    struct event_source
        source; /* first: a pointer to it is one to all of this */
    struct client client;
    struct connection connection;
    enum timeout awaited; /* the list of waiting that it is in */
    int64_t deadline;
    struct progress progress;       /* of what is sent */
    struct event_conn *prev, *next; /* in a list: waiting, or closed */
    struct event_conn *next_waiter; /* after it in the queue for Redis */
};

struct evented {
    struct server *server;
    struct event_loop loop;
    struct event_source listener;
    struct cached_time cached_time;
    int64_t now;             /* clock_milliseconds() of this loop iteration */
    int64_t paused_till;     /* no accepting before then: something ran out */
    size_t count;            /* connections */
    size_t limit;            /* the most connections */
    struct event_conn *next; /* memory for the next connection; NULL: not yet */
    struct slab memory;      /* for connections */
    struct trim trim;        /* when unused memory is given back */
    int64_t trim_at;         /* the same, at the latest */
    /* All in one list have the same timeout.  So the oldest wait is first, and
       only the first needs to be checked. */
    struct event_conn *waiting[TIMEOUTS];
    struct event_conn *closed; /* freed at the end of the loop iteration */
    struct redis_pipeline redis;
    struct event_conn *first_waiter, *last_waiter; /* in the order of replies */
};

void evented_init(struct evented *evented, struct server *server,
                  struct event_loop loop);

/* The source is READABLE, WRITABLE or BROKEN.  If it was closed earlier in the
   same loop iteration, nothing is done. */
void evented_ready(struct evented *evented, struct event_source *source,
                   unsigned readiness);

/* Call it right before the loop sleeps: watches the listening socket while
   there is room for a client.  Returns how long the loop may sleep, in
   milliseconds; -1: until something happens. */
int evented_prepare_wait(struct evented *evented);

/* Call these before and after the events of a loop iteration are handled. */
void evented_begin_round(struct evented *evented);
void evented_end_round(struct evented *evented);

/* Returns false when the server was stopped and all is done, or time is up. */
bool evented_keep_running(struct evented *evented);

void evented_free(struct evented *evented);

#endif
