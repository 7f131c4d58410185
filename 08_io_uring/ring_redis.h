/* SPDX-License-Identifier: MIT */
/* The connection to Redis on the ring: one operation receives all replies, and
   in each loop iteration at most one operation sends commands. */
#pragma once

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
#define OPERATIONS 8 /* a power of two; connections are aligned to it */

struct ring_redis {
    struct ring *ring;
    struct evented *evented;
    uint64_t generation; /* each connection to Redis has its own number */
    bool receiving, sending, awaiting_writable; /* in flight */
    bool writable; /* the socket probably has room */
};

void ring_redis_init(struct ring_redis *redis, struct ring *ring,
                     struct evented *evented);

/* Call it when the connection to Redis is closed.  It cancels the operations
   that wait on this connection; their completions will be ignored. */
void ring_redis_forget(struct ring_redis *redis);

/* If a reply is late, reads the socket once more.  A reply may have come while
   the server was suspended (SIGSTOP). */
void ring_redis_receive_late(struct ring_redis *redis);

/* Begins the operations that are needed now.  Call it last before ring_wait():
   a later command could move the buffer of commands before the kernel has read
   it. */
void ring_redis_begin(struct ring_redis *redis);

/* Handles the completion of an operation for Redis. */
void ring_redis_completed(struct ring_redis *redis,
                          const struct io_uring_cqe *cqe);
