/* SPDX-License-Identifier: MIT */
#include "completion.h"

#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

struct ring_conn {
    struct event_conn base;   /* first, so pointers can be cast */
    enum operation operation; /* in flight, unless the connection waits for
                                 Redis */
    enum timeout expired;     /* why the operation was cancelled */
    struct msghdr message;    /* the bytes to send, in two parts */
    struct iovec parts[2];
};

static uint64_t user_data_of(const struct ring_conn *conn,
                             enum operation operation) {
    return (uintptr_t)conn | operation;
}

/* ---- Beginning operations ---- */

/* Returns an entry for the client's next operation, and starts its timeout. */
static struct io_uring_sqe *begin(struct loop *loop, struct ring_conn *conn,
                                  enum operation operation) {
    evented_start_waiting(&loop->evented, &conn->base);
    conn->operation = operation;
    return ring_get_sqe(&loop->ring, user_data_of(conn, operation));
}

/* Begins an operation that receives at most as many bytes as connection_room()
   will offer space for.  An idle connection gets its input buffer, of
   RECEIVE_SIZE bytes, only when bytes come.  If memory is short, abandons the
   connection and returns false. */
static bool begin_receive(struct loop *loop, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    size_t size = RECEIVE_SIZE, most = loop->ring.for_clients.size;

    if (connection->input.capacity > 0 &&
        connection_room(connection, &size) == NULL) {
        shortage_report("memory");
        connection_abandon(connection);
        return false;
    }
    struct io_uring_sqe *sqe = begin(loop, conn, RECEIVE);
    io_uring_prep_recv(sqe, conn->base.client.socket, NULL,
                       size < most ? size : most, 0);
    ring_take_buffer(sqe, &loop->ring.for_clients);
    return true;
}

/*
 * The kernel sends all pending bytes, even if the client reads slowly
 * (MSG_WAITALL).
 *
 * After the last response, shutdown(2) and close(2) remain system calls.  As
 * operations of the ring they would cost more CPU time.  A close adds 4 % to a
 * short request, because its result is one more entry of a queue.  A chain of
 * both adds 13 to 40 %, because a worker thread runs the shutdown
 * (course/experiments/chain.toml).
 */
static void begin_send(struct loop *loop, struct ring_conn *conn,
                       struct pending pending) {
    struct io_uring_sqe *sqe = begin(loop, conn, SEND);
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

/* ---- One connection ---- */

/* Drives one connection until an operation is begun for it, or until it waits
   for Redis or is closed.  A file is sent as in 07, because the ring has no
   operation like sendfile(2).  The operation splice would need a pipe for each
   client, and the kernel would run it in a thread. */
static void drive(struct loop *loop, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    struct pending pending;
    int sends = 0; /* calls for a file: the head, then a piece */

    if (loop->ends)
        connection_abandon(connection);
    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
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
                io_uring_prep_poll_add(begin(loop, conn, AWAIT_WRITABLE),
                                       conn->base.client.socket, POLLOUT);
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

/*
 * Copies the bytes from the ring's buffer to the connection.  The bytes fit:
 * see begin_receive().  In two cases the operation has no bytes, but the socket
 * may have some: recv() reads them.  If all buffers were in use (ENOBUFS), the
 * next operation of this client might find no buffer, either.  If the client
 * timed out, its bytes may have come while the server was suspended (SIGSTOP).
 * With DEFER_TASKRUN, bytes complete an operation only inside io_uring_enter(),
 * and this operation was cancelled before.
 */
static void received(struct loop *loop, struct ring_conn *conn,
                     const char *bytes, ssize_t result) {
    struct connection *connection = &conn->base.connection;
    bool cancelled = result == -ECANCELED && conn->expired != TIMEOUT_NONE;
    size_t size;

    if (result > 0 || result == -ENOBUFS || cancelled) {
        char *room = connection_room(connection, &size);
        if (room == NULL)
            result = -ENOMEM;
        else if (result > 0)
            memcpy(room, bytes, (size_t)result);
        else if ((result = recv(conn->base.client.socket, room, size, 0)) < 0)
            result = -errno;
    }
    if (result == -ENOMEM)
        shortage_report("memory");
    if (result >= 0) {
        cached_time_set(&loop->evented.cached_time, time(NULL));
        connection_received(connection, (size_t)result);
    } else if (result != -EINTR && result != -EAGAIN) {
        connection_abandon(connection);
    }
    /* A stopping server cancels operations of idle connections before their
       timeout. */
    if (conn->expired != TIMEOUT_NONE &&
        connection_timeout(connection) == conn->expired &&
        (conn->base.deadline <= loop->evented.now ||
         connection_is_idle(connection)))
        connection_timed_out(connection);
}

static void operation_completed(struct loop *loop, struct ring_conn *conn,
                                enum operation operation, const char *bytes,
                                int result) {
    struct connection *connection = &conn->base.connection;
    bool stopped = operation == SEND && conn->expired != TIMEOUT_NONE;

    if (operation == RECEIVE) {
        received(loop, conn, bytes, result);
    } else if (result < 0 || stopped) {
        connection_abandon(connection);
    } else if (operation == SEND) {
        conn->base.progress.since = loop->evented.now;
        connection_sent(connection, (uint64_t)result);
    }
    conn->expired = TIMEOUT_NONE;
    drive(loop, conn);
}

/* ---- Accepting ---- */

/* A multishot operation accepts clients until it is cancelled, or until the
   completion queue is full.  Until then it may accept as many clients as that
   queue has entries. */
static bool may_use_multishot(const struct evented *evented) {
    return evented->count + COMPLETIONS < evented->limit;
}

static void begin_accept(struct loop *loop) {
    struct evented *evented = &loop->evented;
    struct io_uring_sqe *sqe =
        ring_get_sqe(&loop->ring, user_data_of(NULL, ACCEPT));
    int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

    loop->accepting = true;
    loop->multishot = may_use_multishot(evented);
    if (loop->multishot)
        io_uring_prep_multishot_accept(sqe, evented->server->listener, NULL,
                                       NULL, flags);
    else
        io_uring_prep_accept(sqe, evented->server->listener, NULL, NULL, flags);
}

/* Accepts a waiting client, if there is room. */
static bool accept_another(struct evented *evented, struct client *client) {
    if (!evented_may_accept(evented))
        return false;
    if (server_accept(evented->server, SOCK_NONBLOCK, client))
        return true;
    if (errno != EAGAIN) /* usually out of descriptors or memory */
        evented_pause_accepting(evented);
    return false;
}

/* An operation that is not multishot accepts only one client.  So further
   clients are accepted from the backlog with server_accept().  After a failed
   operation server_accept() is called, too: if descriptors or memory are
   exhausted, it fails as well, and accepting pauses. */
static void accepted(struct loop *loop, int result, bool more) {
    struct evented *evented = &loop->evented;
    struct client client;
    bool found = result >= 0 && evented->count < evented->limit;

    if (!more)
        loop->accepting = false;
    if (found)
        server_adopt(evented->server, result, &client);
    else if (result >= 0)
        close(result);
    else
        found = accept_another(evented, &client);
    for (int i = 1; found; i++) {
        drive(loop, (struct ring_conn *)evented_adopt(evented, &client));
        found = !loop->multishot && !loop->ends && i < ACCEPTS_AT_ONCE &&
                accept_another(evented, &client);
    }
}

/* ---- Redis ---- */

/* The loop's watch(): interest 0 means that the connection to Redis is
   closed. */
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

/* ---- Loop iterations ---- */

void completion_init(struct loop *loop, struct server *server) {
    *loop = (struct loop){.accepting = false};
    ring_init(&loop->ring);
    evented_init(&loop->evented, server, (struct event_loop){watch, loop},
                 sizeof(struct ring_conn));
    ring_redis_init(&loop->redis, &loop->ring, &loop->evented);
}

int completion_prepare_wait(struct loop *loop) {
    struct evented *evented = &loop->evented;
    bool wanted = !loop->ends && evented_may_accept(evented);

    if (wanted && !loop->accepting)
        begin_accept(loop);
    else if (loop->accepting &&
             (!wanted || (loop->multishot && !may_use_multishot(evented))))
        ring_cancel(&loop->ring, user_data_of(NULL, ACCEPT), 0);
    ring_redis_receive_late(&loop->redis);
    take_replies(loop);
    redis_pipeline_check(&evented->redis, evented->now);
    take_replies(loop);
    ring_redis_begin(&loop->redis);
    return evented_timeout(evented);
}

void completion_event(struct loop *loop, const struct io_uring_cqe *cqe) {
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

/* When the cancelled operation is complete, the client is disconnected, unless
   it has sent bytes meanwhile. */
static void cancel_operation(struct loop *loop, struct ring_conn *conn) {
    conn->expired = conn->base.awaited;
    evented_stop_waiting(&loop->evented, &conn->base);
    ring_cancel(&loop->ring, user_data_of(conn, conn->operation), 0);
}

/* Ends all connections when STOP_TIMEOUT is over.  A connection with an
   operation in flight is closed when this operation is complete. */
static void end_all(struct loop *loop) {
    loop->ends = true;
    redis_pipeline_close(&loop->evented.redis);
    take_replies(loop);
    ring_cancel(&loop->ring, 0,
                IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
}

/* Closes idle connections, unless a request has come meanwhile. */
static void close_idle(struct loop *loop) {
    struct event_conn *conn, *next;

    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (loop->evented.waiting[i], conn, next)
            if (connection_is_idle(&conn->connection))
                cancel_operation(loop, (struct ring_conn *)conn);
}

void completion_end_round(struct loop *loop) {
    struct event_conn *conn;

    while ((conn = evented_expired(&loop->evented)) != NULL)
        cancel_operation(loop, (struct ring_conn *)conn);
    evented_end_round(&loop->evented);
    if (server_is_stopping())
        close_idle(loop);
    if (!loop->ends && server_is_out_of_time())
        end_all(loop);
}

bool completion_keep_running(const struct loop *loop) {
    return !loop->evented.drained || loop->evented.count > 0 || loop->accepting;
}

void completion_free(struct loop *loop) {
    evented_free(&loop->evented);
    ring_free(&loop->ring);
}
