/* SPDX-License-Identifier: MIT */
#include "net/evented.h"

#include "config.h"
#include "net/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

static void drive(struct evented *evented, struct connection *connection,
                  enum exchange_need need, bool readable);

void evented_init(struct evented *evented, struct server *server,
                  struct watcher watcher) {
    *evented = (struct evented){.server = server, .watcher = watcher};
    redis_pipeline_init(&evented->redis, &server->redis, &evented->watcher);
    /* Some of them may be sent large files, each another one. */
    evented->limit = server_room_for_clients(OPEN_FILES, 1);
    evented_begin_round(evented);
}

/* ---- Time ---- */

static void stop_waiting(struct evented *evented,
                         struct connection *connection) {
    if (connection->awaited == PATIENCE_NONE)
        return;
    DL_DELETE(evented->waiting[connection->awaited], connection); /* NOLINT */
    connection->awaited = PATIENCE_NONE;
}

/* Notes by when the client must have done something.  What began to be waited
   for keeps its one deadline, but for a client that is sent to. */
static void start_waiting(struct evented *evented,
                          struct connection *connection) {
    enum patience awaited = exchange_patience(&connection->exchange);
    bool same = awaited == connection->awaited &&
                connection->requests_left == connection->exchange.requests_left;

    if (same && awaited != PATIENCE_SEND)
        return;
    stop_waiting(evented, connection);
    if (awaited == PATIENCE_NONE)
        return;
    connection->awaited = awaited;
    connection->requests_left = connection->exchange.requests_left;
    connection->deadline =
        evented->now +
        options_time(&evented->server->options, awaited == PATIENCE_SEND
                                                    ? SEND_LOOK
                                                    : patience_time(awaited));
    DL_APPEND(evented->waiting[awaited], connection);
}

/* One that is sent to is looked at now and then, and goes on while it takes
   bytes. */
static bool has_time(const struct evented *evented,
                     struct connection *connection) {
    return exchange_patience(&connection->exchange) == PATIENCE_SEND &&
           transmit_stalled(connection->source.descriptor,
                            &connection->progress, evented->now) <
               options_time(&evented->server->options, SEND_TIMEOUT);
}

static void expire(struct evented *evented) {
    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++) {
        struct connection *connection;
        while ((connection = evented->waiting[i]) != NULL &&
               connection->deadline <= evented->now) {
            stop_waiting(evented, connection);
            if (has_time(evented, connection))
                start_waiting(evented, connection);
            else
                drive(evented, connection,
                      exchange_timed_out(&connection->exchange), false);
        }
    }
}

int evented_timeout(const struct evented *evented) {
    int64_t earliest = redis_pipeline_deadline(&evented->redis);

    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++)
        if (evented->waiting[i] != NULL &&
            evented->waiting[i]->deadline < earliest)
            earliest = evented->waiting[i]->deadline;
    if (evented->paused_till > evented->now && evented->paused_till < earliest)
        earliest = evented->paused_till;
    if (earliest == INT64_MAX)
        return -1;
    return earliest > evented->now ? (int)(earliest - evented->now) : 0;
}

/* ---- Connections ---- */

/* Its memory stays until the round ends: another event of this round may still
   point to it. */
static void close_connection(struct evented *evented,
                             struct connection *connection) {
    stop_waiting(evented, connection);
    source_close(&evented->watcher, &connection->source);
    exchange_free(&connection->exchange);
    evented->count--;
    DL_APPEND(evented->closed, connection);
}

void evented_adopt(struct evented *evented, const struct client *client) {
    struct connection *connection = calloc(1, sizeof *connection);

    if (connection == NULL) {
        close(client->socket);
        return;
    }
    connection->source =
        (struct source){.kind = SOURCE_CLIENT, .descriptor = client->socket};
    connection->client = *client;
    exchange_init(&connection->exchange, &evented->server->app,
                  &evented->moment, evented->server->architecture->requests);
    evented->count++;
    /* Often the request is there already: then the loop need not hear of this
       connection at all. */
    drive(evented, connection, EXCHANGE_RECEIVE, true);
}

static bool ask_redis(struct evented *evented, struct connection *connection) {
    if (!redis_pipeline_append(&evented->redis,
                               exchange_command(&connection->exchange),
                               evented->now))
        return false;
    stop_waiting(evented, connection);
    connection->next_asker = NULL;
    if (evented->first_asker == NULL)
        evented->first_asker = connection;
    else
        evented->last_asker->next_asker = connection;
    evented->last_asker = connection;
    return true;
}

/* Waits for the loop to say that the client is ready; one that cannot be
   watched, for want of memory, would never be heard of again. */
static void wait_for(struct evented *evented, struct connection *connection,
                     unsigned interest) {
    start_waiting(evented, connection);
    if (!source_watch(&evented->watcher, &connection->source, interest))
        close_connection(evented, connection);
}

static bool would_wait(void) {
    return errno == EAGAIN || errno == EINTR;
}

/* Whoever takes the last place is not kept alive: else the first ones to come
   could keep out all others. */
static bool may_keep(const struct evented *evented) {
    return !server_is_stopping() && evented->count < evented->limit;
}

/*
 * Drives one connection until it must wait: for the client, whom the loop then
 * watches, or for Redis, in the queue.  It receives once at the most, and only
 * if the client may be readable, sends one piece of a file, and answers a few
 * pipelined requests, so that nobody can keep the loop for himself.
 */
static void drive(struct evented *evented, struct connection *connection,
                  enum exchange_need need, bool readable) {
    struct exchange *exchange = &connection->exchange;
    int socket = connection->source.descriptor;
    int sends = 0; /* of this response: the head, then a piece of the file */
    int done = 0;  /* exchanges */
    size_t size;
    ssize_t count;

    for (;;) {
        switch (need) {
        case EXCHANGE_LINGER:
            shutdown(socket, SHUT_WR);
            /* fall through */
        case EXCHANGE_RECEIVE: {
            if (!readable) {
                wait_for(evented, connection, READABLE);
                return;
            }
            readable = false;
            char *room = exchange_room(exchange, &size);
            count = room == NULL ? 0 : recv(socket, room, size, 0);
            if (count >= 0)
                need = exchange_received(exchange, (size_t)count);
            else if (!would_wait())
                need = EXCHANGE_CLOSE;
            break;
        }
        case EXCHANGE_ASK_REDIS:
            if (ask_redis(evented, connection))
                return;
            need = exchange_replied(exchange, NULL);
            break;
        case EXCHANGE_KEEP:
            need = exchange_keep(exchange, may_keep(evented));
            break;
        case EXCHANGE_SEND:
            count = 0;
            if (sends < 2)
                count = transmit(socket, exchange_pending(exchange));
            if (count > 0) {
                sends++;
                connection->progress.since = evented->now;
                need = exchange_sent(exchange, (uint64_t)count);
            } else if (sends == 2 || (count < 0 && would_wait())) {
                wait_for(evented, connection, WRITABLE);
                return;
            } else {
                need = EXCHANGE_CLOSE;
            }
            break;
        case EXCHANGE_DONE:
            statistics_count(evented->server->counters, exchange);
            server_log(evented->server, &connection->client, exchange);
            sends = 0;
            if (++done == EXCHANGES_AT_ONCE && exchange->keep_alive) {
                /* more may be buffered */
                wait_for(evented, connection, WRITABLE);
                return;
            }
            need = exchange_next(exchange);
            if (server_is_stopping() && exchange_is_idle(exchange))
                need = EXCHANGE_CLOSE;
            break;
        case EXCHANGE_CLOSE:
            close_connection(evented, connection);
            return;
        }
    }
}

/* What is broken tells so when it is read or written. */
static void client_ready(struct evented *evented,
                         struct connection *connection) {
    struct exchange *exchange = &connection->exchange;

    switch (exchange->state) {
    case STATE_REDIS:
        /* It sends more, or has left: either is found out when its reply is
           sent.  Till then it is not watched, or we would hear of it again
           and again. */
        (void)source_watch(&evented->watcher, &connection->source, 0);
        break;
    case STATE_CONTINUE:
    case STATE_SEND:
        drive(evented, connection, EXCHANGE_SEND, false);
        break;
    case STATE_SENT:
        drive(evented, connection, exchange_next(exchange), false);
        break;
    case STATE_LINGER:
        drive(evented, connection, EXCHANGE_LINGER, true);
        break;
    default:
        drive(evented, connection, EXCHANGE_RECEIVE, true);
    }
}

/* ---- Redis ---- */

static struct connection *next_asker(struct evented *evented) {
    struct connection *connection = evented->first_asker;
    evented->first_asker = connection->next_asker;
    return connection;
}

/* The reply, or NULL, for the one who has asked first. */
static void give_reply(struct evented *evented,
                       const struct resp_reply *reply) {
    struct connection *connection = next_asker(evented);

    drive(evented, connection, exchange_replied(&connection->exchange, reply),
          false);
}

/* No reply will come any more to those who have asked so far.  What they do
   next may ask again, and stands behind them. */
static void give_up_redis(struct evented *evented) {
    struct connection *last = evented->last_asker;

    if (evented->first_asker == NULL)
        return;
    for (bool more = true; more;) {
        more = evented->first_asker != last;
        give_reply(evented, NULL);
    }
}

/* Takes one reply, if one is there: 1, 0 or -1, as redis_pipeline_next().  One
   of a wrong type may belong to another command, and so may all behind it. */
static int take_reply(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;
    struct resp_reply reply;

    int result = redis_pipeline_next(redis, &reply, evented->now);
    if (result <= 0)
        return result;
    if (exchange_accepts(&evented->first_asker->exchange, &reply)) {
        give_reply(evented, &reply);
        return 1;
    }
    redis_misbehaves(&evented->server->redis, &reply);
    if (reply.type != RESP_ERROR) {
        redis_pipeline_close(redis);
        return -1;
    }
    give_reply(evented, NULL);
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
        give_up_redis(evented);
}

/* ---- Rounds ---- */

void evented_ready(struct evented *evented, struct source *source,
                   unsigned readiness) {
    if (source->descriptor < 0)
        return;
    if (source->kind == SOURCE_REDIS)
        redis_ready(evented, readiness);
    else
        client_ready(evented, (struct connection *)source);
}

void evented_begin_round(struct evented *evented) {
    evented->now = clock_milliseconds();
    moment_set(&evented->moment, time(NULL));
}

void evented_end_round(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;
    struct connection *connection, *next;

    expire(evented);
    /* All commands of this round leave in one write. */
    if (!redis_pipeline_check(redis, evented->now) ||
        !redis_pipeline_flush(redis, evented->now))
        give_up_redis(evented);
    redis_pipeline_watch(redis);
    DL_FOREACH_SAFE (evented->closed, connection, next)
        free(connection);
    evented->closed = NULL;
}

bool evented_has_room(const struct evented *evented) {
    return evented->count < evented->limit &&
           evented->now >= evented->paused_till && server_goes_on();
}

void evented_pause(struct evented *evented) {
    evented->paused_till = evented->now + PAUSE;
}

void evented_watch_listener(struct evented *evented, struct source *listener) {
    unsigned interest = evented_has_room(evented) ? READABLE : 0;

    if (!source_watch(&evented->watcher, listener, interest))
        evented_pause(evented); /* and then again */
}

bool evented_goes_on(struct evented *evented) {
    struct connection *connection, *next;

    if (!server_is_stopping())
        return true;
    /* Idle, unless its next request is there already. */
    for (int i = PATIENCE_IDLE; i <= PATIENCE_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], connection, next) {
            if (!exchange_is_idle(&connection->exchange))
                continue;
            drive(evented, connection, EXCHANGE_RECEIVE, true);
            if (connection->source.descriptor >= 0 &&
                exchange_is_idle(&connection->exchange))
                close_connection(evented, connection);
        }
    return (server_goes_on() || evented->count > 0) && !server_is_out_of_time();
}

void evented_free(struct evented *evented) {
    struct connection *connection, *next;

    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++)
        while (evented->waiting[i] != NULL)
            close_connection(evented, evented->waiting[i]);
    while (evented->first_asker != NULL) {
        connection = next_asker(evented);
        close_connection(evented, connection);
    }
    DL_FOREACH_SAFE (evented->closed, connection, next)
        free(connection);
    redis_pipeline_close(&evented->redis);
}
