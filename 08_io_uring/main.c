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
 * To see it: `strace -e trace=io_uring_enter ./io_uring`: one call hands over
 * many operations if many clients come at once.
 */
#include "config.h"
#include "net/evented.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#ifndef IORING_SETUP_DEFER_TASKRUN
#error it needs liburing 2.3 or newer (Debian 12: liburing-dev)
#endif

/* seccomp(2) sees one call, whatever the kernel is asked to do through the
   ring; ring_restrict() limits that. */
static const struct architecture architecture = {
    .name = "io_uring",
    .summary = "one process, one event loop (io_uring)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(io_uring_enter), CALL(madvise), CALL(getpeername),
              CALL(poll)}, /* at its end */
};

/* Operations that can be begun without a system call between them, and results
   that can wait.  More results than that would wait in the kernel's memory. */
#define SUBMISSIONS 4096
#define COMPLETIONS 8192
/* The buffers for what comes; a power of two.  If all are in use, a receive
   operation fails and is begun again. */
#define BUFFERS     256
#define BUFFER_SIZE 4096

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
#define IGNORED 0 /* no pointer: nobody needs this result */

struct ring_conn {
    struct event_conn base;   /* first: a pointer to it is one to all of this */
    enum operation operation; /* under way, or the last one */
    unsigned under_way;       /* operations that the kernel has not ended */
    bool ends;                /* its close is among them */
    enum timeout late;        /* its time for this was over: cancelled */
};

struct ring {
    struct io_uring uring;
    struct evented evented;
    struct io_uring_buf_ring *buffers; /* those that the kernel may take */
    char *memory;                      /* of all buffers */
    struct msghdr *messages;           /* by the index of the submission */
    struct iovec (*parts)[2];          /* the same */
    bool accepting;                    /* an accept operation is under way */
    bool many;                         /* and brings more than one client */
    /* The operations on the connection to Redis. */
    uint64_t number; /* of this connection: older ones have other numbers */
    bool receiving, sending, awaiting_room;
    bool has_room; /* as far as is known */
};

/* ---- Beginning an operation ---- */

/* Makes room for operations that belong together. */
static void make_room(struct ring *ring, unsigned operations) {
    while (io_uring_sq_space_left(&ring->uring) < operations)
        if (io_uring_submit(&ring->uring) < 0) {
            server_report_exhausted("memory");
            poll(NULL, 0, RETRY_DELAY);
        }
}

static struct io_uring_sqe *begin(struct ring *ring) {
    make_room(ring, 1);
    return io_uring_get_sqe(&ring->uring);
}

static uint64_t number_of(const void *pointer, enum operation operation) {
    return (uintptr_t)pointer | operation;
}

/* Its result comes back with the connection. */
static void belongs_to(struct io_uring_sqe *sqe, struct ring_conn *conn,
                       enum operation operation) {
    io_uring_sqe_set_data64(sqe, number_of(conn, operation));
    conn->under_way++;
}

static void is_ignored(struct io_uring_sqe *sqe) {
    io_uring_sqe_set_data64(sqe, IGNORED);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void cancel(struct ring *ring, uint64_t number) {
    struct io_uring_sqe *sqe = begin(ring);

    io_uring_prep_cancel64(sqe, number, 0);
    is_ignored(sqe);
}

/* Takes no more than connection_room() will have.  `flags`: of recv(2). */
static void begin_receive(struct ring *ring, struct ring_conn *conn,
                          int flags) {
    struct connection *connection = &conn->base.connection;
    size_t size = RECEIVE_SIZE;

    if (connection->input.capacity > 0 &&
        connection_room(connection, &size) == NULL)
        size = 1;
    evented_start_waiting(&ring->evented, &conn->base);
    struct io_uring_sqe *sqe = begin(ring);
    io_uring_prep_recv(sqe, conn->base.client.socket, NULL,
                       size < BUFFER_SIZE ? size : BUFFER_SIZE, flags);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    conn->operation = RECEIVE;
    belongs_to(sqe, conn, RECEIVE);
}

static void begin_close(struct ring *ring, struct ring_conn *conn) {
    struct io_uring_sqe *sqe = begin(ring);

    io_uring_prep_close(sqe, conn->base.client.socket);
    belongs_to(sqe, conn, CLOSE);
    conn->ends = true;
}

/* The message is read when the operation is handed over: until then the place
   in the queue is not used again. */
static void prepare_send(struct ring *ring, struct io_uring_sqe *sqe,
                         int socket, struct pending pending) {
    int flags = MSG_NOSIGNAL | MSG_WAITALL | (pending.last ? MSG_MORE : 0);

    if (pending.second.length == 0) {
        io_uring_prep_send(sqe, socket, pending.first.data,
                           pending.first.length, flags);
        return;
    }
    size_t place = (size_t)(sqe - ring->uring.sq.sqes);
    struct iovec *parts = ring->parts[place];
    parts[0] = (struct iovec){(void *)(uintptr_t)pending.first.data,
                              pending.first.length};
    parts[1] = (struct iovec){(void *)(uintptr_t)pending.second.data,
                              pending.second.length};
    ring->messages[place] = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
    io_uring_prep_sendmsg(sqe, socket, &ring->messages[place], (unsigned)flags);
}

/* The kernel sends all of it, however long the client takes (MSG_WAITALL).  If
   nothing follows, it then ends our side and closes the socket, without asking
   us again: three operations in a chain, whose last two follow even if the
   first fails. */
static void begin_send(struct ring *ring, struct ring_conn *conn,
                       struct pending pending) {
    int socket = conn->base.client.socket;

    evented_start_waiting(&ring->evented, &conn->base);
    make_room(ring, 3);
    struct io_uring_sqe *sqe = begin(ring);
    prepare_send(ring, sqe, socket, pending);
    conn->operation = SEND;
    belongs_to(sqe, conn, SEND);
    if (!pending.last || connection_lingers(&conn->base.connection))
        return;
    sqe->flags |= IOSQE_IO_HARDLINK;
    sqe = begin(ring);
    io_uring_prep_shutdown(sqe, socket, SHUT_WR);
    is_ignored(sqe);
    sqe->flags |= IOSQE_IO_HARDLINK;
    begin_close(ring, conn);
    conn->base.client.socket = -1; /* the kernel's from now on */
}

static void await_room(struct ring *ring, struct ring_conn *conn) {
    evented_start_waiting(&ring->evented, &conn->base);
    struct io_uring_sqe *sqe = begin(ring);
    io_uring_prep_poll_add(sqe, conn->base.client.socket, POLLOUT);
    conn->operation = AWAIT_ROOM;
    belongs_to(sqe, conn, AWAIT_ROOM);
}

/* ---- One connection ---- */

/* A file is sent as in 07.  The ring has no operation like sendfile(2): splice
   needs a pipe for each client, and the kernel gives it to a thread of its own.
   Returns false if the kernel has no room now. */
static bool send_file(struct ring *ring, struct ring_conn *conn,
                      struct pending pending) {
    struct connection *connection = &conn->base.connection;

    ssize_t count = transmit(conn->base.client.socket, pending);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count <= 0) { /* the client has left, or the file is shorter now */
        connection_abandon(connection);
        return true;
    }
    conn->base.progress.since = ring->evented.now;
    connection_sent(connection, (uint64_t)count);
    return true;
}

/* Drives one connection until an operation is under way for it, or until it
   waits for Redis. */
static void drive(struct ring *ring, struct ring_conn *conn) {
    struct connection *connection = &conn->base.connection;
    struct pending pending;
    int sends = 0; /* of files: the head, then a piece */

    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
            begin_receive(ring, conn, 0);
            return;
        case NEED_ASK_REDIS:
            if (evented_ask_redis(&ring->evented, &conn->base))
                return;
            break;
        case NEED_KEEP:
            connection_keep(connection, evented_may_keep(&ring->evented));
            break;
        case NEED_SEND:
            pending = connection_pending(connection);
            if (pending.descriptor < 0) {
                begin_send(ring, conn, pending);
                return;
            }
            if (sends++ == 2 || !send_file(ring, conn, pending)) {
                await_room(ring, conn);
                return;
            }
            break;
        case NEED_DONE:
            evented_finish_exchange(&ring->evented, &conn->base);
            break;
        case NEED_CLOSE:
            evented_stop_waiting(&ring->evented, &conn->base);
            if (!conn->ends)
                begin_close(ring, conn);
            return;
        }
    }
}

/* The kernel put bytes into one of the buffers.  They fit: begin_receive(). */
static void take_bytes(struct ring *ring, struct ring_conn *conn,
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
    cached_time_set(&ring->evented.cached_time, time(NULL));
    connection_received(connection, (size_t)count);
}

/* A client whose time was over gets one last look: its bytes may have come while
   the server was suspended (SIGSTOP).  Then the kernel had not gone on with this
   operation, and cancelled it nevertheless.  Returns false if the look has
   begun. */
static bool received(struct ring *ring, struct ring_conn *conn,
                     const char *bytes, int result) {
    struct connection *connection = &conn->base.connection;

    if (result == -ECANCELED && conn->late != TIMEOUT_NONE) {
        begin_receive(ring, conn, MSG_DONTWAIT);
        evented_stop_waiting(&ring->evented, &conn->base);
        return false;
    }
    if (result > 0)
        take_bytes(ring, conn, bytes, result);
    else if (result == 0)
        connection_received(connection, 0);
    else if (result != -ENOBUFS && result != -EINTR && result != -EAGAIN)
        connection_abandon(connection);
    if (conn->late != TIMEOUT_NONE &&
        connection_timeout(connection) == conn->late)
        connection_timed_out(connection);
    return true;
}

static void sent(struct ring *ring, struct ring_conn *conn, int result) {
    struct connection *connection = &conn->base.connection;

    if (result <= 0 || conn->late != TIMEOUT_NONE) {
        connection_abandon(connection);
        return;
    }
    conn->base.progress.since = ring->evented.now;
    connection_sent(connection, (uint64_t)result);
}

static void closed(struct ring *ring, struct ring_conn *conn) {
    if (conn->under_way == 0)
        evented_forget(&ring->evented, &conn->base);
}

/* An operation of a connection has come back. */
static void go_on(struct ring *ring, struct ring_conn *conn,
                  enum operation operation, const char *bytes, int result) {
    conn->under_way--;
    if (operation == RECEIVE && !received(ring, conn, bytes, result))
        return;
    if (operation == SEND)
        sent(ring, conn, result);
    else if (operation == AWAIT_ROOM && result < 0)
        connection_abandon(&conn->base.connection);
    conn->late = TIMEOUT_NONE;
    if (operation != CLOSE)
        drive(ring, conn);
    if (conn->ends)
        closed(ring, conn);
}

/* ---- Accepting ---- */

/* The kernel brings clients until it is told to stop, or until its queue of
   results is full: it may bring that many more than we want.  So near the limit
   each operation brings one. */
static void begin_accept(struct ring *ring) {
    struct evented *evented = &ring->evented;
    struct io_uring_sqe *sqe = begin(ring);
    int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

    ring->accepting = true;
    ring->many = evented->limit - evented->count > COMPLETIONS;
    if (ring->many)
        io_uring_prep_multishot_accept(sqe, evented->server->listener, NULL,
                                       NULL, flags);
    else
        io_uring_prep_accept(sqe, evented->server->listener, NULL, NULL, flags);
    io_uring_sqe_set_data64(sqe, number_of(NULL, ACCEPT));
}

static void prepare_accept(struct ring *ring) {
    struct evented *evented = &ring->evented;
    bool wanted = evented_reserve(evented);
    bool near = evented->limit - evented->count <= COMPLETIONS;

    if (wanted && !ring->accepting)
        begin_accept(ring);
    else if (ring->accepting && (!wanted || (ring->many && near)))
        cancel(ring, number_of(NULL, ACCEPT));
}

static void accepted(struct ring *ring, int result, bool more) {
    struct evented *evented = &ring->evented;
    struct client client;

    if (!more)
        ring->accepting = false;
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
    drive(ring, (struct ring_conn *)evented_adopt(evented, &client));
}

/* ---- Redis ---- */

/* Called when the connection to Redis is closed: what is still under way on it
   does not count any more. */
static bool watch(void *context, struct event_source *source,
                  unsigned interest) {
    struct ring *ring = context;

    (void)source;
    if (interest != 0)
        return true;
    if (ring->receiving)
        cancel(ring, ring->number | REDIS_RECEIVE);
    if (ring->awaiting_room)
        cancel(ring, ring->number | REDIS_AWAIT_ROOM);
    ring->number += OPERATIONS;
    ring->receiving = ring->sending = ring->awaiting_room = false;
    ring->has_room = false;
    return true;
}

/* Replies may come at any time: one operation receives them all. */
static void begin_redis_receive(struct ring *ring) {
    struct io_uring_sqe *sqe = begin(ring);

    io_uring_prep_recv_multishot(sqe, ring->evented.redis.source.descriptor,
                                 NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    io_uring_sqe_set_data64(sqe, ring->number | REDIS_RECEIVE);
    ring->receiving = true;
}

/* The kernel sends what it has room for when the operation is handed over, or
   fails (MSG_DONTWAIT).  So the commands lie still as long as it reads them. */
static void begin_redis_send(struct ring *ring, struct view commands) {
    struct io_uring_sqe *sqe = begin(ring);

    io_uring_prep_send(sqe, ring->evented.redis.source.descriptor,
                       commands.data, commands.length,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    io_uring_sqe_set_data64(sqe, ring->number | REDIS_SEND);
    ring->sending = true;
}

static void begin_redis_await_room(struct ring *ring) {
    struct io_uring_sqe *sqe = begin(ring);

    io_uring_prep_poll_add(sqe, ring->evented.redis.source.descriptor, POLLOUT);
    io_uring_sqe_set_data64(sqe, ring->number | REDIS_AWAIT_ROOM);
    ring->awaiting_room = true;
}

/* Takes the replies that are there. */
static void take_replies(struct ring *ring) {
    struct event_conn *conn;

    while ((conn = evented_take_reply(&ring->evented)) != NULL)
        drive(ring, (struct ring_conn *)conn);
}

/* The last that is done in a loop iteration: from here on no command is added,
   until the kernel has read those that are there. */
static void prepare_redis(struct ring *ring) {
    struct redis_pipeline *redis = &ring->evented.redis;

    /* Its reply may have come while the server was suspended. */
    bool works = redis_pipeline_deadline(redis) > ring->evented.now ||
                 !ring->receiving ||
                 redis_pipeline_fill(redis, ring->evented.now);
    take_replies(ring);
    if (!works || !redis_pipeline_check(redis, ring->evented.now)) {
        evented_fail_redis(&ring->evented);
        take_replies(ring);
    }
    if (redis->source.descriptor < 0)
        return;
    (void)source_watch(&ring->evented.loop, &redis->source, READABLE);
    struct view commands = redis_pipeline_unsent(redis);
    bool connects = redis->state == PIPELINE_CONNECTS;
    if (!ring->receiving && (!connects || ring->has_room))
        begin_redis_receive(ring);
    if (commands.length == 0 || ring->sending)
        return;
    if (ring->has_room)
        begin_redis_send(ring, commands);
    else if (!ring->awaiting_room)
        begin_redis_await_room(ring);
}

static bool take_from_redis(struct ring *ring, const char *bytes, int result) {
    struct redis_pipeline *redis = &ring->evented.redis;
    size_t size;

    if (result == -ENOBUFS || result == -ECANCELED)
        return true;
    if (result > 0) {
        char *room = redis_pipeline_room(redis, &size);
        if (room == NULL)
            result = -ENOMEM;
        else
            memcpy(room, bytes, (size_t)result);
    }
    return redis_pipeline_received(redis, result, ring->evented.now);
}

static void redis_done(struct ring *ring, uint64_t number, const char *bytes,
                       const struct io_uring_cqe *cqe) {
    enum operation operation = (enum operation)(number % OPERATIONS);
    struct redis_pipeline *redis = &ring->evented.redis;
    int64_t now = ring->evented.now;
    bool works = true;

    if (number - operation != ring->number)
        return; /* that connection is closed */
    if (operation == REDIS_RECEIVE) {
        ring->receiving = (cqe->flags & IORING_CQE_F_MORE) != 0;
        works = take_from_redis(ring, bytes, cqe->res);
    } else if (operation == REDIS_SEND) {
        ring->sending = false;
        ring->has_room = cqe->res >= 0;
        works = redis_pipeline_sent(redis, cqe->res, now);
    } else {
        ring->awaiting_room = false;
        ring->has_room = true; /* or the send operation will say why not */
    }
    if (!works)
        evented_fail_redis(&ring->evented);
    take_replies(ring);
}

/* ---- Rounds ---- */

/* Cancels what a client did not do in time.  It is disconnected when that has
   come back, as its last bytes may be on their way. */
static void be_late(struct ring *ring, struct ring_conn *conn) {
    conn->late = conn->base.awaited;
    evented_stop_waiting(&ring->evented, &conn->base);
    cancel(ring, number_of(conn, conn->operation));
}

static void complete(struct ring *ring, const struct io_uring_cqe *cqe) {
    uint64_t number = io_uring_cqe_get_data64(cqe);
    enum operation operation = (enum operation)(number % OPERATIONS);
    bool has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    unsigned short buffer =
        (unsigned short)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    char *bytes = ring->memory + (size_t)buffer * BUFFER_SIZE;

    if (number == IGNORED)
        return;
    if (operation == ACCEPT)
        accepted(ring, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0);
    else if (operation > ACCEPT)
        redis_done(ring, number, bytes, cqe);
    else
        go_on(ring, (struct ring_conn *)(uintptr_t)(number - operation),
              operation, bytes, cqe->res);
    if (has_buffer) { /* the kernel may take it again */
        io_uring_buf_ring_add(ring->buffers, bytes, BUFFER_SIZE, buffer,
                              io_uring_buf_ring_mask(BUFFERS), 0);
        io_uring_buf_ring_advance(ring->buffers, 1);
    }
}

/* Hands over what was begun, and sleeps until something is done.  Commands for
   Redis must lie still until the kernel has read them: so if it takes nothing
   now, for want of memory, this tries again. */
static void submit_and_wait(struct ring *ring) {
    int timeout = evented_timeout(&ring->evented);
    struct __kernel_timespec time = {.tv_sec = timeout / 1000,
                                     .tv_nsec = timeout % 1000 * 1000000L};
    struct io_uring_cqe *first;

    if (timeout < 0)
        (void)io_uring_submit_and_wait(&ring->uring, 1);
    else
        (void)io_uring_submit_and_wait_timeout(&ring->uring, &first, 1, &time,
                                               NULL);
    make_room(ring, SUBMISSIONS);
}

static void run_round(struct ring *ring) {
    struct event_conn *conn;
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    prepare_accept(ring);
    prepare_redis(ring);
    submit_and_wait(ring);
    evented_begin_round(&ring->evented);
    io_uring_for_each_cqe(&ring->uring, head, cqe) {
        complete(ring, cqe);
        count++;
    }
    io_uring_cq_advance(&ring->uring, count);
    while ((conn = evented_expired(&ring->evented)) != NULL)
        be_late(ring, (struct ring_conn *)conn);
    evented_end_round(&ring->evented);
}

/* Returns false when the server was stopped and all is done, or time is up. */
static bool keep_running(struct ring *ring) {
    struct evented *evented = &ring->evented;
    struct event_conn *conn, *next;

    if (!server_is_stopping())
        return true;
    /* Ends those that are idle, unless a request has come meanwhile. */
    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], conn, next)
            if (connection_is_idle(&conn->connection))
                be_late(ring, (struct ring_conn *)conn);
    return (server_keep_accepting() || evented->count > 0) &&
           !server_is_out_of_time();
}

/* ---- Start and end ---- */

__attribute__((noreturn)) static void give_up(int error) {
    const char *why = "allow it memory";

    if (error == ENOSYS || error == EINVAL)
        why = "it needs Linux 6.1 or newer; use another server";
    if (error == EPERM)
        why = "a container or the setting kernel.io_uring_disabled forbids it";
    server_fatal("cannot use io_uring: io_uring_setup(2) failed (%s); %s",
                 strerror(error), why);
}

/* Some versions of liburing lack the functions for this. */
static void ring_register(struct ring *ring, unsigned what, const void *list,
                          unsigned count) {
    if (syscall(SYS_io_uring_register, ring->uring.ring_fd, what, list, count) <
        0)
        give_up(errno);
}

/* The one system call io_uring_enter could do nearly everything that a process
   can do: open and write files, connect to anywhere.  seccomp(2) does not see
   that.  So the ring itself refuses all other operations, from now on. */
static void ring_restrict(struct ring *ring) {
    static const unsigned char operations[] = {
        IORING_OP_ACCEPT,   IORING_OP_RECV,        IORING_OP_SEND,
        IORING_OP_SENDMSG,  IORING_OP_CLOSE,       IORING_OP_SHUTDOWN,
        IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL};
    enum { COUNT = sizeof operations };
    struct io_uring_restriction restrictions[COUNT + 1];

    memset(restrictions, 0, sizeof restrictions);
    for (int i = 0; i < COUNT; i++) {
        restrictions[i].opcode = IORING_RESTRICTION_SQE_OP;
        restrictions[i].sqe_op = operations[i];
    }
    restrictions[COUNT].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    restrictions[COUNT].sqe_flags =
        IOSQE_BUFFER_SELECT | IOSQE_IO_HARDLINK | IOSQE_CQE_SKIP_SUCCESS;
    ring_register(ring, IORING_REGISTER_RESTRICTIONS, restrictions, COUNT + 1);
    ring_register(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

static void *take_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        give_up(errno);
    return memory;
}

static void provide_buffers(struct ring *ring) {
    size_t size = BUFFERS * sizeof(struct io_uring_buf);

    ring->buffers = take_memory(size);
    ring->memory = take_memory((size_t)BUFFERS * BUFFER_SIZE);
    struct io_uring_buf_reg registration = {
        .ring_addr = (uintptr_t)ring->buffers, .ring_entries = BUFFERS};
    int result = io_uring_register_buf_ring(&ring->uring, &registration, 0);
    if (result < 0)
        give_up(-result);
    io_uring_buf_ring_init(ring->buffers);
    for (int i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(ring->buffers, ring->memory + i * BUFFER_SIZE,
                              BUFFER_SIZE, (unsigned short)i,
                              io_uring_buf_ring_mask(BUFFERS), i);
    io_uring_buf_ring_advance(ring->buffers, BUFFERS);
}

/* SINGLE_ISSUER and DEFER_TASKRUN (since Linux 6.0 and 6.1): only this thread
   uses the ring, and the kernel goes on with what is under way only while the
   thread is in io_uring_enter(), and does not interrupt it elsewhere. */
static void ring_init(struct ring *ring, struct server *server) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                 IORING_SETUP_R_DISABLED,
        .cq_entries = COMPLETIONS};

    *ring = (struct ring){.number = OPERATIONS};
    int result = io_uring_queue_init_params(SUBMISSIONS, &ring->uring, &params);
    if (result < 0)
        give_up(-result);
    ring->messages = take_memory(SUBMISSIONS * sizeof ring->messages[0]);
    ring->parts = take_memory(SUBMISSIONS * sizeof ring->parts[0]);
    provide_buffers(ring);
    ring_restrict(ring);
    evented_init(&ring->evented, server, (struct event_loop){watch, ring},
                 sizeof(struct ring_conn));
}

/* Everything that is under way comes back before its memory is freed. */
static void ring_free(struct ring *ring) {
    struct evented *evented = &ring->evented;
    struct event_conn *conn;

    while ((conn = evented->first_waiter) != NULL) {
        evented->first_waiter = conn->next_waiter;
        connection_abandon(&conn->connection);
        drive(ring, (struct ring_conn *)conn);
    }
    struct io_uring_sqe *sqe = begin(ring);
    io_uring_prep_cancel64(sqe, 0,
                           IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
    is_ignored(sqe);
    while (evented->count > 0 || ring->accepting) {
        submit_and_wait(ring);
        struct io_uring_cqe *cqe;
        while (io_uring_peek_cqe(&ring->uring, &cqe) == 0) {
            complete(ring, cqe);
            io_uring_cqe_seen(&ring->uring, cqe);
        }
    }
    evented_free(evented);
    io_uring_queue_exit(&ring->uring);
    munmap(ring->memory, (size_t)BUFFERS * BUFFER_SIZE);
    munmap(ring->buffers, BUFFERS * sizeof(struct io_uring_buf));
    munmap(ring->messages, SUBMISSIONS * sizeof ring->messages[0]);
    munmap(ring->parts, SUBMISSIONS * sizeof ring->parts[0]);
}

int main(int argc, char **argv) {
    struct server server;
    struct ring ring;

    server_start(&server, &architecture, argc, argv);
    ring_init(&ring, &server);

    server_ready(&server);
    while (keep_running(&ring))
        run_round(&ring);

    ring_free(&ring);
    return server_end(&server);
}
