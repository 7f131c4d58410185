/* SPDX-License-Identifier: MIT */
/*
 * If Redis has no connection to spare (redis_is_scarce()), no process keeps an
 * unused one.  A connection is handed to a thread that waits for one, but not
 * for longer than REDIS_RETRY, since other processes may wait as well; if none
 * waits it is closed.  The number of threads that connect at once is limited
 * (REDIS_NEW_AT_ONCE).
 */
#include "net/redis/pool.h"

#include "limits.h"
#include "process/clock.h"
#include "process/stop.h"

#include <poll.h>
#include <utlist.h>

void redis_pool_init(struct redis_pool *pool, const struct redis_server *server,
                     bool threads) {
    pthread_condattr_t attributes;

    *pool = (struct redis_pool){.server = server,
                                .threads = threads,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .given_back = PTHREAD_COND_INITIALIZER,
                                .available = PTHREAD_COND_INITIALIZER};
    if (!threads)
        return; /* no thread waits; saves a new child this code's page fault */
    pthread_condattr_init(&attributes); /* none of these fails on Linux */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->given_back, &attributes);
    pthread_cond_init(&pool->available, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct redis_client *take_idle(struct redis_pool *pool) {
    struct redis_client *client = pool->idle;
    if (client != NULL)
        LL_DELETE(pool->idle, client);
    return client;
}

/* Writes only a changed value.  The flags of several workers share a cache
   line, and each write takes it away from the other processors. */
static void note(struct redis_pool *pool, bool keeping) {
    if (pool->keeping != NULL && *pool->keeping != keeping)
        *pool->keeping = keeping;
}

void redis_pool_close_idle(struct redis_pool *pool) {
    int64_t now = clock_milliseconds();
    struct redis_client *client, *next;

    pthread_mutex_lock(&pool->lock);
    pool->looked_at = now;
    LL_FOREACH_SAFE (pool->idle, client, next)
        if (redis_client_should_close(client, now)) {
            LL_DELETE(pool->idle, client); /* NOLINT: it is in the list */
            redis_client_destroy(client);
        }
    note(pool, pool->idle != NULL);
    pthread_mutex_unlock(&pool->lock);
}

void redis_pool_destroy(struct redis_pool *pool) {
    struct redis_client *client;

    while ((client = take_idle(pool)) != NULL)
        redis_client_destroy(client);
    pthread_cond_destroy(&pool->given_back);
    pthread_cond_destroy(&pool->available);
    pthread_mutex_destroy(&pool->lock);
}

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
   borrower that was served: one change may be enough for two, and each signal
   wakes one. */
static void serve_next(struct redis_pool *pool) {
    if (pool->borrowing > 0 && is_available(pool))
        pthread_cond_signal(&pool->available);
}

/* Sleeps until a connection is idle, or another may begin.  Returns false if
   there was none for as long as a reply may take, and Redis connections are
   scarce; or if time is up. */
static bool wait_till_available(struct redis_pool *pool) {
    int64_t begun = clock_milliseconds(), now = begun;

    while (!is_available(pool)) {
        bool in_vain =
            now - begun >= REDIS_REPLY_TIMEOUT && redis_is_scarce(now);
        if (in_vain || server_is_out_of_time())
            return false;
        wait_for_signal(pool, &pool->available, &pool->borrowing,
                        REDIS_REPLY_TIMEOUT);
        now = clock_milliseconds();
    }
    return true;
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    struct redis_client *client = NULL;

    pthread_mutex_lock(&pool->lock);
    if (wait_till_available(pool) && (client = take_idle(pool)) == NULL &&
        (client = redis_client_create(pool->server)) != NULL) {
        client->fresh = true;
        pool->fresh++;
    }
    serve_next(pool);
    pthread_mutex_unlock(&pool->lock);
    redis_count_missed(pool->server, client == NULL);
    return client;
}

/* It is not new any more: another may begin (REDIS_NEW_AT_ONCE). */
static void mark_known(struct redis_pool *pool, struct redis_client *client) {
    pool->fresh -= client->fresh;
    client->fresh = false;
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    int64_t now = clock_milliseconds();
    bool keep = client->descriptor >= 0;

    redis_client_shrink(client);
    pthread_mutex_lock(&pool->lock);
    mark_known(pool, client);
    if (keep && redis_is_scarce(now))
        keep = pool->refused + pool->borrowing > 0 &&
               now - client->begun_at < REDIS_RETRY;
    if (keep)
        LL_PREPEND(pool->idle, client);
    if (pool->refused > 0) /* a closed connection leaves a slot in Redis */
        pthread_cond_signal(&pool->given_back);
    serve_next(pool);
    bool look = now - pool->looked_at >= REDIS_IDLE;
    pthread_mutex_unlock(&pool->lock);
    note(pool, keep);
    if (!keep)
        redis_client_destroy(client);
    if (look)
        redis_pool_close_idle(pool);
}

/* Redis has rejected a connection of this client.  Waits for a RETRY_DELAY, and
   takes a connection that another thread returns, if there is one. */
static void swap_refused(struct redis_pool *pool,
                         struct redis_client **client) {
    if (!pool->threads) {
        server_wake_parent(); /* others may keep what they do not use */
        poll(NULL, 0, RETRY_DELAY);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    if (pool->idle == NULL)
        wait_for_signal(pool, &pool->given_back, &pool->refused, RETRY_DELAY);
    struct redis_client *other = take_idle(pool);
    if (other != NULL)
        mark_known(pool, *client);
    serve_next(pool);
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
        swap_refused(pool, client);
    redis_count_missed(pool->server, answer != REDIS_REPLIED);
    return answer == REDIS_REPLIED;
}
