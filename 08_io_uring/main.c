/* SPDX-License-Identifier: MIT */
/*
 * io_uring: one event loop serves all connections; the kernel makes the calls
 * on their sockets, and reports the results.
 *
 *     clients     kernel                              this process
 *
 *     A ----+    +-----------------------+  submit   +----------------------+
 *     B ----+--> | in flight, for each   | <-------- | for each result:     |
 *     C ----+    | client: accept,       |           | begin the client's   |
 *     Redis +    | receive or send       | --------> | next operation       |
 *                +-----------------------+  complete +----------------------+
 *                  both queues lie in memory that the two share
 *
 * Who waits, and where?  io_uring_enter() waits for all clients: it submits the
 * operations of this loop iteration, and sleeps until one is complete.  07
 * learns that a socket is ready, and then makes a call.  This server has
 * submitted the operation before, and learns its result.
 *
 * Where does a half-done request live?  In its `struct ring_conn`, as in 07.
 * But while an operation is in flight, the kernel reads or writes the memory
 * that it was given.  So when a client times out, its operation is cancelled
 * first, and the connection is freed when that is complete.  Only receiving
 * needs no memory in advance: the kernel takes one of a few buffers when bytes
 * come, so ten thousand idle connections own none.
 *
 * What does it cost?  A system call for each loop iteration; in 07, one for
 * each step of each request.  (To end a connection, and to send a file, this
 * server makes the calls of 07.)  Each operation has a price, too: an entry in
 * either queue, and an object in the kernel.
 *
 * What happens at the limit?  As in 07.  One multishot operation accepts all
 * clients; within COMPLETIONS of the limit, each operation accepts one.
 *
 * What to try: `./io_uring --no-confinement` and `strace -c`, then the same
 * with epoll.  docs/tutorial/book/12-io_uring.md has the figures, and
 * docs/explanation/after-epoll.md what they mean.
 *
 * To see it: `strace -e trace=io_uring_enter ./io_uring`: for one client each
 * call submits one operation: accept, receive, send.  For many clients at once
 * it submits many.
 */
#include "config.h"
#include "ring_redis.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

/* seccomp(2) sees one call, whatever the kernel is asked to do through the
   ring; ring_restrict() limits that. */
static const struct architecture architecture = {
    .name = "io_uring",
    .summary = "one process, one event loop (io_uring)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(io_uring_enter), CALL(madvise), CALL(getpeername),
              CALL(poll)}, /* at its end, and if memory is short */
};

struct ring_conn {
    struct event_conn base;   /* first: a pointer to it is one to all of this */
    enum operation operation; /* the only one in flight, unless it waits for
                                 Redis */
    enum timeout
        expired; /* this timeout has expired, so the operation was cancelled */
    struct msghdr message; /* what is being sent, in two parts */
    struct iovec parts[2];
};

struct loop {
    struct ring ring;
    struct evented evented;
    struct ring_redis redis;
    bool accepting; /* an accept operation is in flight */
    bool multishot; /* it accepts more than one client */
    bool ends;      /* no operation may be begun any more */
};

static uint64_t user_data_of(const struct ring_conn *conn,
                             enum operation operation) {
    return (uintptr_t)conn | operation;
}

/* Its completion will name the connection. */
static void set_user_data(struct io_uring_sqe *sqe, struct ring_conn *conn,
                          enum operation operation) {
    io_uring_sqe_set_data64(sqe, user_data_of(conn, operation));
    conn->operation = operation;
}

/* ---- Preparing operations ---- */

/* Begins an operation that receives.  It may bring as many bytes as
   connection_room() will have then.  An idle connection gets its buffer, of
   RECEIVE_SIZE bytes, only when they come.  Returns false if there is no
   memory. */
static bool begin_receive(struct loop *loop, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    size_t size = RECEIVE_SIZE, most = loop->ring.for_clients.size;

    if (connection->input.capacity > 0 &&
        connection_room(connection, &size) == NULL) {
        server_report_exhausted("memory");
        connection_abandon(connection);
        return false;
    }
    struct io_uring_sqe *sqe = ring_get_sqe(&loop->ring);
    io_uring_prep_recv(sqe, conn->base.client.socket, NULL,
                       size < most ? size : most, 0);
    ring_take_buffer(sqe, &loop->ring.for_clients);
    set_user_data(sqe, conn, RECEIVE);
    return true;
}

static void prepare_send(struct io_uring_sqe *sqe, struct ring_conn *conn,
                         struct pending pending) {
    int socket = conn->base.client.socket;
    int flags = MSG_NOSIGNAL | MSG_WAITALL | (pending.last ? MSG_MORE : 0);

    if (pending.second.length == 0) {
        io_uring_prep_send(sqe, socket, pending.first.data,
                           pending.first.length, flags);
        return;
    }
    conn->parts[0] = (struct iovec){(void *)(uintptr_t)pending.first.data,
                                    pending.first.length};
    conn->parts[1] = (struct iovec){(void *)(uintptr_t)pending.second.data,
                                    pending.second.length};
    conn->message = (struct msghdr){.msg_iov = conn->parts, .msg_iovlen = 2};
    io_uring_prep_sendmsg(sqe, socket, &conn->message, (unsigned)flags);
}

/*
 * The kernel sends all of it, however long the client takes (MSG_WAITALL).
 *
 * Where no response follows, shutdown(2) and close(2) remain system calls.  As
 * operations of the ring they cost more CPU time.  The close costs 4 % of a
 * short request more, because its result is one more entry of a queue.  Both in
 * a chain cost 13 to 40 % more, because the kernel gives a shutdown to a worker
 * thread (course/experiments/chain.toml).
 */
static void begin_send(struct loop *loop, struct ring_conn *conn,
                       struct pending pending) {
    evented_start_waiting(&loop->evented, &conn->base);
    struct io_uring_sqe *sqe = ring_get_sqe(&loop->ring);
    prepare_send(sqe, conn, pending);
    set_user_data(sqe, conn, SEND);
}

static void await_writable(struct loop *loop, struct ring_conn *conn) {
    evented_start_waiting(&loop->evented, &conn->base);
    struct io_uring_sqe *sqe = ring_get_sqe(&loop->ring);
    io_uring_prep_poll_add(sqe, conn->base.client.socket, POLLOUT);
    set_user_data(sqe, conn, AWAIT_WRITABLE);
}

/* ---- One connection ---- */

/* Drives one connection until an operation is begun for it, or until it waits
   for Redis.  A file is sent as in 07.  The ring has no operation like
   sendfile(2): splice needs a pipe for each client, and the kernel gives it to
   a thread of its own. */
static void drive(struct loop *loop, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    struct pending pending;
    int sends = 0; /* of files: the head, then a piece */

    if (loop->ends)
        connection_abandon(connection);
    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
            evented_start_waiting(&loop->evented, &conn->base);
            if (begin_receive(loop, conn))
                return;
            break;
        case NEED_ASK_REDIS:
            if (evented_ask_redis(&loop->evented, &conn->base))
                return;
            break;
        case NEED_KEEP:
            connection_keep(connection, evented_may_keep(&loop->evented));
            break;
        case NEED_SEND:
            pending = connection_pending(connection);
            if (pending.descriptor >= 0 && sends++ < 2 &&
                evented_send_some(&loop->evented, &conn->base))
                break;
            if (pending.descriptor >= 0)
                await_writable(loop, conn);
            else
                begin_send(loop, conn, pending);
            return;
        case NEED_DONE:
            evented_finish_exchange(&loop->evented, &conn->base);
            break;
        case NEED_CLOSE:
            close(conn->base.client.socket);
            evented_forget(&loop->evented, &conn->base);
            return;
        }
    }
}

/* Takes the bytes that a receive operation has put into a buffer; or, if
   `bytes` is NULL, what is in the socket now.  They fit: begin_receive().
   Returns the result of the operation or of that read: a number of bytes, or
   minus errno. */
static int take_bytes(struct ring_conn *conn, const char *bytes, int result) {
    size_t size;

    char *room = connection_room(&conn->base.connection, &size);
    if (room == NULL) {
        server_report_exhausted("memory");
        return -ENOMEM;
    }
    if (bytes == NULL) {
        result = (int)recv(conn->base.client.socket, room, size, MSG_DONTWAIT);
        return result < 0 ? -errno : result;
    }
    memcpy(room, bytes, (size_t)result);
    return result;
}

/*
 * Reads the socket itself in two cases.  If all buffers were in use (ENOBUFS),
 * the next operation of this client might find none either.  If the client
 * timed out, its bytes may have come while the server was suspended (SIGSTOP).
 * With DEFER_TASKRUN they complete an operation only inside io_uring_enter(),
 * and this one was cancelled before.
 */
static void received(struct loop *loop, struct ring_conn *conn,
                     const char *bytes, int result) {
    struct connection *connection = &conn->base.connection;
    bool cancelled = result == -ECANCELED && conn->expired != TIMEOUT_NONE;

    if (result == -ENOBUFS || cancelled)
        result = take_bytes(conn, NULL, 0);
    else if (result > 0)
        result = take_bytes(conn, bytes, result);
    if (result >= 0) {
        cached_time_set(&loop->evented.cached_time, time(NULL));
        connection_received(connection, (size_t)result);
    } else if (result != -EINTR && result != -EAGAIN) {
        connection_abandon(connection);
    }
    /* A stopping server cancels idle connections that have time left. */
    if (conn->expired != TIMEOUT_NONE &&
        connection_timeout(connection) == conn->expired &&
        (conn->base.deadline <= loop->evented.now ||
         connection_is_idle(connection)))
        connection_timed_out(connection);
}

static void sent(struct loop *loop, struct ring_conn *conn, int result) {
    struct connection *connection = &conn->base.connection;

    if (result <= 0 || conn->expired != TIMEOUT_NONE) {
        connection_abandon(connection);
        return;
    }
    conn->base.progress.since = loop->evented.now;
    connection_sent(connection, (uint64_t)result);
}

static void operation_completed(struct loop *loop, struct ring_conn *conn,
                                enum operation operation, const char *bytes,
                                int result) {
    if (operation == RECEIVE)
        received(loop, conn, bytes, result);
    else if (operation == SEND)
        sent(loop, conn, result);
    else if (operation == AWAIT_WRITABLE && result < 0)
        connection_abandon(&conn->base.connection);
    conn->expired = TIMEOUT_NONE;
    drive(loop, conn);
}

/* ---- Accepting ---- */

/* A multishot operation accepts clients until it is cancelled, or until the
   completion queue is full.  So it may exceed the limit by the length of that
   queue. */
static bool may_use_multishot(const struct evented *evented) {
    return evented->count + COMPLETIONS < evented->limit;
}

static void begin_accept(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct io_uring_sqe *sqe = ring_get_sqe(&loop->ring);
    int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

    loop->accepting = true;
    loop->multishot = may_use_multishot(evented);
    if (loop->multishot)
        io_uring_prep_multishot_accept(sqe, evented->server->listener, NULL,
                                       NULL, flags);
    else
        io_uring_prep_accept(sqe, evented->server->listener, NULL, NULL, flags);
    io_uring_sqe_set_data64(sqe, user_data_of(NULL, ACCEPT));
}

static void prepare_accept(struct loop *loop) {
    struct evented *evented = &loop->evented;
    bool wanted = evented_reserve(evented);

    if (wanted && !loop->accepting)
        begin_accept(loop);
    else if (loop->accepting &&
             (!wanted || (loop->multishot && !may_use_multishot(evented))))
        ring_cancel(&loop->ring, user_data_of(NULL, ACCEPT));
}

static void serve_client(struct loop *loop, const struct client *client) {
    drive(loop, (struct ring_conn *)evented_adopt(&loop->evented, client));
}

/* An operation that is no multishot accepts one client only.  Others may wait
   in the backlog: this accepts them, if there is room for them. */
static void accept_others(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct client client;

    for (int i = 1; i < ACCEPTS_AT_ONCE && evented_reserve(evented) &&
                    server_accept(evented->server, SOCK_NONBLOCK, &client);
         i++)
        serve_client(loop, &client);
}

static void accept_failed(struct loop *loop, int error) {
    if (error != EMFILE && error != ENFILE && error != ENOBUFS &&
        error != ENOMEM)
        return; /* the client left, or this was cancelled */
    errno = error;
    server_report_exhausted("descriptors or memory");
    evented_pause_accepting(&loop->evented);
}

static void accepted(struct loop *loop, int result, bool more) {
    struct evented *evented = &loop->evented;
    struct client client;

    if (!more)
        loop->accepting = false;
    if (result < 0) {
        accept_failed(loop, -result);
        return;
    }
    if (!evented_reserve_memory(evented)) {
        close(result);
        return;
    }
    server_adopt(evented->server, result, &client);
    serve_client(loop, &client);
    if (!loop->multishot && !loop->ends)
        accept_others(loop);
}

/* ---- Redis ---- */

/* Called when the connection to Redis is closed. */
static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    (void)source;
    if (interest == 0)
        ring_redis_forget(&((struct loop *)context)->redis);
    return true;
}

static void take_replies(struct loop *loop) {
    struct event_conn *conn;

    while ((conn = evented_take_reply(&loop->evented)) != NULL)
        drive(loop, (struct ring_conn *)conn);
}

/* ---- Rounds ---- */

/* Cancels the operations of clients that have timed out.  It is disconnected
   when that is complete. */
static void cancel_expired(struct loop *loop, struct ring_conn *conn) {
    conn->expired = conn->base.awaited;
    evented_stop_waiting(&loop->evented, &conn->base);
    ring_cancel(&loop->ring, user_data_of(conn, conn->operation));
}

static void dispatch(struct loop *loop, const struct io_uring_cqe *cqe) {
    uint64_t user_data = io_uring_cqe_get_data64(cqe);
    enum operation operation = (enum operation)(user_data % OPERATIONS);
    struct ring *ring = &loop->ring;

    if (user_data == IGNORED)
        return;
    if (operation == ACCEPT) {
        accepted(loop, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0);
    } else if (operation > ACCEPT) {
        ring_redis_completed(&loop->redis, cqe);
        take_replies(loop);
        ring_give_back(cqe, &ring->for_redis);
    } else {
        operation_completed(
            loop, (struct ring_conn *)(uintptr_t)(user_data - operation),
            operation, ring_bytes(cqe, &ring->for_clients), cqe->res);
        ring_give_back(cqe, &ring->for_clients);
    }
}

/* Submits what was begun, sleeps until something is complete, and continues
   with all that is. */
static void wait_and_complete(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    ring_wait(&loop->ring, evented_timeout(&loop->evented));
    evented_begin_round(&loop->evented);
    io_uring_for_each_cqe(&loop->ring.uring, head, cqe) {
        dispatch(loop, cqe);
        count++;
    }
    io_uring_cq_advance(&loop->ring.uring, count);
}

static void run_round(struct loop *loop) {
    struct event_conn *conn;

    prepare_accept(loop);
    ring_redis_receive_late(&loop->redis);
    take_replies(loop);
    redis_pipeline_check(&loop->evented.redis, loop->evented.now);
    take_replies(loop);
    ring_redis_begin(&loop->redis);
    wait_and_complete(loop);
    while ((conn = evented_expired(&loop->evented)) != NULL)
        cancel_expired(loop, (struct ring_conn *)conn);
    evented_end_round(&loop->evented);
}

/* Returns false when the server was stopped and all is done, or time is up. */
static bool keep_running(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct event_conn *conn, *next;

    if (!server_is_stopping())
        return true;
    /* Ends idle connections, unless a request has come meanwhile. */
    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], conn, next)
            if (connection_is_idle(&conn->connection))
                cancel_expired(loop, (struct ring_conn *)conn);
    return (server_keep_accepting() || evented->count > 0) &&
           !server_is_out_of_time();
}

/* Every operation in flight completes before its memory is freed. */
static void loop_free(struct loop *loop) {
    struct evented *evented = &loop->evented;

    loop->ends = true;
    redis_pipeline_close(&evented->redis);
    take_replies(loop);
    struct io_uring_sqe *sqe = ring_get_sqe(&loop->ring);
    io_uring_prep_cancel64(sqe, 0,
                           IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
    ring_ignore(sqe);
    while (evented->count > 0 || loop->accepting)
        wait_and_complete(loop);
    evented_free(evented);
    ring_free(&loop->ring);
}

int main(int argc, char **argv) {
    struct server server;
    struct loop loop = {.accepting = false};

    server_start(&server, &architecture, argc, argv);
    ring_init(&loop.ring);
    evented_init(&loop.evented, &server, (struct event_loop){watch, &loop},
                 sizeof(struct ring_conn));
    ring_redis_init(&loop.redis, &loop.ring, &loop.evented);

    server_ready(&server);
    while (keep_running(&loop))
        run_round(&loop);

    loop_free(&loop);
    return server_end(&server);
}
