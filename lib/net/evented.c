/* SPDX-License-Identifier: MIT */
#include "net/evented.h"

#include "config.h"
#include "process/clock.h"

#include <errno.h>
#include <unistd.h>
#include <utlist.h>

void evented_init(struct evented *evented, struct server *server,
                  struct event_loop loop) {
    *evented = (struct evented){.server = server, .loop = loop};
    slab_init(&evented->memory, sizeof(struct event_conn), CONNECTIONS_AT_ONCE);
    redis_pipeline_init(&evented->redis, &server->redis, &evented->loop);
    server_accept_without_waiting(server);
    evented->listener = (struct event_source){.kind = SOURCE_LISTENER,
                                              .descriptor = server->listener};
    /* Each client may be receiving a different large file: one descriptor more
       for each.  Loops in several processes share the memory. */
    evented->limit = server_room_in_memory(
        server_room_for_clients(OPEN_FILES, 1), CONNECTION_MEMORY,
        CONNECTION_MEMORY * server->options.workers);
    evented->trim_at = INT64_MAX;
    evented_begin_round(evented);
}

/* ---- Time ---- */

static void stop_waiting(struct evented *evented, struct event_conn *conn) {
    if (conn->awaited == TIMEOUT_NONE)
        return;
    DL_DELETE(evented->waiting[conn->awaited], conn); /* NOLINT */
    conn->awaited = TIMEOUT_NONE;
}

/* Sets the client's deadline.  An existing deadline stays, except while we
   send: then each check sets it anew. */
static void start_waiting(struct evented *evented, struct event_conn *conn) {
    enum timeout awaited = connection_timeout(&conn->connection);

    if (awaited == conn->awaited && awaited != TIMEOUT_SEND)
        return;
    stop_waiting(evented, conn);
    if (awaited == TIMEOUT_NONE)
        return;
    conn->awaited = awaited;
    conn->deadline =
        evented->now + options_time(&evented->server->options,
                                    awaited == TIMEOUT_SEND
                                        ? SEND_LOOK
                                        : timeout_milliseconds(awaited));
    DL_APPEND(evented->waiting[awaited], conn);
}

/* Returns how long the loop may sleep, in milliseconds; -1: until something
   happens. */
static int timeout_of(const struct evented *evented) {
    int64_t earliest = redis_pipeline_deadline(&evented->redis);

    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++)
        if (evented->waiting[i] != NULL &&
            evented->waiting[i]->deadline < earliest)
            earliest = evented->waiting[i]->deadline;
    if (evented->paused_till > evented->now && evented->paused_till < earliest)
        earliest = evented->paused_till;
    if (evented->trim_at < earliest)
        earliest = evented->trim_at;
    if (earliest == INT64_MAX)
        return -1;
    return earliest > evented->now ? (int)(earliest - evented->now) : 0;
}

/* ---- Connections ---- */

/* Its memory stays until the loop iteration ends, because another event of this
   iteration may still point to it. */
static void close_connection(struct evented *evented, struct event_conn *conn) {
    stop_waiting(evented, conn);
    source_close(&evented->loop, &conn->source);
    connection_free(&conn->connection);
    evented->count--;
    DL_APPEND(evented->closed, conn);
}

/* Returns false if Redis is unavailable: then the response reports it. */
static bool ask_redis(struct evented *evented, struct event_conn *conn) {
    if (!redis_pipeline_append(&evented->redis,
                               exchange_command(&conn->connection.exchange),
                               evented->now)) {
        connection_replied(&conn->connection, NULL);
        return false;
    }
    stop_waiting(evented, conn);
    conn->next_waiter = NULL;
    if (evented->first_waiter == NULL)
        evented->first_waiter = conn;
    else
        evented->last_waiter->next_waiter = conn;
    evented->last_waiter = conn;
    return true;
}

/* Watches the client.  If memory is too short for that, the connection is
   closed, because no event would ever continue it. */
static void wait_for(struct evented *evented, struct event_conn *conn,
                     unsigned interest) {
    start_waiting(evented, conn);
    if (!source_watch(&evented->loop, &conn->source, interest))
        close_connection(evented, conn);
}

static bool would_wait(void) {
    return errno == EAGAIN || errno == EINTR;
}

static void receive(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL) {
        server_report_exhausted("memory");
        connection_abandon(connection);
        return;
    }
    ssize_t count = recv(conn->source.descriptor, room, size, 0);
    if (count >= 0) {
        /* A long round may have begun seconds ago. */
        cached_time_set(&evented->cached_time, time(NULL));
        connection_received(connection, (size_t)count);
    } else if (!would_wait()) {
        connection_abandon(connection);
    }
}

/* Returns false if the kernel has no room now. */
static bool send_some(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;

    ssize_t count =
        transmit(conn->source.descriptor, connection_pending(connection));
    if (count < 0 && would_wait())
        return false;
    if (count <= 0) { /* the client has left, or the file is shorter now */
        connection_abandon(connection);
        return true;
    }
    conn->progress.since = evented->now;
    connection_sent(connection, (uint64_t)count);
    return true;
}

/* A client that takes the last slot is not kept alive, because otherwise the
   first clients could keep out all others. */
static bool may_keep(const struct evented *evented) {
    return !server_is_stopping() && !server_is_under_pressure() &&
           evented->count < evented->limit;
}

static void finish_exchange(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;

    server_exchange_done(evented->server, evented->server->counters,
                         &conn->client, connection);
    evented->trim.exchanges++;
    stop_waiting(evented, conn); /* the next exchange has its own time */
    connection_next(connection);
}

/* Drives one connection until it must wait: for the client, which the loop then
   watches, or for Redis, in the queue.  It receives once at most, and only if
   the client may be readable, sends one piece of a file, and answers a few
   pipelined requests, so that no client can occupy the loop. */
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
            if (ask_redis(evented, conn))
                return;
            break;
        case NEED_KEEP:
            connection_keep(connection, may_keep(evented));
            break;
        case NEED_SEND:
            if (sends++ == 2 || done == EXCHANGES_AT_ONCE ||
                !send_some(evented, conn)) {
                wait_for(evented, conn, WRITABLE);
                return;
            }
            break;
        case NEED_DONE:
            finish_exchange(evented, conn);
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

/* No client is accepted for a RETRY_DELAY, because something has run out. */
static void pause_accepting(struct evented *evented) {
    evented->paused_till = evented->now + RETRY_DELAY;
}

/* Reserves memory for one more connection.  Returns false if none may be
   accepted now.  Memory is allocated before the client is accepted: if there is
   none, the client stays in the backlog. */
static bool reserve_room(struct evented *evented) {
    if (evented->count >= evented->limit ||
        evented->now < evented->paused_till || !server_keep_accepting())
        return false;
    if (evented->next == NULL)
        evented->next = slab_take(&evented->memory);
    if (evented->next == NULL) {
        server_report_exhausted("memory");
        pause_accepting(evented);
    }
    return evented->next != NULL;
}

/* Takes the connection over, and serves it as far as it goes without waiting.
 */
static void adopt(struct evented *evented, const struct client *client) {
    struct event_conn *conn = evented->next;

    evented->next = NULL;
    conn->source = (struct event_source){.kind = SOURCE_CLIENT,
                                         .descriptor = client->socket};
    conn->client = *client;
    connection_init(&conn->connection, &evented->server->app,
                    &evented->cached_time,
                    evented->server->architecture->requests_per_connection);
    evented->count++;
    cached_time_next_round(
        &evented->cached_time); /* its request may be newer */
    /* Often the request is there already: then the loop need not watch this
       connection at all. */
    drive(evented, conn, true);
}

/* Accepts a limited number at once, because other clients wait meanwhile. */
static void accept_clients(struct evented *evented) {
    struct client client;

    for (int i = 0; i < ACCEPTS_AT_ONCE && reserve_room(evented); i++) {
        if (server_accept(evented->server, SOCK_NONBLOCK, &client)) {
            adopt(evented, &client);
            continue;
        }
        if (errno != EAGAIN) /* out of descriptors or memory */
            pause_accepting(evented);
        return;
    }
}

int evented_prepare_wait(struct evented *evented) {
    unsigned interest = reserve_room(evented) ? READABLE : 0;

    if (!source_watch(&evented->loop, &evented->listener, interest))
        pause_accepting(evented); /* and then again */
    return timeout_of(evented);
}

/* BROKEN needs no case of its own: the next recv or send returns the error. */
static void client_ready(struct evented *evented, struct event_conn *conn,
                         unsigned readiness) {
    if (connection_need(&conn->connection) == NEED_ASK_REDIS)
        /* The client sends more, or has left.  Sending its response will show
           which.  From now on it is watched for nothing, because otherwise each
           loop iteration would report it. */
        (void)source_watch(&evented->loop, &conn->source, 0);
    else
        drive(evented, conn, (readiness & (READABLE | BROKEN)) != 0);
}

/* ---- Redis ---- */

static struct event_conn *next_waiter(struct evented *evented) {
    struct event_conn *conn = evented->first_waiter;
    evented->first_waiter = conn->next_waiter;
    return conn;
}

/* Gives the reply, or NULL, to the first connection in the queue. */
static void give_reply(struct evented *evented,
                       const struct resp_reply *reply) {
    struct event_conn *conn = next_waiter(evented);

    cached_time_set(&evented->cached_time, time(NULL));
    connection_replied(&conn->connection, reply);
    drive(evented, conn, false);
}

/* The first in the queue gets this reply, or NULL; the others get NULL.  If a
   client asks again at once, it joins the end: the loop stops at the connection
   that is last now. */
static void fail_redis(struct evented *evented,
                       const struct resp_reply *reply) {
    struct event_conn *last = evented->last_waiter;

    if (evented->first_waiter == NULL)
        return;
    for (bool more = true; more; reply = NULL) {
        more = evented->first_waiter != last;
        give_reply(evented, reply);
    }
}

/* Takes one reply, if one is there: 1, 0 or -1, as redis_pipeline_next().  A
   reply of a wrong type may belong to another command, and so may all after it:
   the connection is closed.  Only the type of the reply is used after that. */
static int take_reply(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;
    struct resp_reply reply;

    int result = redis_pipeline_next(redis, &reply, evented->now);
    if (result <= 0)
        return result;
    if (!exchange_accepts(&evented->first_waiter->connection.exchange,
                          &reply)) {
        redis_report_nonsense(&evented->server->redis, &reply);
        if (reply.type != RESP_ERROR) {
            redis_pipeline_close(redis);
            fail_redis(evented, &reply);
            return 0;
        }
    }
    give_reply(evented, &reply);
    return 1;
}

static void redis_ready(struct evented *evented, unsigned readiness) {
    struct redis_pipeline *redis = &evented->redis;
    bool works = true;
    int result = 1;

    if (readiness & WRITABLE)
        works = redis_pipeline_flush(redis, evented->now);
    if (works && readiness & (READABLE | BROKEN) &&
        redis->source.descriptor >= 0)
        works = redis_pipeline_fill(redis, evented->now);
    while (works && result > 0)
        result = take_reply(evented);
    if (!works || result < 0)
        fail_redis(evented, NULL);
}

/* ---- Rounds ---- */

void evented_ready(struct evented *evented, struct event_source *source,
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

void evented_begin_round(struct evented *evented) {
    evented->now = clock_milliseconds();
    cached_time_next_round(&evented->cached_time);
    cached_time_set(&evented->cached_time, time(NULL));
}

/* While the response is sent, a client has time as long as it takes bytes. */
static bool has_time(const struct evented *evented, struct event_conn *conn) {
    return connection_timeout(&conn->connection) == TIMEOUT_SEND &&
           transmit_stalled(conn->source.descriptor, &conn->progress,
                            evented->now) <
               options_time(&evented->server->options, SEND_TIMEOUT);
}

/* Before a client is disconnected, the server checks once more whether it has
   sent something.  After the server was suspended (SIGSTOP), more sockets may
   be ready than one epoll_wait() returns, and this may be one of the others. */
static void expire(struct evented *evented) {
    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++) {
        struct event_conn *conn;
        while ((conn = evented->waiting[i]) != NULL &&
               conn->deadline <= evented->now) {
            if (has_time(evented, conn)) {
                start_waiting(evented, conn);
                continue;
            }
            if (connection_need(&conn->connection) == NEED_RECEIVE)
                drive(evented, conn, true);
            if (evented->waiting[i] == conn && conn->deadline <= evented->now) {
                stop_waiting(evented, conn);
                connection_timed_out(&conn->connection);
                drive(evented, conn, false);
            }
        }
    }
}

static void free_closed(struct evented *evented) {
    struct event_conn *conn, *next;

    DL_FOREACH_SAFE (evented->closed, conn, next)
        slab_give_back(&evented->memory, conn);
    evented->closed = NULL;
}

void evented_end_round(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;

    expire(evented);
    if (redis_pipeline_deadline(redis) <= evented->now) /* look once more */
        redis_ready(evented, READABLE | WRITABLE);
    /* All commands of this iteration leave in one write.  The time is read
       anew, so that a long iteration does not count against Redis' time. */
    if (!redis_pipeline_check(redis, evented->now) ||
        !redis_pipeline_flush(redis, clock_milliseconds()))
        fail_redis(evented, NULL);
    redis_pipeline_watch(redis);
    free_closed(evented);
    evented->trim_at = memory_trim(&evented->trim,
                                   evented->first_waiter != NULL, evented->now);
}

bool evented_keep_running(struct evented *evented) {
    struct event_conn *conn, *next;

    if (!server_is_stopping())
        return true;
    /* Closes those that are idle, unless a request has come meanwhile. */
    for (int i = TIMEOUT_IDLE; i <= TIMEOUT_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], conn, next) {
            if (!connection_is_idle(&conn->connection))
                continue;
            drive(evented, conn, true);
            if (conn->source.descriptor >= 0 &&
                connection_is_idle(&conn->connection))
                close_connection(evented, conn);
        }
    return (server_keep_accepting() || evented->count > 0) &&
           !server_is_out_of_time();
}

void evented_free(struct evented *evented) {
    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++)
        while (evented->waiting[i] != NULL)
            close_connection(evented, evented->waiting[i]);
    while (evented->first_waiter != NULL)
        close_connection(evented, next_waiter(evented));
    free_closed(evented);
    if (evented->next != NULL)
        slab_give_back(&evented->memory, evented->next);
    slab_free(&evented->memory);
    redis_pipeline_close(&evented->redis);
}
