/* SPDX-License-Identifier: MIT */
#include "net/redis/pool.h"

#include "config.h"
#include "ops.h"
#include "process/clock.h"
#include "process/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/param.h>
#include <utlist.h>

/* ---- One connection ---- */

/* A call may take this many milliseconds longer than its timeout.  So most
   calls use the socket's own timeout, and need no poll(2). */
#define CALL_SLACK 100

struct redis_client *redis_client_create(const struct redis_server *server) {
    struct redis_client *client = calloc(1, sizeof *client);

    if (client == NULL)
        return NULL;
    redis_pipeline_init(&client->pipeline, server, NULL);
    client->pipeline.room = 4096;
    return client;
}

void redis_client_destroy(struct redis_client *client) {
    redis_client_close(client);
    free(client);
}

/* Counts a long reply's memory.  Returns false if the budget is exhausted. */
static bool count_reply(struct redis_client *client) {
    return budget_count(&client->counted, client->pipeline.input.capacity,
                        LARGE_RESPONSE);
}

void redis_client_close(struct redis_client *client) {
    redis_pipeline_close(&client->pipeline);
    (void)count_reply(client); /* which cannot fail now */
    client->lent = false;
}

/* Frees the memory of a long reply, which is no longer needed. */
static void drop_reply(struct redis_client *client) {
    struct redis_pipeline *redis = &client->pipeline;

    if (client->counted == 0 || redis->input.length > redis->taken)
        return;
    buffer_free(&redis->input);
    redis->taken = 0;
    (void)count_reply(client);
}

void redis_client_check_before_use(struct redis_client *client) {
    client->used_at -= REDIS_CHECK_AFTER;
}

/* Redis may have closed a connection that was idle.  If another connection has
   failed meanwhile, Redis may have closed all. */
static bool is_stale(const struct redis_client *client) {
    const struct redis_pipeline *redis = &client->pipeline;
    char byte;

    if (clock_milliseconds() - client->used_at < REDIS_CHECK_AFTER &&
        client->used_at > redis->server->shared->failed_at)
        return false;
    ssize_t count =
        recv(redis->source.descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* The connection is closed, has an error, or has unrequested bytes. */
    return count >= 0 || errno != EAGAIN;
}

/* Once a socket is connected, its calls may block until its timeouts. */
static void make_blocking(int descriptor) {
    struct timeval timeout = timeval_of(REDIS_REPLY_TIMEOUT);

    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout,
                   sizeof timeout) == 0 &&
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout,
                   sizeof timeout) == 0)
        (void)fcntl(descriptor, F_SETFL,
                    fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
}

static int64_t time_left(const struct redis_pipeline *redis) {
    return MIN(redis->deadline, redis->asked_at + REDIS_REPLY_TIMEOUT) -
           clock_milliseconds();
}

/* Returns 0 if the call may sleep until the socket's timeout.  While the socket
   connects, or if that timeout would end too late, returns MSG_DONTWAIT. */
static int call_flags(const struct redis_pipeline *redis) {
    bool sleeps = redis->state == PIPELINE_OPEN &&
                  time_left(redis) > REDIS_REPLY_TIMEOUT - CALL_SLACK;
    return sleeps ? 0 : MSG_DONTWAIT;
}

/* Sleeps until the socket is ready, the deadline passes or a signal comes. */
static void wait_until_ready(const struct redis_pipeline *redis) {
    int64_t left = time_left(redis);
    struct pollfd ready = {
        .fd = redis->source.descriptor,
        .events = redis_pipeline_unsent(redis).length > 0 ? POLLOUT : POLLIN};

    (void)poll(&ready, 1, left > 0 ? (int)left : 0);
}

/* Sends the rest of the command, then receives bytes; each step may sleep.
   After the deadline the call continues only if bytes had already come, because
   the server may have been suspended (SIGSTOP).  If the bytes belong to an
   oversized reply, the call fails. */
static void continue_call(struct redis_pipeline *redis) {
    int flags = call_flags(redis);
    bool late = time_left(redis) <= 0;

    if (flags != 0)
        wait_until_ready(redis);
    if (redis->state == PIPELINE_CONNECTS)
        make_blocking(redis->source.descriptor);
    redis_pipeline_flush(redis, flags, clock_milliseconds());
    /* If Redis accepts no more bytes, its last message may give the reason. */
    flags = redis_pipeline_unsent(redis).length > 0 ? MSG_DONTWAIT
                                                    : call_flags(redis);
    bool received = redis_pipeline_fill(redis, flags, clock_milliseconds());
    if (!received) /* perhaps because of a signal */
        (void)server_shut_if_drained();
    if (late && !(received && !redis->scan.skips))
        redis_pipeline_check(redis, clock_milliseconds());
}

/* Connecting, the login and the reply have one time limit together, because a
   worker waits for them.  If Redis has no free connection, returns false at
   once, in state PIPELINE_PAUSES, because another thread may return one. */
static bool redis_client_call(struct redis_client *client, struct view command,
                              struct resp_reply *reply) {
    struct redis_pipeline *redis = &client->pipeline;
    int64_t begun = clock_milliseconds();

    if (redis->state == PIPELINE_PAUSES ||
        (redis_client_is_open(client) && is_stale(client)))
        redis_client_close(client);
    if (!redis_pipeline_append(redis, command, NULL, begun))
        return false;
    while (redis_client_is_open(client) && !server_is_out_of_time()) {
        redis->deadline = MIN(redis->deadline, begun + REDIS_REPLY_TIMEOUT);
        continue_call(redis);
        client->used_at = clock_milliseconds();
        if (!count_reply(client)) {
            redis_report_failure(redis->server, VIEW("no memory for its reply"),
                                 client->used_at);
            break;
        }
        if (redis_pipeline_next(redis, reply, client->used_at))
            return true;
    }
    if (redis->state != PIPELINE_PAUSES)
        redis_client_close(client); /* the command is dropped, too */
    return false;
}

/* ---- The pool ---- */

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

    drop_reply(client);
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
    bool replied;

    while (!(replied = redis_client_call(*client, command, reply)) &&
           (*client)->pipeline.state == PIPELINE_PAUSES &&
           clock_milliseconds() < deadline && !server_is_out_of_time())
        replace_rejected(pool, client);
    redis_count_missed(pool->server, !replied);
    return replied;
}
