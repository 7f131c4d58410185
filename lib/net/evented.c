/* SPDX-License-Identifier: MIT */
#include "net/evented.h"

#include "config.h"
#include "process/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <utlist.h>

/* The address sanitizer reports code that uses a closed connection. */
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   (void)(start)
#define ASAN_UNPOISON_MEMORY_REGION(start, size) (void)(start)
#endif

void evented_init(struct evented *evented, struct server *server,
                  struct event_loop loop, size_t size) {
    *evented = (struct evented){.server = server, .loop = loop};
    redis_pipeline_init(&evented->redis, &server->redis, &evented->loop);
    server_make_listener_nonblocking(server);
    /* OPEN_FILES clients may each receive a different large file.  Loops in
       several processes share the memory. */
    evented->limit =
        limit_by_memory(limit_by_descriptors(OPEN_FILES, 1), CONNECTION_MEMORY,
                        CONNECTION_MEMORY * server->options.workers);
    evented->size = size;
    evented->memory = calloc(evented->limit, size);
    if (evented->memory == NULL)
        server_fatal("no memory for %zu connections; allow fewer descriptors",
                     evented->limit);
    evented->trim_at = INT64_MAX;
    evented_begin_round(evented);
}

void evented_begin_round(struct evented *evented) {
    evented->now = clock_milliseconds();
    cached_time_next_round(&evented->cached_time);
    cached_time_set(&evented->cached_time, time(NULL));
}

void evented_end_round(struct evented *evented) {
    evented->drained = server_shut_if_drained();
    evented->trim_at = memory_trim(
        &evented->exchanges, evented->redis.waiters != NULL, evented->now);
}

void evented_free(struct evented *evented) {
    free(evented->memory);
    redis_pipeline_close(&evented->redis);
}

/* ---- Time ---- */

void evented_stop_waiting(struct evented *evented, struct event_conn *conn) {
    if (conn->awaited == TIMEOUT_NONE)
        return;
    DL_DELETE(evented->waiting[conn->awaited], conn); /* NOLINT */
    conn->awaited = TIMEOUT_NONE;
}

void evented_start_waiting(struct evented *evented, struct event_conn *conn) {
    enum timeout awaited = connection_timeout(&conn->connection);

    if (awaited == conn->awaited && awaited != TIMEOUT_SEND)
        return;
    evented_stop_waiting(evented, conn);
    if (awaited == TIMEOUT_NONE)
        return;
    conn->awaited = awaited;
    conn->deadline =
        evented->now + options_time(&evented->server->options,
                                    awaited == TIMEOUT_SEND
                                        ? SEND_CHECK_INTERVAL
                                        : timeout_milliseconds(awaited));
    DL_APPEND(evented->waiting[awaited], conn);
}

int evented_timeout(const struct evented *evented) {
    int64_t earliest = redis_pipeline_deadline(&evented->redis);

    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++)
        if (evented->waiting[i] != NULL)
            earliest = MIN(earliest, evented->waiting[i]->deadline);
    if (evented->paused_until > evented->now)
        earliest = MIN(earliest, evented->paused_until);
    earliest = MIN(earliest, evented->trim_at);
    if (earliest == INT64_MAX)
        return -1;
    return earliest > evented->now ? (int)(earliest - evented->now) : 0;
}

/* Has the client acknowledged bytes of its response within SEND_TIMEOUT? */
static bool check_progress(const struct evented *evented,
                           struct event_conn *conn) {
    return connection_timeout(&conn->connection) == TIMEOUT_SEND &&
           transmit_stalled(conn->client.socket, &conn->progress,
                            evented->now) <
               options_time(&evented->server->options, SEND_TIMEOUT);
}

struct event_conn *evented_expired(struct evented *evented) {
    struct event_conn *conn;

    for (int i = TIMEOUT_NONE + 1; i < TIMEOUTS; i++)
        while ((conn = evented->waiting[i]) != NULL &&
               conn->deadline <= evented->now) {
            if (!check_progress(evented, conn))
                return conn;
            evented_start_waiting(evented, conn);
        }
    return NULL;
}

/* ---- Connections ---- */

void evented_pause_accepting(struct evented *evented) {
    evented->paused_until = evented->now + RETRY_DELAY;
}

bool evented_may_accept(const struct evented *evented) {
    return evented->count < evented->limit &&
           evented->now >= evented->paused_until && !evented->drained;
}

/* Returns memory for a connection, all zero: the slot that became free last,
   because its memory may still be in the processor's cache, or a new slot. */
static struct event_conn *take_slot(struct evented *evented) {
    struct event_conn *conn = evented->unused;

    assert(evented->count < evented->limit);
    if (conn == NULL)
        return (void *)(evented->memory + evented->touched++ * evented->size);
    LL_DELETE(evented->unused, conn);
    ASAN_UNPOISON_MEMORY_REGION(&conn->connection, sizeof conn->connection);
    return memset(conn, 0, evented->size);
}

struct event_conn *evented_adopt(struct evented *evented,
                                 const struct client *client) {
    struct event_conn *conn = take_slot(evented);

    conn->source = (struct event_source){.kind = SOURCE_CLIENT,
                                         .descriptor = client->socket};
    conn->client = *client;
    connection_init(&conn->connection, &evented->server->app,
                    &evented->cached_time,
                    evented->server->architecture->requests_per_connection);
    evented->count++;
    /* The request may be newer than this iteration: check files again. */
    cached_time_next_round(&evented->cached_time);
    return conn;
}

/* Another event of this loop iteration may still point to the slot.  This is
   harmless: the slot's descriptor is -1, or that of a new client.  If that
   client has sent nothing, recv() returns EAGAIN. */
void evented_forget(struct evented *evented, struct event_conn *conn) {
    evented_stop_waiting(evented, conn);
    connection_free(&conn->connection);
    evented->count--;
    LL_PREPEND(evented->unused, conn);
    ASAN_POISON_MEMORY_REGION(&conn->connection, sizeof conn->connection);
}

/* Without a free slot, kept connections could block all other clients. */
bool evented_may_keep(const struct evented *evented) {
    return !server_is_stopping() && !shortage_is_recent() &&
           evented->count < evented->limit;
}

bool evented_send_some(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;

    ssize_t count =
        transmit(conn->client.socket, connection_pending(connection));
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (count <= 0) { /* the client has left, or the file is shorter now */
        connection_abandon(connection);
        return true;
    }
    conn->progress.since = evented->now;
    connection_sent(connection, (uint64_t)count);
    return true;
}

void evented_finish_exchange(struct evented *evented, struct event_conn *conn) {
    struct connection *connection = &conn->connection;

    server_exchange_done(evented->server, evented->server->counters,
                         &conn->client, connection);
    evented->exchanges++;
    evented_stop_waiting(evented, conn); /* each exchange has its own timeout */
    connection_next(connection);
}

/* ---- Redis ---- */

bool evented_ask_redis(struct evented *evented, struct event_conn *conn) {
    if (!redis_pipeline_append(&evented->redis,
                               exchange_command(&conn->connection.exchange),
                               &conn->waiter, evented->now)) {
        redis_count_missed(&evented->server->redis, 1);
        connection_replied(&conn->connection, NULL);
        return false;
    }
    evented_stop_waiting(evented, conn);
    return true;
}

static struct event_conn *conn_of(struct redis_waiter *waiter) {
    return (void *)((char *)waiter - offsetof(struct event_conn, waiter));
}

struct event_conn *evented_take_reply(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;
    struct resp_reply reply;
    bool replied;

    struct redis_waiter *waiter =
        redis_pipeline_take(redis, &reply, &replied, evented->now);
    if (waiter == NULL)
        return NULL;
    struct connection *connection = &conn_of(waiter)->connection;
    redis_count_missed(redis->server, !replied);
    cached_time_set(&evented->cached_time, time(NULL));
    bool fits = connection_replied(connection, replied ? &reply : NULL);
    if (replied && !fits) {
        redis_report_unexpected(redis->server, &reply);
        if (reply.type != RESP_ERROR)
            redis_pipeline_close(redis);
    }
    return conn_of(waiter);
}
