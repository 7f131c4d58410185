/* SPDX-License-Identifier: MIT */
#include "net/redis_pool.h"

#include "config.h"
#include "net/clock.h"
#include "net/server.h"

#include <poll.h>
#include <utlist.h>

void redis_pool_init(struct redis_pool *pool, const struct redis_server *server,
                     bool threads) {
    pthread_condattr_t attributes;

    *pool = (struct redis_pool){.server = server, .threads = threads};
    pthread_mutex_init(&pool->lock, NULL); /* none of these fails on Linux */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->given_back, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct redis_client *take_idle(struct redis_pool *pool) {
    struct redis_client *client = pool->idle;
    if (client != NULL)
        LL_DELETE(pool->idle, client);
    return client;
}

/* Written only where it changes: other processes look at it all the time. */
static void note(struct redis_pool *pool, bool keeping) {
    if (pool->keeping != NULL && *pool->keeping != keeping)
        *pool->keeping = keeping;
}

static void close_idle(struct redis_pool *pool) {
    struct redis_client *client;

    while ((client = take_idle(pool)) != NULL)
        redis_client_destroy(client);
    note(pool, false);
}

void redis_pool_destroy(struct redis_pool *pool) {
    close_idle(pool);
    pthread_cond_destroy(&pool->given_back);
    pthread_mutex_destroy(&pool->lock);
}

void redis_pool_spare(struct redis_pool *pool) {
    if (redis_is_scarce(pool->server, clock_milliseconds()))
        close_idle(pool);
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    struct redis_client *client = take_idle(pool);
    pthread_mutex_unlock(&pool->lock);
    return client != NULL ? client : redis_client_create(pool->server);
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    int64_t now = clock_milliseconds();
    bool keep = client->descriptor >= 0;

    pthread_mutex_lock(&pool->lock);
    if (keep && redis_is_scarce(pool->server, now))
        keep = pool->waiting > 0 && now - client->begun_at < REDIS_RETRY;
    if (keep)
        LL_PREPEND(pool->idle, client);
    bool wake = keep && pool->waiting > 0;
    pthread_mutex_unlock(&pool->lock);
    if (wake)
        pthread_cond_signal(&pool->given_back);
    note(pool, keep);
    if (!keep)
        redis_client_destroy(client);
}

/* Sleeps for a PAUSE, or until another thread gives one back. */
static void wait_for_another(struct redis_pool *pool) {
    struct timespec end;

    pool->waiting++;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += PAUSE * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&pool->given_back, &pool->lock, &end);
    pool->waiting--;
}

/* Instead of the client that was refused: one that another gives back, or the
   same one again, after a PAUSE. */
static void exchange(struct redis_pool *pool, struct redis_client **client) {
    if (!pool->threads) {
        server_wake_parent(); /* others may keep what they do not use */
        poll(NULL, 0, PAUSE);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    if (pool->idle == NULL)
        wait_for_another(pool);
    struct redis_client *other = take_idle(pool);
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
        exchange(pool, client);
    return answer == REDIS_REPLIED;
}
