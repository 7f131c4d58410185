/* SPDX-License-Identifier: MIT */
#include "net/redis/pool.h"

#include "config.h"
#include "process/clock.h"
#include "process/stop.h"

#include <poll.h>
#include <sys/param.h>
#include <utlist.h>

void redis_pool_init(struct redis_pool *pool,
                     const struct redis_server *server) {
    *pool = (struct redis_pool){.server = server,
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

/* Releases the lock for some milliseconds, so that another thread can return a
   connection.  (A condition variable is not needed: a shortage lasts long.) */
static void wait_without_lock(struct redis_pool *pool, int delay) {
    pool->waiting++;
    pthread_mutex_unlock(&pool->lock);
    poll(NULL, 0, delay);
    pthread_mutex_lock(&pool->lock);
    pool->waiting--;
}

/* Should a thread stop waiting for a connection? */
static bool waited_too_long(int64_t begun) {
    int64_t now = clock_milliseconds();
    return server_is_out_of_time() ||
           (now - begun >= REDIS_REPLY_TIMEOUT && redis_is_scarce(now));
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    int64_t begun = clock_milliseconds();
    struct redis_client *client;
    int delay = RETRY_DELAY;

    pthread_mutex_lock(&pool->lock);
    while ((client = take_idle(pool)) == NULL &&
           pool->fresh == REDIS_NEW_AT_ONCE && !waited_too_long(begun)) {
        wait_without_lock(pool, delay);
        delay = MIN(2 * delay, WAKE_DELAY);
    }
    if (client == NULL && pool->fresh < REDIS_NEW_AT_ONCE &&
        (client = redis_client_create(pool->server)) != NULL) {
        client->fresh = true;
        pool->fresh++;
    }
    pthread_mutex_unlock(&pool->lock);
    redis_count_missed(pool->server, client == NULL);
    return client;
}

/* This connection no longer counts as new (REDIS_NEW_AT_ONCE). */
static void mark_connected(struct redis_pool *pool,
                           struct redis_client *client) {
    pool->fresh -= client->fresh;
    client->fresh = false;
}

/* If connections are scarce, keeps the connection only for threads that wait,
   and only until it is REDIS_RETRY old: other processes may wait, too. */
void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    struct redis_pipeline *redis = &client->pipeline;
    int64_t now = clock_milliseconds();
    bool keep = redis_client_is_open(client);

    redis_client_drop_reply(client);
    pthread_mutex_lock(&pool->lock);
    mark_connected(pool, client);
    if (keep && redis_is_scarce(now))
        keep = pool->waiting > 0 && now - redis->begun_at < REDIS_RETRY;
    if (keep)
        LL_PREPEND(pool->idle, client);
    bool look = now - pool->checked_at >= REDIS_IDLE;
    pthread_mutex_unlock(&pool->lock);
    if (!keep)
        redis_client_destroy(client);
    if (look)
        redis_pool_close_idle(pool);
}

void redis_pool_close_idle(struct redis_pool *pool) {
    int64_t now = clock_milliseconds();
    struct redis_client *client, *next;

    pthread_mutex_lock(&pool->lock);
    pool->checked_at = now;
    LL_FOREACH_SAFE (pool->idle, client, next)
        if (redis_is_scarce(now) || now - client->used_at >= REDIS_IDLE) {
            LL_DELETE(pool->idle, client); /* NOLINT: it is in the list */
            redis_client_destroy(client);
        }
    pthread_mutex_unlock(&pool->lock);
}

/* Takes an idle connection instead, after a RETRY_DELAY if none is idle now. */
static void replace_rejected(struct redis_pool *pool,
                             struct redis_client **client) {
    stop_wake_parent(); /* other children may keep unused connections */
    pthread_mutex_lock(&pool->lock);
    if (pool->idle == NULL)
        wait_without_lock(pool, RETRY_DELAY);
    struct redis_client *other = take_idle(pool);
    if (other != NULL)
        mark_connected(pool, *client);
    pthread_mutex_unlock(&pool->lock);
    if (other != NULL) {
        redis_client_destroy(*client);
        *client = other;
    }
}

bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply) {
    int64_t deadline = clock_milliseconds() + REDIS_REPLY_TIMEOUT;
    enum redis_outcome outcome;

    while ((outcome = redis_client_call(*client, command, reply)) ==
               REDIS_REJECTED &&
           clock_milliseconds() < deadline && !server_is_out_of_time())
        replace_rejected(pool, client);
    redis_count_missed(pool->server, outcome != REDIS_REPLIED);
    return outcome == REDIS_REPLIED;
}
