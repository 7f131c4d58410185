/* SPDX-License-Identifier: MIT */
/* The baseline of 08_io_uring: one loop over all connections, which sleeps in
   io_uring_enter().  This call also submits operations. */
#include "asking.h"

#include <liburing.h>
#include <poll.h>

#define SUBMISSIONS 4096
#define COMPLETIONS 8192
#define BUFFERS     256 /* for receives that complete in one loop iteration */

/* The kind of an operation: the low bits of its user_data.  Above them is the
   client's descriptor; for REDIS_SEND, a number of bytes. */
enum operation {
    RECEIVE,
    SEND,
    AWAIT_WRITABLE,
    CLOSE,
    ACCEPT,
    REDIS,
    REDIS_SEND
};

static struct io_uring ring;
static struct io_uring_buf_ring *buffers;
static char memory[BUFFERS][RECEIVE_SIZE]; /* of the buffers */

static struct io_uring_sqe *begin(void) {
    while (io_uring_sq_space_left(&ring) < 2) /* two entries may be linked */
        io_uring_submit(&ring);
    return io_uring_get_sqe(&ring);
}

/* Sets user_data.  Call it after liburing's function that prepares the
   operation, because that function clears user_data. */
static void is(struct io_uring_sqe *sqe, enum operation operation, int client) {
    io_uring_sqe_set_data64(sqe, (uint64_t)client << 3 | operation);
}

static void begin_receive(int client) {
    struct io_uring_sqe *sqe = begin();

    io_uring_prep_recv(sqe, client, NULL, RECEIVE_SIZE, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    is(sqe, RECEIVE, client);
}

static void begin_close(int client) {
    struct io_uring_sqe *sqe = begin();

    loop.clients[client] = (struct client){0};
    io_uring_prep_close(sqe, client);
    is(sqe, CLOSE, client);
}

/* Like baseline_send(), sends a short answer from memory, and a long one from a
   file. */
static void loop_answer(int client) {
    struct baseline *baseline = &loop.baseline;
    size_t *sent = &loop.clients[client].sent;

    if (baseline->file < 0) {
        struct io_uring_sqe *sqe = begin();
        io_uring_prep_send(sqe, client, baseline->answer, baseline->bytes,
                           MSG_WAITALL | (baseline->keep_alive ? 0 : MSG_MORE));
        is(sqe, SEND, client);
        if (!baseline->keep_alive) {
            sqe->flags |= IOSQE_IO_HARDLINK;
            begin_close(client);
        }
        return;
    }
    ssize_t count = baseline_send(baseline, client, *sent);
    *sent += count < 0 ? 0 : (size_t)count;
    if (*sent < baseline->bytes && (count > 0 || errno == EAGAIN)) {
        struct io_uring_sqe *sqe = begin();
        io_uring_prep_poll_add(sqe, client, POLLOUT);
        is(sqe, AWAIT_WRITABLE, client);
    } else if (baseline->keep_alive && *sent == baseline->bytes) {
        loop.clients[client] = (struct client){0};
        begin_receive(client);
    } else {
        begin_close(client);
    }
}

static void received(int client, int result) {
    if (result == -ENOBUFS)
        begin_receive(client);
    else if (result <= 0)
        begin_close(client);
    else if (loop.redis >= 0)
        loop_ask(client);
    else
        loop_answer(client);
}

static void begin_receive_redis(void) {
    struct io_uring_sqe *sqe = begin();

    io_uring_prep_recv(sqe, loop.redis, loop.replies + loop.replies_length,
                       sizeof loop.replies - loop.replies_length, 0);
    is(sqe, REDIS, 0);
}

static void redis_received(int result) {
    if (result <= 0)
        baseline_fatal("Redis");
    loop_take_replies((size_t)result);
    begin_receive_redis();
}

/* The kernel copies the commands before io_uring_enter() returns
   (MSG_DONTWAIT). */
static void begin_send_redis(void) {
    struct io_uring_sqe *sqe = begin();

    io_uring_prep_send(sqe, loop.redis, loop.commands, loop.commands_length,
                       MSG_DONTWAIT);
    is(sqe, REDIS_SEND, (int)loop.commands_length);
    loop.commands_length = 0;
}

static void begin_accept(void) {
    struct io_uring_sqe *sqe = begin();

    io_uring_prep_multishot_accept(sqe, loop.baseline.listener, NULL, NULL,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
    is(sqe, ACCEPT, 0);
}

static void give_back(int buffer) {
    io_uring_buf_ring_add(buffers, memory[buffer], RECEIVE_SIZE,
                          (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(buffers, 1);
}

static void complete(const struct io_uring_cqe *cqe) {
    int client = (int)(cqe->user_data >> 3);

    switch ((enum operation)(cqe->user_data & 7)) {
    case RECEIVE:
        received(client, cqe->res);
        break;
    case SEND:
        if (loop.baseline.keep_alive) {
            loop.clients[client] = (struct client){0};
            begin_receive(client);
        }
        break;
    case AWAIT_WRITABLE:
        loop_answer(client);
        break;
    case CLOSE:
        break;
    case ACCEPT:
        if (cqe->res >= 0)
            begin_receive(cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            begin_accept();
        break;
    case REDIS:
        redis_received(cqe->res);
        break;
    case REDIS_SEND:
        if (cqe->res != client)
            baseline_fatal("Redis");
    }
    if (cqe->flags & IORING_CQE_F_BUFFER)
        give_back((int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT));
}

static void start_ring(void) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = COMPLETIONS};
    struct io_uring_buf_reg registration = {.ring_entries = BUFFERS};

    buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf),
                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    registration.ring_addr = (uintptr_t)buffers;
    errno = -io_uring_queue_init_params(SUBMISSIONS, &ring, &params);
    if (errno == 0)
        errno = -io_uring_register_buf_ring(&ring, &registration, 0);
    if (errno != 0)
        baseline_fatal("io_uring");
    io_uring_buf_ring_init(buffers);
    for (int i = 0; i < BUFFERS; i++)
        give_back(i);
}

int main(int argc, char **argv) {
    struct io_uring_cqe *cqe;

    loop_start(argc, argv);
    start_ring();
    begin_accept();
    if (loop.redis >= 0)
        begin_receive_redis();
    for (;;) {
        unsigned head, done = 0;
        if (loop.commands_length > 0)
            begin_send_redis();
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe) {
            complete(cqe);
            done++;
        }
        io_uring_cq_advance(&ring, done);
    }
}
