/* SPDX-License-Identifier: MIT */
#include "net/redis/pool.h"

#include "process/clock.h"

#include <utlist.h>

void redis_pool_init(struct redis_pool *pool, const struct redis_server *server,
                     bool threads) {
    pthread_condattr_t attributes;

    *pool = (struct redis_pool){.server = server,
                                .threads = threads,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .returned = PTHREAD_COND_INITIALIZER,
                                .available = PTHREAD_COND_INITIALIZER};
    if (!threads)
        return; /* no thread waits; without this code a new child has one page
                   fault less */
    pthread_condattr_init(&attributes); /* none of these fails on Linux */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->returned, &attributes);
    pthread_cond_init(&pool->available, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct redis_client *redis_pool_take_idle(struct redis_pool *pool) {
    struct redis_client *client = pool->idle;
    if (client != NULL)
        LL_DELETE(pool->idle, client);
    return client;
}

/* It writes only a changed value.  The flags of several workers share a cache
   line, and each write removes it from the other processors' caches. */
void redis_pool_report(const struct redis_pool *pool, bool keeps_idle) {
    if (pool->keeps_idle != NULL && *pool->keeps_idle != keeps_idle)
        *pool->keeps_idle = keeps_idle;
}

void redis_pool_close_idle(struct redis_pool *pool) {
    int64_t now = clock_milliseconds();
    struct redis_client *client, *next;

    pthread_mutex_lock(&pool->lock);
    pool->checked_at = now;
    LL_FOREACH_SAFE (pool->idle, client, next)
        if (redis_client_should_close(client, now)) {
            LL_DELETE(pool->idle, client); /* NOLINT: it is in the list */
            redis_client_destroy(client);
        }
    redis_pool_report(pool, pool->idle != NULL);
    pthread_mutex_unlock(&pool->lock);
}

void redis_pool_destroy(struct redis_pool *pool) {
    struct redis_client *client;

    while ((client = redis_pool_take_idle(pool)) != NULL)
        redis_client_destroy(client);
    pthread_cond_destroy(&pool->returned);
    pthread_cond_destroy(&pool->available);
    pthread_mutex_destroy(&pool->lock);
}
