/* SPDX-License-Identifier: MIT */
/*
 * If Redis has no free connection (redis_is_scarce()), no process keeps an
 * unused one.  A returned connection goes to a thread that waits for one, or
 * else is closed.  This lasts at most for REDIS_RETRY, because other processes
 * may wait as well.  The number of threads that connect at once is limited
 * (REDIS_NEW_AT_ONCE).
 */
#include "net/redis/pool.h"

#include "limits.h"
#include "process/clock.h"
#include "process/stop.h"

#include <poll.h>
#include <utlist.h>

/* Sleeps for this number of milliseconds, or until another thread signals. */
static void wait_for_signal(struct redis_pool *pool, pthread_cond_t *condition,
                            unsigned *waiting, long time) {
    struct timespec end;

    ++*waiting;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += time % 1000 * 1000000;
    end.tv_sec += time / 1000 + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(condition, &pool->lock, &end);
    --*waiting;
}

static bool is_available(const struct redis_pool *pool) {
    return pool->idle != NULL || pool->fresh < REDIS_NEW_AT_ONCE;
}

/* Called each time a connection becomes idle or fewer are new, and by each
   borrower that was served.  One change may be enough for two threads, but each
   signal wakes one. */
static void wake_borrower(struct redis_pool *pool) {
    if (pool->waiting_borrowers > 0 && is_available(pool))
        pthread_cond_signal(&pool->available);
}

/* Sleeps until a connection is idle, or another may begin.  Returns false if
   there was none for as long as a reply may take, and Redis connections are
   scarce; or if time is up. */
static bool wait_until_available(struct redis_pool *pool) {
    int64_t begun = clock_milliseconds(), now = begun;

    while (!is_available(pool)) {
        bool in_vain =
            now - begun >= REDIS_REPLY_TIMEOUT && redis_is_scarce(now);
        if (in_vain || server_is_out_of_time())
            return false;
        wait_for_signal(pool, &pool->available, &pool->waiting_borrowers,
                        REDIS_REPLY_TIMEOUT);
        now = clock_milliseconds();
    }
    return true;
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    struct redis_client *client = NULL;

    pthread_mutex_lock(&pool->lock);
    if (wait_until_available(pool) &&
        (client = redis_pool_take_idle(pool)) == NULL &&
        (client = redis_client_create(pool->server)) != NULL) {
        client->fresh = true;
        pool->fresh++;
    }
    wake_borrower(pool);
    pthread_mutex_unlock(&pool->lock);
    redis_count_missed(pool->server, client == NULL);
    return client;
}

/* It is not new any more: another may begin (REDIS_NEW_AT_ONCE). */
static void mark_connected(struct redis_pool *pool,
                           struct redis_client *client) {
    pool->fresh -= client->fresh;
    client->fresh = false;
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    int64_t now = clock_milliseconds();
    bool keep = redis_client_is_open(client);

    redis_client_shrink(client);
    pthread_mutex_lock(&pool->lock);
    mark_connected(pool, client);
    if (keep && redis_is_scarce(now))
        keep = pool->refused + pool->waiting_borrowers > 0 &&
               now - client->pipeline.begun_at < REDIS_RETRY;
    if (keep)
        LL_PREPEND(pool->idle, client);
    if (pool->refused > 0) /* a closed connection leaves a slot in Redis */
        pthread_cond_signal(&pool->returned);
    wake_borrower(pool);
    bool look = now - pool->checked_at >= REDIS_IDLE;
    pthread_mutex_unlock(&pool->lock);
    redis_pool_report(pool, keep);
    if (!keep)
        redis_client_destroy(client);
    if (look)
        redis_pool_close_idle(pool);
}

/* Redis has rejected a connection of this client.  Waits for a RETRY_DELAY, and
   takes a connection that another thread returns, if there is one. */
static void replace_rejected(struct redis_pool *pool,
                             struct redis_client **client) {
    if (!pool->threads) {
        server_wake_parent(); /* others may keep what they do not use */
        poll(NULL, 0, RETRY_DELAY);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    if (pool->idle == NULL)
        wait_for_signal(pool, &pool->returned, &pool->refused, RETRY_DELAY);
    struct redis_client *other = redis_pool_take_idle(pool);
    if (other != NULL)
        mark_connected(pool, *client);
    wake_borrower(pool);
    pthread_mutex_unlock(&pool->lock);
    if (other != NULL) {
        redis_client_destroy(*client);
        *client = other;
    }
}

bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply) {
    int64_t deadline = clock_milliseconds() + REDIS_REPLY_TIMEOUT;
    enum redis_answer answer;

    while ((answer = redis_client_call(*client, command, reply)) ==
               REDIS_REFUSES &&
           clock_milliseconds() < deadline && !server_is_out_of_time())
        replace_rejected(pool, client);
    redis_count_missed(pool->server, answer != REDIS_REPLIED);
    return answer == REDIS_REPLIED;
}
