/* SPDX-License-Identifier: MIT */
/*
 * The ring: two queues in memory that this process shares with the kernel, one
 * of operations to begin and one of those that are done (io_uring(7)), and the
 * buffers for what comes.
 */
#ifndef RING_H
#define RING_H

#if __has_include(<liburing.h>)
#include <liburing.h>
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#error it needs liburing 2.3 or newer (Debian 12, Ubuntu 24.04: liburing-dev)
#endif

/* Buffers of one size, of which the kernel takes one when bytes come. */
struct buffers {
    struct io_uring_buf_ring *free; /* shared with the kernel */
    char *memory;
    unsigned count, size; /* the count is a power of two */
    unsigned short group; /* which operations take them */
};

struct ring {
    struct io_uring uring;
    struct buffers for_clients, for_redis;
};

/* Results that can wait.  More would wait in the kernel's memory. */
#define COMPLETIONS 8192

/* Ends the program with a message if the kernel has no io_uring, or forbids it.
 */
void ring_init(struct ring *ring);
void ring_free(struct ring *ring); /* nothing is under way any more */

/* Begins an operation, to be prepared by a function of liburing.  It is handed
   over with others, by the next ring_wait(); or now, if the queue is full. */
struct io_uring_sqe *ring_begin(struct ring *ring);

/* The result of this operation is of no use. */
void ring_ignore(struct io_uring_sqe *sqe);
#define IGNORED 0 /* the number that it carries */

/* Cancels the operation that carries this number.  Its result comes in any
   case: what it was when it was cancelled, or -ECANCELED. */
void ring_cancel(struct ring *ring, uint64_t number);

/* The operation takes a buffer of these when bytes come: it owns none until
   then.  If all are in use, it fails with -ENOBUFS. */
void ring_take_buffer(struct io_uring_sqe *sqe, const struct buffers *buffers);

/* The bytes that the operation of this result has received, if any. */
const char *ring_bytes(const struct io_uring_cqe *cqe,
                       const struct buffers *buffers);
/* They are no longer needed: the kernel may take the buffer again. */
void ring_give_back(const struct io_uring_cqe *cqe, struct buffers *buffers);

/* Hands over what was begun, and sleeps until something is done, at most so
   many milliseconds (-1: without limit).  When it returns, the kernel has read
   all that was handed over. */
void ring_wait(struct ring *ring, int timeout);

#endif
