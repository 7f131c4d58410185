/* SPDX-License-Identifier: MIT */
/* The connection to Redis on the ring: one operation receives all replies, and
   one for each loop iteration sends the commands. */
#ifndef RING_REDIS_H
#define RING_REDIS_H

#include "net/evented.h"
#include "ring.h"

/* What is done, in the low bits of the number that an operation carries.  The
   rest of it is a pointer to the connection or, for Redis, which of the
   connections to Redis it belonged to. */
enum operation {
    RECEIVE,
    SEND,
    AWAIT_ROOM,
    CLOSE,
    ACCEPT,
    REDIS_RECEIVE,
    REDIS_SEND,
    REDIS_AWAIT_ROOM,
    OPERATIONS,
};

struct ring_redis {
    struct ring *ring;
    struct evented *evented;
    uint64_t number; /* of this connection: older ones have other numbers */
    bool receiving, sending, awaiting_room; /* under way */
    bool has_room;                          /* as far as is known */
};

void ring_redis_init(struct ring_redis *redis, struct ring *ring,
                     struct evented *evented);

/* The connection to Redis was closed: what is still under way on it does not
   count any more. */
void ring_redis_forget(struct ring_redis *redis);

/* If no reply has come in time, looks once more: while the server was suspended
   (SIGSTOP), one may have come that the kernel has not yet received.  Returns
   false if the connection has failed. */
bool ring_redis_look(struct ring_redis *redis);

/* Begins what is needed now.  Call it last in a loop iteration: no command may
   be added until the kernel has read those that are there. */
void ring_redis_begin(struct ring_redis *redis);

/* One of its operations is done.  Returns false if the connection has failed.
 */
bool ring_redis_done(struct ring_redis *redis, const struct io_uring_cqe *cqe);

#endif
