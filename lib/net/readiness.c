/* SPDX-License-Identifier: MIT */
#include "net/readiness.h"

#include "config.h"
#include "process/clock.h"

#include <errno.h>
#include <utlist.h>

void readiness_init(struct evented *evented, struct server *server,
                    struct event_loop loop) {
    evented_init(evented, server, loop, sizeof(struct event_conn));
    evented->listener = (struct event_source){.kind = SOURCE_LISTENER,
                                              .descriptor = server->listener};
}

/* ---- Connections ---- */

static void close_connection(struct evented *evented, struct event_conn *conn) {
    source_close(&evented->loop, &conn->source);
    evented_forget(evented, conn);
}

/* If memory is too short to watch the client, the connection is closed. */
static void wait_for(struct evented *evented, struct event_conn *conn,
                     unsigned interest) {
    evented_start_waiting(evented, conn);
    if (!source_watch(&evented->loop, &conn->source, interest))
        close_connection(evented, conn);
}

static void receive(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL) {
        shortage_report("memory");
        connection_abandon(connection);
        return;
    }
    ssize_t count = recv(conn->source.descriptor, room, size, 0);
    if (count >= 0) {
        /* A long loop iteration may have begun seconds ago. */
        cached_time_set(&evented->cached_time, time(NULL));
        connection_received(connection, (size_t)count);
    } else if (errno != EAGAIN && errno != EINTR) {
        connection_abandon(connection);
    }
}

/* Drives one connection until it must wait for the client or for Redis.  One
   call receives at most once, answers a few pipelined requests, and sends at
   most one piece of each file.  So no client can occupy the loop. */
static void drive(struct evented *evented, struct event_conn *conn,
                  bool readable) {
    struct connection *connection = &conn->connection;
    int sends = 0; /* of this response: the head, then a piece of the file */
    int done = 0;  /* exchanges */

    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
            if (!readable) {
                wait_for(evented, conn, READABLE);
                return;
            }
            readable = false;
            receive(evented, conn);
            break;
        case NEED_ASK_REDIS:
            if (evented_ask_redis(evented, conn))
                return;
            break;
        case NEED_KEEP:
            connection_keep(connection, evented_may_keep(evented));
            break;
        case NEED_SEND:
            if (sends++ == 2 || done == EXCHANGES_AT_ONCE ||
                !evented_send_some(evented, conn)) {
                wait_for(evented, conn, WRITABLE);
                return;
            }
            break;
        case NEED_DONE:
            evented_finish_exchange(evented, conn);
            sends = 0;
            done++;
            break;
        case NEED_CLOSE:
            close_connection(evented, conn);
            return;
        }
    }
}

/* ---- Accepting ---- */

static void accept_clients(struct evented *evented) {
    struct client client;

    for (int i = 0; i < ACCEPTS_AT_ONCE && evented_may_accept(evented); i++) {
        if (server_accept(evented->server, SOCK_NONBLOCK, &client)) {
            /* The request has often arrived already.  Then the loop need not
               watch this connection. */
            drive(evented, evented_adopt(evented, &client), true);
            continue;
        }
        if (errno != EAGAIN) /* usually out of descriptors or memory */
            evented_pause_accepting(evented);
        return;
    }
}

int readiness_prepare_wait(struct evented *evented) {
    unsigned interest = evented_may_accept(evented) ? READABLE : 0;

    if (!source_watch(&evented->loop, &evented->listener, interest))
        evented_pause_accepting(evented); /* the next call tries again */
    return evented_timeout(evented);
}

/* BROKEN needs no separate case: the next recv or send returns the error. */
static void client_ready(struct evented *evented, struct event_conn *conn,
                         unsigned readiness) {
    if (connection_need(&conn->connection) == NEED_ASK_REDIS)
        /* The client sent more, or has left; the send of the response will
           show which.  Until then the socket stays ready, so stop watching. */
        (void)source_watch(&evented->loop, &conn->source, 0);
    else
        drive(evented, conn, (readiness & (READABLE | BROKEN)) != 0);
}

/* ---- Redis ---- */

static void redis_ready(struct evented *evented, unsigned readiness) {
    struct redis_pipeline *redis = &evented->redis;
    struct event_conn *conn;

    if (readiness & WRITABLE)
        redis_pipeline_flush(redis, MSG_DONTWAIT, evented->now);
    if (readiness & (READABLE | BROKEN))
        redis_pipeline_fill(redis, MSG_DONTWAIT, evented->now);
    while ((conn = evented_take_reply(evented)) != NULL)
        drive(evented, conn, false);
}

/* ---- Loop iterations ---- */

void readiness_event(struct evented *evented, struct event_source *source,
                     unsigned readiness) {
    if (source->descriptor < 0)
        return;
    switch (source->kind) {
    case SOURCE_LISTENER:
        accept_clients(evented);
        break;
    case SOURCE_CLIENT:
        client_ready(evented, (struct event_conn *)source, readiness);
        break;
    case SOURCE_REDIS:
        redis_ready(evented, readiness);
    }
}

/* Receives once more before a client is disconnected: after a suspension
   (SIGSTOP) more sockets may be ready than one epoll_wait() returns. */
static void expire(struct evented *evented) {
    struct event_conn *conn;

    while ((conn = evented_expired(evented)) != NULL) {
        enum timeout awaited = conn->awaited;
        if (connection_need(&conn->connection) == NEED_RECEIVE)
            drive(evented, conn, true);
        if (conn->awaited == awaited && conn->deadline <= evented->now) {
            evented_stop_waiting(evented, conn);
            connection_timed_out(&conn->connection);
            drive(evented, conn, false);
        }
    }
}

/* Closes idle connections, unless a request has come meanwhile. */
static void close_idle(struct evented *evented) {
    struct event_conn *conn, *next;

    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], conn, next) {
            if (!connection_is_idle(&conn->connection))
                continue;
            drive(evented, conn, true);
            if (conn->source.descriptor >= 0 &&
                connection_is_idle(&conn->connection))
                close_connection(evented, conn);
        }
}

void readiness_end_round(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;

    if (server_is_stopping())
        close_idle(evented);
    expire(evented);
    if (redis_pipeline_deadline(redis) <= evented->now) /* look once more */
        redis_ready(evented, READABLE | WRITABLE);
    /* All commands of this iteration are sent in one write.  The clock is read
       again, so that a long iteration does not shorten Redis' timeout. */
    redis_pipeline_check(redis, evented->now);
    redis_pipeline_flush(redis, MSG_DONTWAIT, clock_milliseconds());
    if (redis->failing != NULL) /* these waiters get no reply */
        redis_ready(evented, 0);
    redis_pipeline_watch(redis);
    evented_end_round(evented);
}

bool readiness_keep_running(const struct evented *evented) {
    return (!evented->drained || evented->count > 0) &&
           !server_is_out_of_time();
}

void readiness_free(struct evented *evented) {
    struct event_conn *conn;

    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++)
        while (evented->waiting[i] != NULL)
            close_connection(evented, evented->waiting[i]);
    redis_pipeline_close(&evented->redis);
    while ((conn = evented_take_reply(evented)) != NULL)
        close_connection(evented, conn);
    evented_free(evented);
}
