/* SPDX-License-Identifier: MIT */
/*
 * The ring: two queues in memory shared with the kernel; see io_uring(7).
 *
 *     submission queue (SQ)   the process writes entries (SQE): an operation,
 *                             and 64 bits that the process chooses, user_data
 *     completion queue (CQ)   the kernel writes entries (CQE): the result, and
 *                             the same user_data
 *
 * Further rings hold buffers: the kernel takes a buffer when bytes come.
 */
#pragma once

#if __has_include(<liburing.h>)
#include <liburing.h>
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#error it needs liburing 2.3 or newer (Debian 12, Ubuntu 24.04: liburing-dev)
#endif

struct buffer_ring {
    struct io_uring_buf_ring *ring; /* the unused buffers, in shared memory */
    char *memory;
    unsigned count, size; /* the count is a power of two */
    unsigned short group; /* the number by which operations name the buffers */
};

struct ring {
    struct io_uring uring;
    struct buffer_ring for_clients, for_redis;
};

/* The completion queue's size; the kernel keeps the entries that do not fit. */
#define COMPLETIONS 8192

/* Exits with a message if there is no io_uring, no permission or no memory. */
void ring_init(struct ring *ring);
void ring_free(struct ring *ring); /* when no operation is in flight */

/* Returns an entry; a function of liburing then writes an operation into it.
   The completion of this operation will carry the user_data.  The next
   ring_wait() submits the entry, with all others.  If the queue is full, the
   earlier entries are submitted now. */
struct io_uring_sqe *ring_get_sqe(struct ring *ring, uint64_t user_data);
#define IGNORED 0 /* the user_data of completions that need no action */

/* Cancels the operation with this user_data, or the operations that the flags
   select (io_uring_prep_cancel(3)).  A cancelled operation completes, too: with
   its result, or with -ECANCELED. */
void ring_cancel(struct ring *ring, uint64_t user_data, int flags);

/* Makes the operation take one of these buffers when bytes come: until then the
   operation owns no buffer.  If all buffers are in use, the operation fails
   with -ENOBUFS. */
void ring_take_buffer(struct io_uring_sqe *sqe,
                      const struct buffer_ring *buffers);

/* Returns the bytes that the completed operation has received.  If it has
   received none, do not use the pointer. */
const char *ring_bytes(const struct io_uring_cqe *cqe,
                       const struct buffer_ring *buffers);
/* Returns the operation's buffer, if it has one, to the kernel.  Call it when
   the bytes are no longer needed. */
void ring_give_back(const struct io_uring_cqe *cqe,
                    struct buffer_ring *buffers);

/* Submits all entries, and sleeps until one operation is complete, for
   `timeout` milliseconds at most (-1: without limit).  When the call returns,
   the kernel has read every entry. */
void ring_wait(struct ring *ring, int timeout);
