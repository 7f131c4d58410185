/* SPDX-License-Identifier: MIT */
/*
 * One connection to Redis for all coroutines, as in 07.
 *
 * An exchange calls redis_pool_call() and gets its reply: its code is that of
 * 01 to 05.  Below this call the commands of all coroutines are collected and
 * leave together ("automatic pipelining"), right before the loop waits:
 *
 *     A: redis_pool_call() ---+                                 +---> A
 *                             +-> one send() --- Redis --- recv()
 *     B: redis_pool_call() ---+                                 +---> B
 *
 * Redis replies in the order of the commands, so each reply belongs to the
 * coroutine that has waited longest.
 *
 * The functions of net/redis/pool.h and client.h that the driver calls are
 * defined here.  The linker takes a function from the library only if no object
 * file defines it, so neither pool.c nor client.c is linked.
 */
#include "config.h"
#include "coroutine.h"
#include "net/redis/pipeline.h"
#include "net/redis/pool.h"
#include "process/clock.h"
#include "process/stop.h"

/* A coroutine that waits for a reply; on its stack. */
struct waiter {
    struct redis_waiter in_queue; /* first: a pointer to it is one to this */
    struct coroutine *coroutine;
    struct resp_reply *reply;
    enum { WAITER_WAITS, WAITER_REPLIED, WAITER_FAILED } state;
};

static struct redis_pipeline pipeline;

/* The driver only passes its address on. */
static struct redis_client handle;

/* Gives each reply that has arrived to its coroutine, or no reply if Redis has
   failed, and runs the coroutine until it waits again.  The coroutine runs at
   once, because a reply is valid only until the next one is taken. */
static void give_replies(int64_t now) {
    struct waiter *waiter;
    struct resp_reply reply;
    bool replied;

    while ((waiter = (struct waiter *)redis_pipeline_take(
                &pipeline, &reply, &replied, now)) != NULL) {
        waiter->state = replied ? WAITER_REPLIED : WAITER_FAILED;
        if (replied)
            *waiter->reply = reply;
        coroutine_prefetch(pipeline.waiters);
        coroutine_resume(waiter->coroutine);
    }
}

/* Receives all that is there: an edge-triggered descriptor is not reported
   again for the rest. */
static void receive_replies(int64_t now) {
    while (redis_pipeline_fill(&pipeline, MSG_DONTWAIT, now)) {
        give_replies(now);
        if (!coroutine_may_receive(pipeline.source.descriptor))
            return;
    }
}

/* The service of the loop.  After the deadline it receives once more: after a
   suspension a reply may be there that the kernel has not reported yet. */
static int64_t serve_redis(void) {
    int64_t now = clock_milliseconds();

    if (coroutine_may_receive(pipeline.source.descriptor) ||
        redis_pipeline_deadline(&pipeline) <= now)
        receive_replies(now);
    redis_pipeline_check(&pipeline, now);
    if (server_is_out_of_time())
        redis_pipeline_close(&pipeline);
    redis_pipeline_flush(&pipeline, MSG_DONTWAIT, clock_milliseconds());
    if (pipeline.failing != NULL) {
        give_replies(now);
        return now; /* they may have asked again */
    }
    if (pipeline.source.descriptor >= 0 &&
        !coroutine_watch(pipeline.source.descriptor))
        return now + RETRY_DELAY;
    return redis_pipeline_deadline(&pipeline);
}

/* ---- net/redis/pool.h ---- */

void redis_pool_init(struct redis_pool *pool,
                     const struct redis_server *server) {
    *pool = (struct redis_pool){.server = server};
    redis_pipeline_init(&pipeline, server, NULL); /* serve_redis() watches */
    coroutines_set_service(serve_redis);
}

void redis_pool_destroy(struct redis_pool *pool) {
    (void)pool;
    redis_pipeline_close(&pipeline);
}

struct redis_client *redis_pool_borrow(struct redis_pool *pool) {
    (void)pool;
    return &handle;
}

void redis_pool_return(struct redis_pool *pool, struct redis_client *client) {
    (void)pool, (void)client;
}

void redis_pool_close_idle(struct redis_pool *pool) {
    (void)pool;
}

bool redis_pool_call(struct redis_pool *pool, struct redis_client **client,
                     struct view command, struct resp_reply *reply) {
    struct waiter self = {.coroutine = coroutine_current(), .reply = reply};

    (void)client;
    if (!redis_pipeline_append(&pipeline, command, &self.in_queue,
                               clock_milliseconds()))
        self.state = WAITER_FAILED;
    while (self.state == WAITER_WAITS)
        (void)coroutine_wait(-1, 0, NO_DEADLINE);
    redis_count_missed(pool->server, self.state == WAITER_FAILED);
    return self.state == WAITER_REPLIED;
}

/* ---- net/redis/client.h ---- */

void redis_client_close(struct redis_client *client) {
    (void)client;
    redis_pipeline_close(&pipeline);
}

/* The loop resumes coroutines before it calls serve_redis(): Redis may have
   closed the connection.  If it has sent something that was not requested,
   redis_pipeline_append() closes the connection. */
void redis_client_check_before_use(struct redis_client *client) {
    (void)client;
    if (pipeline.due == 0 && coroutine_may_receive(pipeline.source.descriptor))
        redis_pipeline_fill(&pipeline, MSG_DONTWAIT, clock_milliseconds());
}
