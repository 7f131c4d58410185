/* SPDX-License-Identifier: MIT */
/* The connection to Redis on the ring: one operation receives all replies, and
   one for each loop iteration sends the commands. */
#ifndef RING_REDIS_H
#define RING_REDIS_H

#include "net/evented.h"
#include "ring.h"

/* The kind of an operation: the low bits of its user_data, which its completion
   carries, too.  The other bits are a pointer to the client's connection or,
   for Redis, a generation: the number of this connection to Redis. */
enum operation {
    RECEIVE,
    SEND,
    AWAIT_WRITABLE,
    ACCEPT,
    REDIS_RECEIVE,
    REDIS_SEND,
    REDIS_AWAIT_WRITABLE,
};
#define OPERATIONS 8 /* a power of two, and the alignment of connections */

struct ring_redis {
    struct ring *ring;
    struct evented *evented;
    uint64_t generation; /* each connection to Redis has another number */
    bool receiving, sending, awaiting_writable; /* in flight */
    bool writable; /* the socket is ready, as far as is known */
};

void ring_redis_init(struct ring_redis *redis, struct ring *ring,
                     struct evented *evented);

/* The connection to Redis was closed: what is in flight on it is cancelled, and
   its completions are ignored. */
void ring_redis_forget(struct ring_redis *redis);

/* After the timeout of a reply: reads the socket once more.  A reply may have
   come while the server was suspended (SIGSTOP). */
void ring_redis_receive_late(struct ring_redis *redis);

/* Begins the operations that are needed now.  Call it last in a loop iteration:
   no command may be added until the kernel has read the buffer of commands,
   because that would move it. */
void ring_redis_begin(struct ring_redis *redis);

/* Handles a completion of one of its operations. */
void ring_redis_completed(struct ring_redis *redis,
                          const struct io_uring_cqe *cqe);

#endif
