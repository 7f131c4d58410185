/* SPDX-License-Identifier: MIT */
/*
 * Connections to Redis for callers that may sleep (01 to 05), and the pool of a
 * process, which lends each connection for as long as it is needed.
 *
 * The connection returned last is lent first, because its data is still in the
 * processor's cache.  The number of threads that connect at the same time is
 * limited (REDIS_NEW_AT_ONCE).  If Redis has no free connection
 * (redis_is_scarce()), a returned connection is kept only for threads that wait
 * for one.
 */
#pragma once

#include "net/redis/pipeline.h"

#include <pthread.h>

/* One connection. */
struct redis_client {
    struct redis_pipeline pipeline; /* of one command at a time */
    bool lent;                      /* a parent and its child share it */
    bool fresh;                     /* not yet returned to the pool */
    int64_t used_at;                /* clock_milliseconds() of the last use */
    size_t counted;            /* memory of a long reply, see budget_count() */
    struct redis_client *next; /* in a pool */
};

struct redis_pool {
    const struct redis_server *server;
    pthread_mutex_t lock; /* guards the other fields */
    struct redis_client *idle;
    int64_t checked_at; /* last check for unused connections, in ms */
    unsigned waiting;   /* threads that wait for a connection */
    unsigned fresh;     /* lent connections that were never returned */
};

void redis_pool_init(struct redis_pool *pool,
                     const struct redis_server *server);
void redis_pool_destroy(struct redis_pool *pool); /* when none is lent */

/* Borrows a connection, which may not be connected until it is first used.
   Returns NULL if none is available. */
struct redis_client *redis_pool_borrow(struct redis_pool *pool);
void redis_pool_return(struct redis_pool *pool, struct redis_client *client);

/* Sends a command, and sleeps until its reply is whole.  Connects first if that
   is needed.  All this takes about REDIS_REPLY_TIMEOUT at most, or twice that
   if Redis rejects a connection meanwhile.  Returns false if Redis fails, or
   has no free connection.  Without a reply the connection is closed; otherwise
   the next call would take a late reply for its own.  The call may replace
   *client with a connection that another thread has returned.  The reply points
   into the client and is valid until the next call. */
bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply);

/* Closes idle connections, which other processes may need: all if connections
   are scarce, otherwise each that was idle for REDIS_IDLE.  Call this function
   after a signal has woken the process, and after the process was idle. */
void redis_pool_close_idle(struct redis_pool *pool);

/* Makes the next call check first, with a system call, whether a surplus reply
   has come: otherwise the call would take that reply for its own. */
void redis_client_check_before_use(struct redis_client *client);

/* Ends the connection, for all processes that share it. */
void redis_client_close(struct redis_client *client);

/* Returns a client that is not connected yet; NULL: out of memory. */
struct redis_client *redis_client_create(const struct redis_server *server);
void redis_client_destroy(struct redis_client *client); /* closes it */

static inline bool redis_client_is_open(const struct redis_client *client) {
    return client->pipeline.source.descriptor >= 0;
}
