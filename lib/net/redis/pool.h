/* SPDX-License-Identifier: MIT */
/*
 * The Redis connections of a process, each lent for as long as it is needed.
 *
 * The connection returned last is lent first, because its data is still in the
 * processor's cache.  The number of threads that connect at the same time is
 * limited (REDIS_NEW_AT_ONCE).  If Redis has no free connection
 * (redis_is_scarce()), a returned connection is kept only for threads that wait
 * for one.
 */
#ifndef NET_REDIS_POOL_H
#define NET_REDIS_POOL_H

#include "net/redis/client.h"

#include <pthread.h>

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

/* Sends a command and sleeps until its reply is there: redis_client_call().
   Returns false if Redis fails, or has no free connection.  The call may
   replace *client by a connection that another thread has returned. */
bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply);

/* Closes idle connections, which other processes may need: all if connections
   are scarce, otherwise each that was idle for REDIS_IDLE.  Call this function
   after a signal has woken the process, and after the process was idle. */
void redis_pool_close_idle(struct redis_pool *pool);

#endif
