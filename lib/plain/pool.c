/* SPDX-License-Identifier: MIT */
#include "net/redis/pool.h"

#include <utlist.h>

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    struct redis_client *client = redis_pool_take_idle(pool);
    pthread_mutex_unlock(&pool->lock);
    if (client == NULL)
        client = redis_client_create(pool->server);
    redis_count_missed(pool->server, client == NULL);
    return client;
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    redis_client_shrink(client);
    if (!redis_client_is_open(client)) {
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
