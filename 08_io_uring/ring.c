/* SPDX-License-Identifier: MIT */
#include "ring.h"

#include "config.h"
#include "ops.h"
#include "process/log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SUBMISSIONS       4096 /* entries of the submission queue */
#define BUFFERS           256
#define BUFFER_SIZE       2048
#define REDIS_BUFFERS     16
#define REDIS_BUFFER_SIZE 65536

__attribute__((noreturn)) static void give_up(const char *call, int error) {
    const char *why =
        "raise the limit of memory, locked memory (ulimit -l) or descriptors";

    if (error == ENOSYS || error == EINVAL)
        why = "it needs Linux 6.1 or newer, and a container that allows it; "
              "epoll needs neither";
    if (error == EPERM)
        why = "set kernel.io_uring_disabled to 0, or allow it in the "
              "container's seccomp profile";
    server_fatal("cannot use io_uring: %s failed (%s); %s", call,
                 strerror(error), why);
}

/* ---- Operations ---- */

/* Submits entries until there is room for `operations` more entries. */
static void make_room(struct ring *ring, unsigned operations) {
    while (io_uring_sq_space_left(&ring->uring) < operations)
        if (io_uring_submit(&ring->uring) < 0) {
            shortage_report("memory");
            poll(NULL, 0, RETRY_DELAY);
        }
}

struct io_uring_sqe *ring_get_sqe(struct ring *ring, uint64_t user_data) {
    make_room(ring, 1);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
    io_uring_sqe_set_data64(sqe, user_data);
    return sqe;
}

void ring_cancel(struct ring *ring, uint64_t user_data, int flags) {
    struct io_uring_sqe *sqe = ring_get_sqe(ring, IGNORED);

    io_uring_prep_cancel64(sqe, user_data, flags);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

void ring_wait(struct ring *ring, int timeout) {
    struct __kernel_timespec time = {.tv_sec = timeout / 1000,
                                     .tv_nsec = timeout % 1000 * 1000000L};
    struct io_uring_cqe *first;

    (void)io_uring_submit_and_wait_timeout(&ring->uring, &first, 1,
                                           timeout < 0 ? NULL : &time, NULL);
    /* If memory is short, the call may have submitted only some entries. */
    make_room(ring, SUBMISSIONS);
}

/* ---- Buffers ---- */

void ring_take_buffer(struct io_uring_sqe *sqe,
                      const struct buffer_ring *buffers) {
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = buffers->group;
}

static char *memory_of(const struct buffer_ring *buffers, unsigned number) {
    return buffers->memory + (size_t)number * buffers->size;
}

const char *ring_bytes(const struct io_uring_cqe *cqe,
                       const struct buffer_ring *buffers) {
    return memory_of(buffers, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

static void give_back(struct buffer_ring *buffers, unsigned number) {
    io_uring_buf_ring_add(buffers->ring, memory_of(buffers, number),
                          buffers->size, (unsigned short)number,
                          io_uring_buf_ring_mask(buffers->count), 0);
    io_uring_buf_ring_advance(buffers->ring, 1);
}

void ring_give_back(const struct io_uring_cqe *cqe,
                    struct buffer_ring *buffers) {
    if (cqe->flags & IORING_CQE_F_BUFFER)
        give_back(buffers, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

/* ---- Start and end ---- */

/* Makes the system call directly, because some versions of liburing lack a
   function for it. */
static void ring_register(struct ring *ring, unsigned what, const void *list,
                          unsigned count) {
    if (syscall(SYS_io_uring_register, ring->uring.ring_fd, what, list, count) <
        0)
        give_up("io_uring_register(2)", errno);
}

/* The one system call io_uring_enter can do nearly everything that a process
   can do: open and write files, connect to any address.  seccomp(2) does not
   see these operations.  So this function makes the ring reject all operations
   except those in the list. */
static void ring_restrict(struct ring *ring) {
    static const unsigned char operations[] = {
        IORING_OP_ACCEPT,  IORING_OP_RECV,     IORING_OP_SEND,
        IORING_OP_SENDMSG, IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL};
    enum { COUNT = sizeof operations };
    struct io_uring_restriction restrictions[COUNT + 1];

    memset(restrictions, 0, sizeof restrictions);
    for (int i = 0; i < COUNT; i++) {
        restrictions[i].opcode = IORING_RESTRICTION_SQE_OP;
        restrictions[i].sqe_op = operations[i];
    }
    restrictions[COUNT].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    restrictions[COUNT].sqe_flags =
        IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS;
    ring_register(ring, IORING_REGISTER_RESTRICTIONS, restrictions, COUNT + 1);
    ring_register(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* If the kernel has tried an operation too often (128 times), a worker thread
   takes the operation, sleeps in it and holds a buffer.  A client can cause
   this with urgent data: each urgent byte wakes the operation, but the
   operation finds nothing to receive.  So only one worker thread is allowed
   (for each kind of operation). */
static void limit_workers(struct ring *ring) {
    unsigned most[2] = {1, 1};

    ring_register(ring, IORING_REGISTER_IOWQ_MAX_WORKERS, most, 2);
}

/* Returns the size of a ring and its buffers, which follow the ring in
   memory. */
static size_t size_of(const struct buffer_ring *buffers) {
    return buffers->count * (sizeof(struct io_uring_buf) + buffers->size);
}

static void provide(struct ring *ring, struct buffer_ring *buffers) {
    buffers->ring = mmap(NULL, size_of(buffers), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers->ring == MAP_FAILED)
        give_up("mmap(2)", errno);
    buffers->memory =
        (char *)buffers->ring + buffers->count * sizeof(struct io_uring_buf);
    struct io_uring_buf_reg registration = {.ring_addr =
                                                (uintptr_t)buffers->ring,
                                            .ring_entries = buffers->count,
                                            .bgid = buffers->group};
    int result = io_uring_register_buf_ring(&ring->uring, &registration, 0);
    if (result < 0)
        give_up("io_uring_register(2)", -result);
    io_uring_buf_ring_init(buffers->ring);
    for (unsigned i = 0; i < buffers->count; i++)
        give_back(buffers, i);
}

/*
 * SINGLE_ISSUER (since Linux 6.0): only this thread uses the ring.
 * DEFER_TASKRUN (since Linux 6.1): the kernel continues an operation only while
 * the thread is in io_uring_enter(), and does not interrupt it elsewhere.
 * SUBMIT_ALL: the kernel takes all entries, even after an entry that fails.
 * CQSIZE: the size of the completion queue is given below.  R_DISABLED: the
 * ring starts disabled, because only then restrictions can be set.
 */
void ring_init(struct ring *ring) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                 IORING_SETUP_R_DISABLED,
        .cq_entries = COMPLETIONS};

    *ring = (struct ring){
        .for_clients = {.count = BUFFERS, .size = BUFFER_SIZE},
        .for_redis = {
            .count = REDIS_BUFFERS, .size = REDIS_BUFFER_SIZE, .group = 1}};
    int result = io_uring_queue_init_params(SUBMISSIONS, &ring->uring, &params);
    if (result < 0)
        give_up("io_uring_setup(2)", -result);
    limit_workers(ring);
    provide(ring, &ring->for_clients);
    provide(ring, &ring->for_redis);
    ring_restrict(ring);
}

void ring_free(struct ring *ring) {
    io_uring_queue_exit(&ring->uring);
    munmap(ring->for_clients.ring, size_of(&ring->for_clients));
    munmap(ring->for_redis.ring, size_of(&ring->for_redis));
}
