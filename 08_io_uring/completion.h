/* SPDX-License-Identifier: MIT */
/*
 * Serves many connections at once with operations of the ring.  The servers 06,
 * 07 and 09 use net/readiness.h for this.
 *
 * Who owns a buffer, and when?  In 06, 07 and 09 a buffer belongs to the
 * process, except during a call.  Here a buffer belongs to the kernel while an
 * operation is in flight, which may take seconds:
 *
 *     operation          memory                       belongs to the kernel
 *     receive            one of the ring's buffers    while no bytes are in it
 *     send               the response                 until it is complete
 *     send to Redis      the pipeline's commands      in io_uring_enter() only
 *     receive from Redis one of the ring's buffers    while no bytes are in it
 *
 * Therefore a connection has at most one operation in flight, and is freed only
 * when this operation is complete.  If a client times out, or the server stops,
 * the operation is cancelled first.  A cancelled operation completes as well:
 * with -ECANCELED, or with its result, if the kernel was faster.
 *
 * A receive operation needs no memory in advance: the kernel takes a buffer
 * when bytes come, so ten thousand idle connections need no buffer.
 */
#pragma once

#include "ring_redis.h"

struct loop {
    struct ring ring;
    struct evented evented;
    struct ring_redis redis;
    bool accepting; /* an accept operation is in flight */
    bool multishot; /* this operation accepts many clients */
    bool ends;      /* no operation may be begun any more */
};

void completion_init(struct loop *loop, struct server *server);

/* Handles one completion. */
void completion_event(struct loop *loop, const struct io_uring_cqe *cqe);

/* Call it right before the loop sleeps.  It begins to accept if there is room
   for a client, and begins the operations for Redis.  Returns how long the loop
   may sleep, in milliseconds; -1: without limit. */
int completion_prepare_wait(struct loop *loop);

/* Call it at the end of a loop iteration, which begins with
   evented_begin_round(). */
void completion_end_round(struct loop *loop);

/* Returns false when the server stops, all connections are closed, and no
   accept operation is in flight. */
bool completion_keep_running(const struct loop *loop);

void completion_free(struct loop *loop);
