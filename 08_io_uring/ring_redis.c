/* SPDX-License-Identifier: MIT */
#include "ring_redis.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

void ring_redis_init(struct ring_redis *redis, struct ring *ring,
                     struct evented *evented) {
    *redis = (struct ring_redis){
        .ring = ring, .evented = evented, .generation = OPERATIONS};
}

void ring_redis_forget(struct ring_redis *redis) {
    ring_cancel(redis->ring, redis->generation | REDIS_RECEIVE, 0);
    ring_cancel(redis->ring, redis->generation | REDIS_AWAIT_WRITABLE, 0);
    redis->generation += OPERATIONS;
    redis->receiving = redis->sending = redis->awaiting_writable = false;
    redis->writable = false;
}

/* ---- Beginning ---- */

static struct io_uring_sqe *begin(struct ring_redis *redis,
                                  enum operation operation) {
    return ring_get_sqe(redis->ring, redis->generation | operation);
}

/* One operation receives all replies, which may come at any time. */
static void begin_receive(struct ring_redis *redis, int socket) {
    struct io_uring_sqe *sqe = begin(redis, REDIS_RECEIVE);

    io_uring_prep_recv_multishot(sqe, socket, NULL, 0, 0);
    ring_take_buffer(sqe, &redis->ring->for_redis);
    redis->receiving = true;
}

/* MSG_DONTWAIT: the kernel sends what it can while the operation is submitted,
   and reads the buffer at no other time. */
static void begin_send(struct ring_redis *redis, int socket,
                       struct view commands) {
    io_uring_prep_send(begin(redis, REDIS_SEND), socket, commands.data,
                       commands.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    redis->sending = true;
}

void ring_redis_begin(struct ring_redis *redis) {
    struct redis_pipeline *pipeline = &redis->evented->redis;
    int socket = pipeline->source.descriptor;

    if (socket < 0)
        return;
    /* After this, closing the connection calls watch(). */
    (void)source_watch(&redis->evented->loop, &pipeline->source, READABLE);
    /* A receive operation on a socket that still connects would fail. */
    if (!redis->receiving &&
        (pipeline->state != PIPELINE_CONNECTS || redis->writable))
        begin_receive(redis, socket);
    struct view commands = redis_pipeline_unsent(pipeline);
    if (commands.length == 0 || redis->sending)
        return;
    if (redis->writable) {
        begin_send(redis, socket, commands);
    } else if (!redis->awaiting_writable) {
        io_uring_prep_poll_add(begin(redis, REDIS_AWAIT_WRITABLE), socket,
                               POLLOUT);
        redis->awaiting_writable = true;
    }
}

void ring_redis_receive_late(struct ring_redis *redis) {
    struct redis_pipeline *pipeline = &redis->evented->redis;
    int64_t now = redis->evented->now;

    if (redis_pipeline_deadline(pipeline) <= now && redis->receiving)
        redis_pipeline_fill(pipeline, MSG_DONTWAIT, now);
}

/* ---- Done ---- */

static void received(struct ring_redis *redis, const struct io_uring_cqe *cqe) {
    struct redis_pipeline *pipeline = &redis->evented->redis;
    int result = cqe->res;
    size_t size;

    redis->receiving = (cqe->flags & IORING_CQE_F_MORE) != 0;
    if (result == -ENOBUFS || result == -ECANCELED)
        return; /* ring_redis_begin() begins another receive */
    if (result > 0) {
        char *room = redis_pipeline_room(pipeline, &size);
        if (room == NULL)
            result = -ENOMEM;
        else
            memcpy(room, ring_bytes(cqe, &redis->ring->for_redis),
                   (size_t)result);
    }
    redis_pipeline_received(pipeline, result, redis->evented->now);
}

void ring_redis_completed(struct ring_redis *redis,
                          const struct io_uring_cqe *cqe) {
    uint64_t user_data = io_uring_cqe_get_data64(cqe);
    enum operation operation = (enum operation)(user_data % OPERATIONS);

    if (user_data - operation != redis->generation)
        return; /* the connection to Redis is closed */
    if (operation == REDIS_RECEIVE) {
        received(redis, cqe);
    } else if (operation == REDIS_SEND) {
        redis->sending = false;
        redis->writable = cqe->res >= 0;
        redis_pipeline_sent(&redis->evented->redis, cqe->res,
                            redis->evented->now);
    } else {
        redis->awaiting_writable = false;
        redis->writable = true; /* or broken: then the next send fails */
    }
}
