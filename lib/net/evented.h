/* SPDX-License-Identifier: MIT */
/*
 * The state of an event loop of 06 to 09: its connections with their half-done
 * requests, their deadlines, and the queue for Redis.  The kernel reports to
 * 06, 07 and 09 which sockets are ready (net/readiness.h), but to 08 which
 * operations are complete.
 */
#pragma once

#include "net/redis/pipeline.h"
#include "net/server.h"
#include "net/transmit.h"

/* A connection while it is served: it holds the half-done request. */
struct event_conn {
    struct event_source source; /* first, so pointers can be cast */
    struct client client;
    struct connection connection;
    enum timeout awaited; /* its list in `waiting` */
    int64_t deadline;
    struct progress progress;       /* of the response */
    struct event_conn *prev, *next; /* in a list: waiting, or unused */
    struct redis_waiter waiter;     /* in the queue for Redis */
};

struct evented {
    struct server *server;
    struct event_loop loop;
    struct event_source listener;
    struct cached_time cached_time;
    int64_t now;          /* clock_milliseconds() of this loop iteration */
    int64_t paused_until; /* after a shortage: no accept before this time */
    bool drained;         /* the last result of server_shut_if_drained() */
    size_t count;         /* connections */
    size_t limit;         /* the most connections */
    /* All connections are in one array with `limit` slots; the kernel allocates
       memory only for slots that were used.  Data between separate heap blocks
       would keep free memory from returning to the kernel. */
    char *memory;
    size_t size;               /* of a slot, in bytes */
    size_t touched;            /* slots that have been used */
    struct event_conn *unused; /* slots that are free again */
    unsigned exchanges;        /* since memory was returned to the kernel */
    int64_t trim_at;           /* when to call memory_trim() again */
    /* A list for each timeout, in the order of the deadlines. */
    struct event_conn *waiting[TIMEOUTS];
    struct redis_pipeline redis;
};

/* `size`: the bytes of a connection, which begins with a struct event_conn. */
void evented_init(struct evented *evented, struct server *server,
                  struct event_loop loop, size_t size);
void evented_free(struct evented *evented); /* when no connection is open */

void evented_begin_round(struct evented *evented);
/* Call it at the end of a loop iteration.  It returns unused memory to the
   kernel, and calls server_shut_if_drained(). */
void evented_end_round(struct evented *evented);

/* ---- Time ---- */

/* Sets the client's deadline.  An existing deadline of the same kind stays; but
   while a response is sent, each call sets a new one. */
void evented_start_waiting(struct evented *evented, struct event_conn *conn);
void evented_stop_waiting(struct evented *evented, struct event_conn *conn);

/* Returns how long the loop may sleep, in milliseconds; -1: without limit. */
int evented_timeout(const struct evented *evented);

/* Returns a connection whose deadline has passed; NULL: there is none.  A
   client that acknowledges bytes of its response gets more time. */
struct event_conn *evented_expired(struct evented *evented);

/* ---- Connections ---- */

/* May a client be accepted now?  If not, it stays in the backlog. */
bool evented_may_accept(const struct evented *evented);

/* Accepts no client for a RETRY_DELAY, because a resource has run out. */
void evented_pause_accepting(struct evented *evented);

/* Makes a connection for the client; `count` must be below the limit. */
struct event_conn *evented_adopt(struct evented *evented,
                                 const struct client *client);

/* Removes a connection whose socket was closed. */
void evented_forget(struct evented *evented, struct event_conn *conn);

/* At NEED_KEEP: may the connection be kept? */
bool evented_may_keep(const struct evented *evented);

/* At NEED_SEND: calls transmit() once.  Returns false if that would block. */
bool evented_send_some(struct evented *evented, struct event_conn *conn);

/* At NEED_DONE: counts and logs the exchange, and calls connection_next(). */
void evented_finish_exchange(struct evented *evented, struct event_conn *conn);

/* ---- Redis: one connection for all clients ---- */

/* At NEED_ASK_REDIS: the connection joins the queue.  Returns false if Redis is
   unavailable: the response is then an error. */
bool evented_ask_redis(struct evented *evented, struct event_conn *conn);

/* Passes the next reply, or the failure of Redis, to the first connection of
   the queue.  Returns this connection, to be driven; NULL: no reply yet. */
struct event_conn *evented_take_reply(struct evented *evented);
