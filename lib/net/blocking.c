/* SPDX-License-Identifier: MIT */
#include "net/blocking.h"

#include "config.h"
#include "net/clock.h"
#include "net/transmit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* A connection while it is served. */
struct serving {
    struct worker *worker;
    const struct client *client;
    struct exchange exchange;
    enum patience awaited; /* what is being waited for */
    int64_t deadline;      /* when that must have come */
    int timeout;           /* the socket's receive timeout, milliseconds */
};

/* After a call that may have slept: what time is it, and can this connection
   be kept? */
static void look_around(struct worker *worker) {
    moment_set(&worker->moment, time(NULL));
    worker->moment.closing =
        server_is_stopping() ||
        (worker->others_wait != NULL && worker->others_wait(worker));
}

/* Lets the next recv sleep as long as the client may take: one deadline for a
   whole request, however many pieces it comes in.  The usual request, in one
   piece, finds the timeout of the listening socket and costs no call here. */
static void set_timeout(struct serving *serving) {
    enum patience awaited = exchange_patience(&serving->exchange);
    int64_t now = clock_milliseconds();

    if (awaited != serving->awaited) {
        serving->awaited = awaited;
        serving->deadline = now + patience_time(awaited);
    }
    int wanted = now < serving->deadline ? (int)(serving->deadline - now)
                                         : 1; /* 0 would mean for ever */
    if (wanted == serving->timeout)
        return;
    struct timeval time = {.tv_sec = wanted / 1000,
                           .tv_usec = wanted % 1000 * 1000};
    if (setsockopt(serving->client->socket, SOL_SOCKET, SO_RCVTIMEO, &time,
                   sizeof time) == 0)
        serving->timeout = wanted;
}

static enum exchange_need receive(struct serving *serving) {
    struct exchange *exchange = &serving->exchange;
    size_t size;

    /* A stopping server waits for what is half done, not for what might come.
     */
    if (server_is_stopping() && exchange_is_idle(exchange))
        return EXCHANGE_CLOSE;
    char *room = exchange_room(exchange, &size);
    if (room == NULL)
        return EXCHANGE_CLOSE;
    set_timeout(serving);
    ssize_t count = recv(serving->client->socket, room, size, 0);
    look_around(serving->worker);
    if (count >= 0)
        return exchange_received(exchange, (size_t)count);
    if (errno == EAGAIN)
        return exchange_timed_out(exchange);
    if (errno != EINTR || server_is_out_of_time())
        return EXCHANGE_CLOSE;
    redis_pool_spare(serving->worker->redis); /* perhaps we were woken for it */
    return EXCHANGE_RECEIVE;
}

static enum exchange_need ask_once(struct serving *serving,
                                   struct redis_client **redis) {
    struct exchange *exchange = &serving->exchange;
    struct redis_pool *pool = serving->worker->redis;
    struct resp_reply reply;

    bool called =
        redis_pool_call(pool, redis, exchange_command(exchange), &reply);
    look_around(serving->worker);
    if (!called)
        return exchange_replied(exchange, NULL);
    if (exchange_accepts(exchange, &reply))
        return exchange_replied(exchange, &reply);
    redis_misbehaves(pool->server, &reply);
    /* Perhaps the reply to something else, and ours is still to come. */
    if (reply.type != RESP_ERROR)
        redis_client_close(*redis);
    return exchange_replied(exchange, NULL);
}

/* All that the exchange asks, one after another.  The client does not wait for
   our connection, but we may for the client: it is returned before we send. */
static enum exchange_need ask_redis(struct serving *serving) {
    struct exchange *exchange = &serving->exchange;
    struct redis_client *redis = redis_pool_borrow(serving->worker->redis);
    enum exchange_need need = EXCHANGE_ASK_REDIS;

    if (redis == NULL)
        return exchange_replied(exchange, NULL);
    if (exchange_changes_something(exchange))
        redis_client_distrust(redis);
    while (need == EXCHANGE_ASK_REDIS)
        need = ask_once(serving, &redis);
    redis_pool_return(serving->worker->redis, redis);
    return need;
}

static enum exchange_need send_some(struct serving *serving) {
    struct exchange *exchange = &serving->exchange;
    int64_t begun = clock_milliseconds();

    if (server_is_out_of_time())
        return EXCHANGE_CLOSE;
    ssize_t count =
        transmit(serving->client->socket, exchange_pending(exchange));
    if (count < 0 && errno == EINTR)
        return EXCHANGE_SEND;
    /* Gone; or it took nothing for SEND_TIMEOUT, which sendmsg says and
       sendfile, which tries again by itself, does not. */
    if (count <= 0 || clock_milliseconds() - begun >= SEND_TIMEOUT)
        return EXCHANGE_CLOSE;
    return exchange_sent(exchange, (uint64_t)count);
}

void blocking_serve(struct worker *worker, const struct client *client) {
    struct serving serving = {
        .worker = worker, .client = client, .timeout = REQUEST_TIMEOUT};
    struct exchange *exchange = &serving.exchange;
    enum exchange_need need = EXCHANGE_RECEIVE;

    exchange_init(exchange, &worker->server->app, &worker->moment,
                  worker->server->architecture->requests);
    while (need != EXCHANGE_CLOSE) {
        switch (need) {
        case EXCHANGE_LINGER:
            shutdown(client->socket, SHUT_WR);
            need = receive(&serving);
            break;
        case EXCHANGE_RECEIVE:
            need = receive(&serving);
            break;
        case EXCHANGE_ASK_REDIS:
            need = ask_redis(&serving);
            break;
        case EXCHANGE_SEND:
            need = send_some(&serving);
            break;
        case EXCHANGE_DONE:
            statistics_count(worker->counters, exchange);
            server_log(worker->server, client, exchange);
            serving.awaited = PATIENCE_NONE;
            need = exchange_next(exchange);
            break;
        case EXCHANGE_CLOSE:
            break;
        }
    }
    exchange_free(exchange);
    close(client->socket);
}
