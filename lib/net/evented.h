/* SPDX-License-Identifier: MIT */
/*
 * Serving with calls that never sleep: many connections at once, each driven
 * as far as it goes now.  06 and 07 differ in the one call that sleeps, for
 * everybody, and in what they must tell it beforehand.
 *
 * Regular files are the exception that every event loop makes: poll calls them
 * ready at any time, epoll refuses them (EPERM), and reading one may sleep
 * until the disk has answered, with all clients behind it.  Ours are nearly
 * always in the page cache; a server of large cold files would hand them to
 * threads, or use io_uring.
 */
#ifndef NET_EVENTED_H
#define NET_EVENTED_H

#include "net/redis/pipeline.h"
#include "net/server.h"
#include "net/transmit.h"
#include "process/slab.h"

/* A connection while it is served: here its half-done request lives. */
struct serving {
    struct source source; /* first: a pointer to it is one to all of this */
    struct client client;
    struct connection connection;
    enum patience awaited; /* the list of waiting that it is in */
    int64_t deadline;
    struct progress progress;    /* of what is sent */
    struct serving *prev, *next; /* in a list: waiting, or closed */
    struct serving *next_asker;  /* behind it in the queue for Redis */
};

struct evented {
    struct server *server;
    struct watcher watcher;
    struct moment moment;
    int64_t now;          /* clock_milliseconds() of this round */
    int64_t paused_till;  /* no accepting before then: something ran out */
    size_t count;         /* connections */
    size_t limit;         /* at most so many */
    struct serving *next; /* memory for one to come; NULL: not yet */
    struct slab memory;   /* for connections */
    unsigned untidy;      /* exchanges since memory was last given back */
    int64_t tidy_at;      /* not before then again */
    /* All who wait for the same thing have the same time.  So who began first
       is first in the list, and only the first needs to be looked at. */
    struct serving *waiting[PATIENCES];
    struct serving *closed; /* their memory is free at the end of the round */
    struct redis_pipeline redis;
    struct serving *first_asker, *last_asker; /* in the order of replies */
};

void evented_init(struct evented *evented, struct server *server,
                  struct watcher watcher);

/* Takes the connection over and serves it as far as it goes without waiting. */
void evented_adopt(struct evented *evented, const struct client *client);

/* The loop says that the source is READABLE, WRITABLE or BROKEN.  If it was
   closed earlier in the same round, nothing is done. */
void evented_ready(struct evented *evented, struct source *source,
                   unsigned readiness);

/* Before and after the events of a round are handled. */
void evented_begin_round(struct evented *evented);
void evented_end_round(struct evented *evented);

/* May another connection be accepted now?  The other: accept none for a PAUSE,
   because something has run out. */
bool evented_has_room(struct evented *evented);
void evented_pause(struct evented *evented);

/* Watches the listening socket while there is room; to be called each round. */
void evented_watch_listener(struct evented *evented, struct source *listener);

/* How long the loop may sleep, in milliseconds; -1: until something happens. */
int evented_timeout(const struct evented *evented);

/* False if the server must stop and all is done, or if time is up.
 */
bool evented_goes_on(struct evented *evented);

void evented_free(struct evented *evented);

#endif
