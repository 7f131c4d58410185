/* SPDX-License-Identifier: MIT */
#include "net/redis/pool.h"

#include "config.h"
#include "process/clock.h"

#include <utlist.h>

void redis_pool_init(struct redis_pool *pool, const struct redis_server *server,
                     bool threads) {
    *pool = (struct redis_pool){.server = server,
                                .threads = threads,
                                .lock = PTHREAD_MUTEX_INITIALIZER};
}

static struct redis_client *take_idle(struct redis_pool *pool) {
    struct redis_client *client = pool->idle;
    if (client != NULL)
        LL_DELETE(pool->idle, client);
    return client;
}

void redis_pool_destroy(struct redis_pool *pool) {
    struct redis_client *client;

    while ((client = take_idle(pool)) != NULL)
        redis_client_destroy(client);
    pthread_mutex_destroy(&pool->lock);
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    struct redis_client *client = take_idle(pool);
    pthread_mutex_unlock(&pool->lock);
    if (client == NULL)
        client = redis_client_create(pool->server);
    redis_count_missed(pool->server, client == NULL);
    return client;
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    redis_client_shrink(client);
    if (client->descriptor < 0) {
        redis_client_destroy(client);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    LL_PREPEND(pool->idle, client);
    pthread_mutex_unlock(&pool->lock);
}

bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply) {
    bool answered = redis_client_call(*client, command, reply) == REDIS_REPLIED;

    redis_count_missed(pool->server, !answered);
    return answered;
}

void redis_pool_close_idle(struct redis_pool *pool) {
    struct redis_client *client, *next;
    int64_t now = clock_milliseconds();

    pthread_mutex_lock(&pool->lock);
    LL_FOREACH_SAFE (pool->idle, client, next)
        if (redis_client_should_close(client, now)) {
            LL_DELETE(pool->idle, client); /* NOLINT: it is in the list */
            redis_client_destroy(client);
        }
    pthread_mutex_unlock(&pool->lock);
}
