/* SPDX-License-Identifier: MIT */
/*
 * One connection to Redis for all coroutines, as in 07.
 *
 * The driver calls redis_pool_call() and receives the reply, as in 01 to 05.
 * The call adds its command to a queue.  The loop sends the commands of all
 * coroutines together right before it waits ("automatic pipelining"):
 *
 *     A: redis_pool_call() ---+                                 +---> A
 *                             +-> one send() --- Redis --- recv()
 *     B: redis_pool_call() ---+                                 +---> B
 *
 * Redis replies in the order of the commands, so each reply belongs to the
 * coroutine that has waited longest.
 *
 * The functions of net/redis/pool.h that the driver calls are defined here.
 * The linker takes a function from the library only if no object file defines
 * it, so pool.c is not linked.
 */
#include "config.h"
#include "coroutine.h"
#include "net/redis/pipeline.h"
#include "net/redis/pool.h"
#include "process/clock.h"
#include "process/stop.h"

/* A coroutine that waits for a reply.  Stored on the coroutine's stack. */
struct waiter {
    struct redis_waiter in_queue; /* first, so pointers can be cast */
    struct coroutine *coroutine;
    struct resp_reply *reply;
    enum { WAITER_WAITS, WAITER_REPLIED, WAITER_FAILED } state;
};

static struct redis_pipeline pipeline;

/* The driver only passes on the address of this structure. */
static struct redis_client handle;

/* Passes each reply that has arrived to its coroutine, and runs the coroutine
   until it waits again.  If Redis has failed, the coroutine receives no reply.
   The coroutine runs at once, because a reply is valid only until the next
   reply is taken. */
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

/* Receives all bytes that have arrived: if some were left, an edge-triggered
   descriptor would not be reported again. */
static void receive_replies(int64_t now) {
    while (redis_pipeline_fill(&pipeline, MSG_DONTWAIT, now)) {
        give_replies(now);
        if (!coroutine_may_receive(pipeline.source.descriptor))
            return;
    }
}

/* The service of the loop: the loop calls it before each epoll_wait(), to
   receive replies and to send commands.  After the deadline it receives once
   more: after a suspension (SIGSTOP) a reply may be there that epoll_wait() has
   not reported yet. */
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
        return now; /* the coroutines may have new commands */
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

void redis_client_close(struct redis_client *client) {
    (void)client;
    redis_pipeline_close(&pipeline);
}

/* The last epoll_wait() may have reported that Redis closed the connection, but
   serve_redis() has not read this yet.  If Redis has sent bytes that were not
   requested, redis_pipeline_append() closes the connection. */
void redis_client_check_before_use(struct redis_client *client) {
    (void)client;
    if (pipeline.due == 0 && coroutine_may_receive(pipeline.source.descriptor))
        redis_pipeline_fill(&pipeline, MSG_DONTWAIT, clock_milliseconds());
}
