/* SPDX-License-Identifier: MIT */
#include "net/blocking.h"

#include "config.h"
#include "net/transmit.h"
#include "process/clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection while it is served. */
struct blocking_conn {
    struct worker *worker;
    const struct client *client;
    struct connection connection;
    /*
     *     NEW --no bytes--> SILENT --others wait, or time is over--> closed
     *      |                  |
     *      +-----bytes--------+--> STARTED
     */
    enum { CLIENT_NEW, CLIENT_SILENT, CLIENT_STARTED } phase;
    enum timeout awaited;     /* the timeout that runs now */
    int64_t deadline;         /* the end of this timeout */
    int timeout;              /* the socket's receive timeout, milliseconds */
    struct progress progress; /* of the response */
};

static bool may_keep(const struct worker *worker) {
    return !server_is_stopping() && !shortage_is_recent() &&
           !worker->others_wait(worker);
}

/* Sets the timeout of the next recv.  A whole request has one deadline, even if
   it comes in many pieces.  Returns false if the deadline has passed. */
static bool set_timeout(struct blocking_conn *conn) {
    const struct server *server = conn->worker->server;
    enum timeout awaited = connection_timeout(&conn->connection);
    int64_t now = clock_milliseconds();

    if (awaited != conn->awaited) {
        conn->awaited = awaited;
        conn->deadline =
            now + options_time(&server->options, timeout_milliseconds(awaited));
    }
    int wanted = (int)(conn->deadline - now);
    if (conn->phase == CLIENT_SILENT)
        wanted = MIN(wanted, options_time(&server->options, FIRST_TIMEOUT));
    if (wanted <= 0 || wanted == conn->timeout)
        return wanted > 0;
    struct timeval time = timeval_of(wanted);
    if (setsockopt(conn->client->socket, SOL_SOCKET, SO_RCVTIMEO, &time,
                   sizeof time) == 0)
        conn->timeout = wanted;
    return true;
}

/*
 * Returns true if the kernel has waited long enough for the client's first
 * byte.  A new connection may have no bytes for two reasons.
 *
 * 1. The time of TCP_DEFER_ACCEPT is over, or the request was lost on a slow
 *    line.  Then the kernel has repeated its SYN-ACK.
 * 2. The connection came with a SYN cookie, so the kernel could not defer it.
 *    Then its request may still come, unless the connection was in the
 *    backlog for FIRST_TIMEOUT or longer.
 */
static bool kernel_has_waited(const struct server *server, int socket) {
    struct tcp_info info;
    socklen_t length = sizeof info;

    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           (info.tcpi_total_retrans > 0 ||
            info.tcpi_last_ack_recv >=
                (unsigned)options_time(&server->options, FIRST_TIMEOUT));
}

/* A new connection without any bytes may occupy this worker until the request's
   timeout.  The worker checks every FIRST_TIMEOUT if other clients wait. */
static bool may_be_silent(const struct blocking_conn *conn) {
    const struct worker *worker = conn->worker;
    bool is_needed = !worker->silent_may_stay && worker->others_wait(worker);

    if (server_is_stopping())
        return false;
    if (conn->phase == CLIENT_NEW)
        return !is_needed ||
               !kernel_has_waited(worker->server, conn->client->socket);
    return clock_milliseconds() < conn->deadline && !is_needed;
}

/* The first recv of a connection need not sleep: bytes should have arrived.  A
   stopping server waits for the rest of a request, but not for a new one. */
static bool may_sleep(const struct blocking_conn *conn) {
    if (conn->phase == CLIENT_NEW)
        return false;
    return !server_is_stopping() || !connection_is_idle(&conn->connection);
}

/* Called if recv() returns EAGAIN: at its timeout, or with MSG_DONTWAIT. */
static void no_bytes_arrived(struct blocking_conn *conn) {
    if (conn->phase == CLIENT_STARTED)
        connection_timed_out(&conn->connection);
    else if (may_be_silent(conn))
        conn->phase = CLIENT_SILENT;
    else
        connection_abandon(&conn->connection);
}

/* `late`: the client's timeout had passed before this read.  The bytes may have
   arrived while the server was suspended (SIGSTOP). */
static void bytes_arrived(struct blocking_conn *conn, bool late) {
    struct connection *connection = &conn->connection;

    if (late && conn->phase == CLIENT_STARTED &&
        connection_timeout(connection) == conn->awaited)
        connection_timed_out(connection);
    if (conn->phase != CLIENT_STARTED) /* the time for a request begins now */
        conn->awaited = TIMEOUT_NONE;
    conn->phase = CLIENT_STARTED;
}

static void receive(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    bool sleeps = may_sleep(conn);
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL)
        shortage_report("memory");
    if (room == NULL || server_is_out_of_time()) {
        connection_abandon(connection);
        return;
    }
    bool late = sleeps && !set_timeout(conn);
    ssize_t count = recv(conn->client->socket, room, size,
                         sleeps && !late ? 0 : MSG_DONTWAIT);
    cached_time_set(&conn->worker->cached_time, time(NULL));
    if (count >= 0) {
        connection_received(connection, (size_t)count);
        bytes_arrived(conn, late);
    } else if (errno == EAGAIN) {
        no_bytes_arrived(conn);
    } else if (errno != EINTR || server_is_out_of_time()) {
        connection_abandon(connection);
    } else { /* woken by a signal: perhaps to close a connection to Redis */
        redis_pool_close_idle(&conn->worker->server->redis_pool);
        (void)server_shut_if_drained();
    }
}

static void ask_once(struct blocking_conn *conn, struct redis_client **redis) {
    struct connection *connection = &conn->connection;
    struct redis_pool *pool = &conn->worker->server->redis_pool;
    struct resp_reply reply;

    bool called = redis_pool_call(
        pool, redis, exchange_command(&connection->exchange), &reply);
    cached_time_set(&conn->worker->cached_time, time(NULL));
    bool fits = connection_replied(connection, called ? &reply : NULL);
    if (called && !fits) {
        redis_report_unexpected(pool->server, &reply);
        if (reply.type != RESP_ERROR)
            redis_client_close(*redis);
    }
}

/* Returns the Redis connection before it sends: a client may be slow. */
static void ask_redis(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    struct redis_pool *pool = &conn->worker->server->redis_pool;
    struct redis_client *redis = redis_pool_borrow(pool);

    if (redis == NULL) {
        connection_replied(connection, NULL);
        return;
    }
    if (exchange_changes_data(&connection->exchange))
        redis_client_check_before_use(redis);
    while (connection_need(connection) == NEED_ASK_REDIS)
        ask_once(conn, &redis);
    redis_pool_return(pool, redis);
}

/* Returns false if the client has acknowledged no byte for SEND_TIMEOUT.  The
   call of send() has slept SEND_CHECK_INTERVAL at most (SO_SNDTIMEO). */
static bool check_progress(struct blocking_conn *conn, ssize_t count,
                           int64_t begun) {
    const struct options *options = &conn->worker->server->options;
    int64_t now = clock_milliseconds();

    if (count > 0 && now - begun < options_time(options, SEND_CHECK_INTERVAL)) {
        conn->progress.since = now;
        return true;
    }
    return transmit_stalled(conn->client->socket, &conn->progress, now) <
           options_time(options, SEND_TIMEOUT);
}

/* After a short write the rest is still pending: the need stays NEED_SEND. */
static void send_some(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    int64_t begun = clock_milliseconds();

    if (server_is_out_of_time()) {
        connection_abandon(connection);
        return;
    }
    ssize_t count =
        transmit(conn->client->socket, connection_pending(connection));
    if (count < 0 && errno == EINTR) {
        (void)server_shut_if_drained();
        return;
    }
    if (count == 0 || (count < 0 && errno != EAGAIN) ||
        !check_progress(conn, count, begun))
        connection_abandon(connection);
    else if (count > 0)
        connection_sent(connection, (uint64_t)count);
}

void blocking_serve(struct worker *worker, const struct client *client) {
    struct blocking_conn conn = {
        .worker = worker,
        .client = client,
        .timeout = options_time(&worker->server->options, REQUEST_TIMEOUT)};
    struct connection *connection = &conn.connection;
    enum connection_need need;

    connection_init(connection, &worker->server->app, &worker->cached_time,
                    worker->server->architecture->requests_per_connection);
    while ((need = connection_need(connection)) != NEED_CLOSE) {
        switch (need) {
        case NEED_RECEIVE:
            receive(&conn);
            break;
        case NEED_ASK_REDIS:
            ask_redis(&conn);
            break;
        case NEED_KEEP:
            connection_keep(connection, may_keep(worker));
            break;
        case NEED_SEND:
            send_some(&conn);
            break;
        case NEED_DONE:
            server_exchange_done(worker->server, worker->counters, client,
                                 connection);
            conn.awaited = TIMEOUT_NONE; /* a new exchange has a new timeout */
            connection_next(connection);
            break;
        case NEED_CLOSE:
            break;
        }
    }
    connection_free(connection);
    close(client->socket);
}

bool blocking_accept(struct server *server, struct client *client) {
    if (server_accept(server, 0, client))
        return true;
    redis_pool_close_idle(&server->redis_pool);
    return false;
}
