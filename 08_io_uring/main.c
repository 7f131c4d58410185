/* SPDX-License-Identifier: MIT */
/*
 * io_uring: one event loop serves all connections, and the kernel does the work
 * by itself and says what is done.
 *
 *     clients     kernel                              this process
 *
 *     A ----+    +-----------------------+  submit   +----------------------+
 *     B ----+--> | accept, receive, send | <-------- | for each that is     |
 *     C ----+    | and close are under   |           | done: begin the next |
 *     Redis +    | way, for each client  | --------> | operation of that    |
 *                +-----------------------+   done    | client               |
 *                                                    +----------------------+
 *                 both queues lie in memory that the two share
 *
 * Who waits, and where?  io_uring_enter() waits for all clients: it hands over
 * the operations that were begun in this loop iteration, and sleeps until one
 * is done.  07 learns that a socket is ready, and then makes a call; this
 * server has made the call before, and learns its result.
 *
 * Where does a half-done request live?  In its `struct ring_conn`, as in 07.
 * But while an operation is under way, the kernel reads or writes the memory
 * that was given to it.  So a connection that must go is cancelled first, and
 * freed when its last operation has come back.  Only receiving needs no memory
 * in advance: the kernel takes one of a few buffers when bytes come, so ten
 * thousand idle connections own none.
 *
 * What does it cost?  A system call for each loop iteration, and not for each
 * step of each request.  The steps themselves are not free: each is two entries
 * of a queue, and an object in the kernel.
 *
 * What happens at the limit?  As in 07.  One accept operation brings clients
 * again and again; near the limit one brings only one client.
 *
 * What to try: `./io_uring --no-confinement` and `strace -c`, against the same
 * with epoll; and what the kernel refuses an intruder now (ring_restrict()).
 * docs/tutorial/book/12-io_uring.md has the figures.
 *
 * To see it: `strace -e trace=io_uring_enter ./io_uring`: for one client each
 * call hands over one operation: receive, send, close.  For many clients at
 * once it hands over many.
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
              CALL(poll)}, /* at its end */
};

struct ring_conn {
    struct event_conn base;   /* first: a pointer to it is one to all of this */
    enum operation operation; /* the only one under way; none: it waits for
                                 Redis */
    enum timeout late;        /* its time for this was over: cancelled */
    struct msghdr message;    /* what is being sent, in two parts */
    struct iovec parts[2];
};

struct loop {
    struct ring ring;
    struct evented evented;
    struct ring_redis redis;
    bool accepting; /* an accept operation is under way */
    bool many;      /* and brings more than one client */
};

static uint64_t number_of(const struct ring_conn *conn,
                          enum operation operation) {
    return (uintptr_t)conn | operation;
}

/* Its result will come back with the connection. */
static void belongs_to(struct io_uring_sqe *sqe, struct ring_conn *conn,
                       enum operation operation) {
    io_uring_sqe_set_data64(sqe, number_of(conn, operation));
    conn->operation = operation;
}

/* ---- Beginning an operation ---- */

/* Takes no more than connection_room() will have: that is asked now only if the
   connection has a buffer, because an idle one must not need any.  `flags`: of
   recv(2).  Returns false if there is no memory. */
static bool begin_receive(struct loop *loop, struct ring_conn *conn,
                          int flags) {
    struct connection *connection = &conn->base.connection;
    size_t size = RECEIVE_SIZE, most = loop->ring.for_clients.size;

    if (connection->input.capacity > 0 &&
        connection_room(connection, &size) == NULL) {
        server_report_exhausted("memory");
        connection_abandon(connection);
        return false;
    }
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);
    io_uring_prep_recv(sqe, conn->base.client.socket, NULL,
                       size < most ? size : most, flags);
    ring_take_buffer(sqe, &loop->ring.for_clients);
    belongs_to(sqe, conn, RECEIVE);
    return true;
}

static void begin_close(struct loop *loop, struct ring_conn *conn) {
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);

    io_uring_prep_close(sqe, conn->base.client.socket);
    belongs_to(sqe, conn, CLOSE);
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
 * It could close the socket as well, in a chain of operations (IOSQE_IO_LINK),
 * and save us one more turn.  But shutdown(2) must come between: see
 * transmit.c.  The kernel gives the operation IORING_OP_SHUTDOWN to a thread of
 * its own, and a short request costs a fifth or more.  So that remains a system
 * call (evented_finish_exchange()), and the close an operation of its own.
 */
static void begin_send(struct loop *loop, struct ring_conn *conn,
                       struct pending pending) {
    evented_start_waiting(&loop->evented, &conn->base);
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);
    prepare_send(sqe, conn, pending);
    belongs_to(sqe, conn, SEND);
}

static void await_room(struct loop *loop, struct ring_conn *conn) {
    evented_start_waiting(&loop->evented, &conn->base);
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);
    io_uring_prep_poll_add(sqe, conn->base.client.socket, POLLOUT);
    belongs_to(sqe, conn, AWAIT_ROOM);
}

/* ---- One connection ---- */

/* A file is sent as in 07.  The ring has no operation like sendfile(2): splice
   needs a pipe for each client, and the kernel gives it to a thread of its own.
   Returns false if the kernel has no room now. */
static bool send_file(struct loop *loop, struct ring_conn *conn,
                      struct pending pending) {
    struct connection *connection = &conn->base.connection;

    ssize_t count = transmit(conn->base.client.socket, pending);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count <= 0) { /* the client has left, or the file is shorter now */
        connection_abandon(connection);
        return true;
    }
    conn->base.progress.since = loop->evented.now;
    connection_sent(connection, (uint64_t)count);
    return true;
}

/* Drives one connection until an operation is under way for it, or until it
   waits for Redis. */
static void drive(struct loop *loop, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    struct pending pending;
    int sends = 0; /* of files: the head, then a piece */

    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
            evented_start_waiting(&loop->evented, &conn->base);
            if (begin_receive(loop, conn, 0))
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
            if (pending.descriptor < 0) {
                begin_send(loop, conn, pending);
                return;
            }
            if (sends++ == 2 || !send_file(loop, conn, pending)) {
                await_room(loop, conn);
                return;
            }
            break;
        case NEED_DONE:
            evented_finish_exchange(&loop->evented, &conn->base);
            break;
        case NEED_CLOSE:
            evented_stop_waiting(&loop->evented, &conn->base);
            begin_close(loop, conn);
            return;
        }
    }
}

/* The kernel put bytes into one of the buffers.  They fit: begin_receive(). */
static void take_bytes(struct loop *loop, struct ring_conn *conn,
                       const char *bytes, int count) {
    struct connection *connection = &conn->base.connection;
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL) {
        server_report_exhausted("memory");
        connection_abandon(connection);
        return;
    }
    memcpy(room, bytes, (size_t)count);
    cached_time_set(&loop->evented.cached_time, time(NULL));
    connection_received(connection, (size_t)count);
}

/* A client whose time was over gets one last look: its bytes may have come
   while the server was suspended (SIGSTOP).  Then the kernel had not gone on
   with this operation, and cancelled it nevertheless.  Returns false if the
   look has begun. */
static bool received(struct loop *loop, struct ring_conn *conn,
                     const char *bytes, int result) {
    struct connection *connection = &conn->base.connection;

    if (result == -ECANCELED && conn->late != TIMEOUT_NONE &&
        begin_receive(loop, conn, MSG_DONTWAIT))
        return false;
    if (result > 0)
        take_bytes(loop, conn, bytes, result);
    else if (result == 0)
        connection_received(connection, 0);
    else if (result != -ENOBUFS && result != -EINTR && result != -EAGAIN)
        connection_abandon(connection);
    /* ENOBUFS and EINTR: it is begun again. */
    if (conn->late != TIMEOUT_NONE &&
        connection_timeout(connection) == conn->late)
        connection_timed_out(connection);
    return true;
}

static void sent(struct loop *loop, struct ring_conn *conn, int result) {
    struct connection *connection = &conn->base.connection;

    if (result <= 0 || conn->late != TIMEOUT_NONE) {
        connection_abandon(connection);
        return;
    }
    conn->base.progress.since = loop->evented.now;
    connection_sent(connection, (uint64_t)result);
}

/* An operation of a connection has come back. */
static void go_on(struct loop *loop, struct ring_conn *conn,
                  enum operation operation, const char *bytes, int result) {
    if (operation == CLOSE) {
        evented_forget(&loop->evented, &conn->base);
        return;
    }
    if (operation == RECEIVE && !received(loop, conn, bytes, result))
        return;
    if (operation == SEND)
        sent(loop, conn, result);
    else if (operation == AWAIT_ROOM && result < 0)
        connection_abandon(&conn->base.connection);
    conn->late = TIMEOUT_NONE;
    drive(loop, conn);
}

/* ---- Accepting ---- */

/* A multishot operation accepts clients until it is cancelled, or until the
   queue of results is full: so it may accept that many more than the limit.
   Near the limit, each operation accepts one client. */
static void begin_accept(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);
    int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

    loop->accepting = true;
    loop->many = evented->count + COMPLETIONS < evented->limit;
    if (loop->many)
        io_uring_prep_multishot_accept(sqe, evented->server->listener, NULL,
                                       NULL, flags);
    else
        io_uring_prep_accept(sqe, evented->server->listener, NULL, NULL, flags);
    io_uring_sqe_set_data64(sqe, number_of(NULL, ACCEPT));
}

static void prepare_accept(struct loop *loop) {
    struct evented *evented = &loop->evented;
    bool wanted = evented_reserve(evented);
    bool near = evented->count + COMPLETIONS >= evented->limit;

    if (wanted && !loop->accepting)
        begin_accept(loop);
    else if (loop->accepting && (!wanted || (loop->many && near)))
        ring_cancel(&loop->ring, number_of(NULL, ACCEPT));
}

static void accepted(struct loop *loop, int result, bool more) {
    struct evented *evented = &loop->evented;
    struct client client;

    if (!more)
        loop->accepting = false;
    if (result < 0) {
        if (result != -EMFILE && result != -ENFILE && result != -ENOBUFS &&
            result != -ENOMEM)
            return; /* the client left, or this was cancelled */
        errno = -result;
        server_report_exhausted("descriptors or memory");
        evented_pause_accepting(evented);
        return;
    }
    if (evented->next == NULL)
        evented->next = slab_take(&evented->memory);
    if (evented->next == NULL) {
        server_report_exhausted("memory");
        evented_pause_accepting(evented);
        close(result);
        return;
    }
    server_adopt(evented->server, result, &client);
    drive(loop, (struct ring_conn *)evented_adopt(evented, &client));
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

/* Takes the replies that are there; or none will come. */
static void take_replies(struct loop *loop, bool works) {
    struct event_conn *conn;

    if (!works)
        evented_fail_redis(&loop->evented);
    while ((conn = evented_take_reply(&loop->evented)) != NULL)
        drive(loop, (struct ring_conn *)conn);
}

/* ---- Rounds ---- */

/* Cancels what a client did not do in time.  It is disconnected when that has
   come back, as its last bytes may be on their way. */
static void be_late(struct loop *loop, struct ring_conn *conn) {
    conn->late = conn->base.awaited;
    evented_stop_waiting(&loop->evented, &conn->base);
    ring_cancel(&loop->ring, number_of(conn, conn->operation));
}

static void complete(struct loop *loop, const struct io_uring_cqe *cqe) {
    uint64_t number = io_uring_cqe_get_data64(cqe);
    enum operation operation = (enum operation)(number % OPERATIONS);
    struct ring *ring = &loop->ring;

    if (number == IGNORED)
        return;
    if (operation == ACCEPT) {
        accepted(loop, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0);
    } else if (operation > ACCEPT) {
        take_replies(loop, ring_redis_done(&loop->redis, cqe));
        ring_give_back(cqe, &ring->for_redis);
    } else {
        go_on(loop, (struct ring_conn *)(uintptr_t)(number - operation),
              operation, ring_bytes(cqe, &ring->for_clients), cqe->res);
        ring_give_back(cqe, &ring->for_clients);
    }
}

/* Hands over what was begun, sleeps until something is done, and goes on with
   all that is. */
static void wait_and_complete(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    ring_wait(&loop->ring, evented_timeout(&loop->evented));
    evented_begin_round(&loop->evented);
    io_uring_for_each_cqe(&loop->ring.uring, head, cqe) {
        complete(loop, cqe);
        count++;
    }
    io_uring_cq_advance(&loop->ring.uring, count);
}

static void run_round(struct loop *loop) {
    struct event_conn *conn;

    prepare_accept(loop);
    take_replies(loop, ring_redis_look(&loop->redis));
    take_replies(loop,
                 redis_pipeline_check(&loop->evented.redis, loop->evented.now));
    ring_redis_begin(&loop->redis);
    wait_and_complete(loop);
    while ((conn = evented_expired(&loop->evented)) != NULL)
        be_late(loop, (struct ring_conn *)conn);
    evented_end_round(&loop->evented);
}

/* Returns false when the server was stopped and all is done, or time is up. */
static bool keep_running(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct event_conn *conn, *next;

    if (!server_is_stopping())
        return true;
    /* Ends those that are idle, unless a request has come meanwhile. */
    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], conn, next)
            if (connection_is_idle(&conn->connection))
                be_late(loop, (struct ring_conn *)conn);
    return (server_keep_accepting() || evented->count > 0) &&
           !server_is_out_of_time();
}

/* Everything that is under way comes back before its memory is freed. */
static void loop_free(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct event_conn *conn;

    while ((conn = evented->first_waiter) != NULL) {
        evented->first_waiter = conn->next_waiter;
        connection_abandon(&conn->connection);
        drive(loop, (struct ring_conn *)conn);
    }
    struct io_uring_sqe *sqe = ring_begin(&loop->ring);
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
