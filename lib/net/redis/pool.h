/* SPDX-License-Identifier: MIT */
/*
 * The Redis connections of one process, each lent for as long as an exchange
 * needs it.
 *
 * Threads share them: there are at most as many as there ever were exchanges at
 * once.  The connection given back last is lent first: its data is still in the
 * processor's cache.
 *
 * pool.c keeps them.  Borrowing and returning are in lib/plain/pool.c, the
 * whole idea, or in ops/pool.c, which adds what happens if Redis has no
 * connection to spare.
 */
#ifndef NET_REDIS_POOL_H
#define NET_REDIS_POOL_H

#include "net/redis/client.h"

#include <pthread.h>

struct redis_pool {
    const struct redis_server *server;
    bool threads; /* more than one uses it */
    /* Tells the parent that this process keeps an unused connection: in shared
       memory.  NULL: the parent need not know. */
    _Atomic bool *keeps_idle;
    pthread_mutex_t lock; /* guards the rest */
    struct redis_client *idle;

    /* For ops/pool.c. */
    pthread_cond_t returned;  /* signals one to a thread that was refused */
    pthread_cond_t available; /* signals one, or room for one, to a borrower */
    int64_t checked_at;       /* last check for unused ones, in ms */
    unsigned refused;         /* threads that wait for a returned connection */
    unsigned waiting_borrowers; /* threads that wait for an available one */
    unsigned fresh;             /* those lent that are new */
};

void redis_pool_init(struct redis_pool *pool, const struct redis_server *server,
                     bool threads);
void redis_pool_destroy(struct redis_pool *pool); /* none is lent any more */

/* Borrows a connection, or what will be one when it is first used.  Returns
   NULL if none is available. */
struct redis_client *redis_pool_borrow(struct redis_pool *pool);
void redis_pool_return(struct redis_pool *pool, struct redis_client *client);

/* Sends a command and sleeps until its reply is there: redis_client_call().
   Returns false if Redis fails, or has no connection to spare.  Meanwhile
   *client may be exchanged for a returned one. */
bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply);

/* Closes unused connections that others may need.  Call it after a process was
   woken or was idle for a while; while connections are returned, that calls it.
 */
void redis_pool_close_idle(struct redis_pool *pool);

/* ---- For ops/pool.c and lib/plain/pool.c ---- */

/* Takes a connection off the list; NULL: there is none.  The caller locks. */
struct redis_client *redis_pool_take_idle(struct redis_pool *pool);

/* Reports to the parent whether the pool may keep an unused connection. */
void redis_pool_report(const struct redis_pool *pool, bool keeps_idle);

#endif
