/* SPDX-License-Identifier: MIT */
#include "net/evented.h"

#include "config.h"
#include "process/clock.h"

#include <errno.h>
#include <malloc.h>
#include <unistd.h>
#include <utlist.h>

void evented_init(struct evented *evented, struct server *server,
                  struct watcher watcher) {
    *evented = (struct evented){.server = server, .watcher = watcher};
    slab_init(&evented->memory, sizeof(struct serving), CONNECTIONS_AT_ONCE);
    redis_pipeline_init(&evented->redis, &server->redis, &evented->watcher);
    /* Each client may be receiving a different large file: one descriptor more
       for each. */
    evented->limit =
        server_room_in_memory(server_room_for_clients(OPEN_FILES, 1),
                              CONNECTION_MEMORY, CONNECTION_MEMORY);
    evented_begin_round(evented);
}

/* ---- Memory ---- */

/* free(3) gives the heap's end back to the kernel by itself, but only the part
   that is unused up to the end.  malloc_trim(3) finds free pages everywhere
   (since glibc 2.8).  musl has no such call and needs none: it keeps little. */
static bool is_untidy(const struct evented *evented) {
    return evented->untidy >= TIDY_AFTER && evented->first_asker == NULL;
}

static void tidy_up(struct evented *evented) {
    if (!is_untidy(evented) || evented->now < evented->tidy_at)
        return;
#ifdef __GLIBC__
    malloc_trim(TIDY_REST);
#endif
    evented->untidy = 0;
    evented->tidy_at = evented->now + TIDY_PAUSE;
}

/* ---- Time ---- */

static void stop_waiting(struct evented *evented, struct serving *serving) {
    if (serving->awaited == PATIENCE_NONE)
        return;
    DL_DELETE(evented->waiting[serving->awaited], serving); /* NOLINT */
    serving->awaited = PATIENCE_NONE;
}

/* Sets the client's deadline.  An existing deadline stays, except while we
   send: then each check sets it anew. */
static void start_waiting(struct evented *evented, struct serving *serving) {
    enum patience awaited = connection_patience(&serving->connection);

    if (awaited == serving->awaited && awaited != PATIENCE_SEND)
        return;
    stop_waiting(evented, serving);
    if (awaited == PATIENCE_NONE)
        return;
    serving->awaited = awaited;
    serving->deadline =
        evented->now +
        options_time(&evented->server->options, awaited == PATIENCE_SEND
                                                    ? SEND_LOOK
                                                    : patience_time(awaited));
    DL_APPEND(evented->waiting[awaited], serving);
}

int evented_timeout(const struct evented *evented) {
    int64_t earliest = redis_pipeline_deadline(&evented->redis);

    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++)
        if (evented->waiting[i] != NULL &&
            evented->waiting[i]->deadline < earliest)
            earliest = evented->waiting[i]->deadline;
    if (evented->paused_till > evented->now && evented->paused_till < earliest)
        earliest = evented->paused_till;
    if (is_untidy(evented) && evented->tidy_at < earliest)
        earliest = evented->tidy_at;
    if (earliest == INT64_MAX)
        return -1;
    return earliest > evented->now ? (int)(earliest - evented->now) : 0;
}

/* ---- Connections ---- */

/* Its memory stays until the loop iteration ends, because another event of this
   iteration may still point to it. */
static void close_connection(struct evented *evented, struct serving *serving) {
    stop_waiting(evented, serving);
    source_close(&evented->watcher, &serving->source);
    connection_free(&serving->connection);
    evented->count--;
    DL_APPEND(evented->closed, serving);
}

static bool ask_redis(struct evented *evented, struct serving *serving) {
    if (!redis_pipeline_append(&evented->redis,
                               exchange_command(&serving->connection.exchange),
                               evented->now))
        return false;
    stop_waiting(evented, serving);
    serving->next_asker = NULL;
    if (evented->first_asker == NULL)
        evented->first_asker = serving;
    else
        evented->last_asker->next_asker = serving;
    evented->last_asker = serving;
    return true;
}

/* Watches the client.  If memory is too short for that, the connection is
   closed, because no event would ever continue it. */
static void wait_for(struct evented *evented, struct serving *serving,
                     unsigned interest) {
    start_waiting(evented, serving);
    if (!source_watch(&evented->watcher, &serving->source, interest))
        close_connection(evented, serving);
}

static bool would_wait(void) {
    return errno == EAGAIN || errno == EINTR;
}

static void receive(struct evented *evented, struct serving *serving) {
    struct connection *connection = &serving->connection;
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL) {
        server_report_exhausted("memory");
        connection_abandon(connection);
        return;
    }
    ssize_t count = recv(serving->source.descriptor, room, size, 0);
    if (count >= 0) {
        /* A long round may have begun seconds ago. */
        moment_set(&evented->moment, time(NULL));
        connection_received(connection, (size_t)count);
    } else if (!would_wait()) {
        connection_abandon(connection);
    }
}

/* Returns false if the kernel has no room now. */
static bool send_some(struct evented *evented, struct serving *serving) {
    struct connection *connection = &serving->connection;

    ssize_t count =
        transmit(serving->source.descriptor, connection_pending(connection));
    if (count < 0 && would_wait())
        return false;
    if (count <= 0) { /* the client has left, or the file is shorter now */
        connection_abandon(connection);
        return true;
    }
    serving->progress.since = evented->now;
    connection_sent(connection, (uint64_t)count);
    return true;
}

/* A client that takes the last slot is not kept alive, because otherwise the
   first clients could keep out all others. */
static bool may_keep(const struct evented *evented) {
    return !server_is_stopping() && !server_is_under_pressure() &&
           evented->count < evented->limit;
}

static void finish_exchange(struct evented *evented, struct serving *serving) {
    struct connection *connection = &serving->connection;

    server_exchange_done(evented->server, evented->server->counters,
                         &serving->client, connection);
    evented->untidy++;
    stop_waiting(evented, serving); /* the next exchange has its own time */
    connection_next(connection);
}

/* Drives one connection until it must wait: for the client, which the loop then
   watches, or for Redis, in the queue.  It receives once at most, and only if
   the client may be readable, sends one piece of a file, and answers a few
   pipelined requests, so that no client can occupy the loop. */
static void drive(struct evented *evented, struct serving *serving,
                  bool readable) {
    struct connection *connection = &serving->connection;
    int sends = 0; /* of this response: the head, then a piece of the file */
    int done = 0;  /* exchanges */

    for (;;) {
        switch (connection_need(connection)) {
        case NEED_RECEIVE:
            if (!readable) {
                wait_for(evented, serving, READABLE);
                return;
            }
            readable = false;
            receive(evented, serving);
            break;
        case NEED_ASK_REDIS:
            if (ask_redis(evented, serving))
                return;
            connection_replied(connection, NULL);
            break;
        case NEED_KEEP:
            connection_keep(connection, may_keep(evented));
            break;
        case NEED_SEND:
            if (sends == 2 || done == EXCHANGES_AT_ONCE ||
                !send_some(evented, serving)) {
                wait_for(evented, serving, WRITABLE);
                return;
            }
            sends++;
            break;
        case NEED_DONE:
            finish_exchange(evented, serving);
            sends = 0;
            done++;
            break;
        case NEED_CLOSE:
            close_connection(evented, serving);
            return;
        }
    }
}

void evented_adopt(struct evented *evented, const struct client *client) {
    struct serving *serving = evented->next;

    evented->next = NULL;
    serving->source =
        (struct source){.kind = SOURCE_CLIENT, .descriptor = client->socket};
    serving->client = *client;
    connection_init(&serving->connection, &evented->server->app,
                    &evented->moment,
                    evented->server->architecture->requests_per_connection);
    evented->count++;
    moment_next_round(&evented->moment); /* its request may be newer */
    /* Often the request is there already: then the loop need not watch this
       connection at all. */
    drive(evented, serving, true);
}

/* BROKEN needs no case of its own: the next recv or send returns the error. */
static void client_ready(struct evented *evented, struct serving *serving,
                         unsigned readiness) {
    if (connection_need(&serving->connection) == NEED_ASK_REDIS)
        /* The client sends more, or has left.  Sending its response will show
           which.  From now on it is watched for nothing, because otherwise each
           loop iteration would report it. */
        (void)source_watch(&evented->watcher, &serving->source, 0);
    else
        drive(evented, serving, (readiness & (READABLE | BROKEN)) != 0);
}

/* ---- Redis ---- */

static struct serving *next_asker(struct evented *evented) {
    struct serving *serving = evented->first_asker;
    evented->first_asker = serving->next_asker;
    return serving;
}

/* Gives the reply, or NULL, to the first connection in the queue. */
static void give_reply(struct evented *evented,
                       const struct resp_reply *reply) {
    struct serving *serving = next_asker(evented);

    moment_set(&evented->moment, time(NULL));
    connection_replied(&serving->connection, reply);
    drive(evented, serving, false);
}

/* The first in the queue gets this reply, or NULL; the others get NULL.  If a
   client asks again at once, it joins the end: the loop stops at the connection
   that is last now. */
static void fail_redis(struct evented *evented,
                       const struct resp_reply *reply) {
    struct serving *last = evented->last_asker;

    if (evented->first_asker == NULL)
        return;
    for (bool more = true; more; reply = NULL) {
        more = evented->first_asker != last;
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
    if (!exchange_accepts(&evented->first_asker->connection.exchange, &reply)) {
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

void evented_ready(struct evented *evented, struct source *source,
                   unsigned readiness) {
    if (source->descriptor < 0)
        return;
    if (source->kind == SOURCE_REDIS)
        redis_ready(evented, readiness);
    else
        client_ready(evented, (struct serving *)source, readiness);
}

void evented_begin_round(struct evented *evented) {
    evented->now = clock_milliseconds();
    moment_next_round(&evented->moment);
    moment_set(&evented->moment, time(NULL));
}

/* While the response is sent, a client has time as long as it takes bytes. */
static bool has_time(const struct evented *evented, struct serving *serving) {
    return connection_patience(&serving->connection) == PATIENCE_SEND &&
           transmit_stalled(serving->source.descriptor, &serving->progress,
                            evented->now) <
               options_time(&evented->server->options, SEND_TIMEOUT);
}

/* Before a client is disconnected, the server checks once more whether it has
   sent something.  After the server was suspended (SIGSTOP), more sockets may
   be ready than one epoll_wait() returns, and this may be one of the others. */
static void expire(struct evented *evented) {
    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++) {
        struct serving *serving;
        while ((serving = evented->waiting[i]) != NULL &&
               serving->deadline <= evented->now) {
            if (has_time(evented, serving)) {
                start_waiting(evented, serving);
                continue;
            }
            if (connection_need(&serving->connection) == NEED_RECEIVE)
                drive(evented, serving, true);
            if (evented->waiting[i] == serving &&
                serving->deadline <= evented->now) {
                stop_waiting(evented, serving);
                connection_timed_out(&serving->connection);
                drive(evented, serving, false);
            }
        }
    }
}

void evented_end_round(struct evented *evented) {
    struct redis_pipeline *redis = &evented->redis;
    struct serving *serving, *next;

    expire(evented);
    if (redis_pipeline_deadline(redis) <= evented->now) /* look once more */
        redis_ready(evented, READABLE | WRITABLE);
    /* All commands of this iteration leave in one write.  The time is read
       anew, so that a long iteration does not count against Redis' time. */
    if (!redis_pipeline_check(redis, evented->now) ||
        !redis_pipeline_flush(redis, clock_milliseconds()))
        fail_redis(evented, NULL);
    redis_pipeline_watch(redis);
    DL_FOREACH_SAFE (evented->closed, serving, next)
        slab_give_back(&evented->memory, serving);
    evented->closed = NULL;
    tidy_up(evented);
}

/* Memory is allocated before the client is accepted: if there is none, the
   client stays in the backlog. */
bool evented_reserve_room(struct evented *evented) {
    if (evented->count >= evented->limit ||
        evented->now < evented->paused_till || !server_keep_accepting())
        return false;
    if (evented->next == NULL)
        evented->next = slab_take(&evented->memory);
    if (evented->next == NULL) {
        server_report_exhausted("memory");
        evented_pause(evented);
    }
    return evented->next != NULL;
}

void evented_pause(struct evented *evented) {
    evented->paused_till = evented->now + PAUSE;
}

void evented_watch_listener(struct evented *evented, struct source *listener) {
    unsigned interest = evented_reserve_room(evented) ? READABLE : 0;

    if (!source_watch(&evented->watcher, listener, interest))
        evented_pause(evented); /* and then again */
}

bool evented_keep_running(struct evented *evented) {
    struct serving *serving, *next;

    if (!server_is_stopping())
        return true;
    /* Closes those that are idle, unless a request has come meanwhile. */
    for (int i = PATIENCE_IDLE; i <= PATIENCE_REQUEST; i++)
        DL_FOREACH_SAFE (evented->waiting[i], serving, next) {
            if (!connection_is_idle(&serving->connection))
                continue;
            drive(evented, serving, true);
            if (serving->source.descriptor >= 0 &&
                connection_is_idle(&serving->connection))
                close_connection(evented, serving);
        }
    return (server_keep_accepting() || evented->count > 0) &&
           !server_is_out_of_time();
}

void evented_free(struct evented *evented) {
    for (int i = PATIENCE_NONE + 1; i < PATIENCES; i++)
        while (evented->waiting[i] != NULL)
            close_connection(evented, evented->waiting[i]);
    while (evented->first_asker != NULL)
        close_connection(evented, next_asker(evented));
    slab_free(&evented->memory);
    redis_pipeline_close(&evented->redis);
}
