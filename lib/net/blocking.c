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

static bool may_keep(const struct worker *worker) {
    return !server_is_stopping() &&
           (worker->others_wait == NULL || !worker->others_wait(worker));
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
    moment_set(&serving->worker->moment, time(NULL));
    if (count >= 0)
        return exchange_received(exchange, (size_t)count);
    if (errno == EAGAIN)
        return exchange_timed_out(exchange);
    if (errno == EINTR && !server_is_out_of_time())
        return EXCHANGE_RECEIVE;
    return EXCHANGE_CLOSE;
}

static enum exchange_need ask_redis(struct serving *serving) {
    struct exchange *exchange = &serving->exchange;
    struct redis_client *redis = serving->worker->redis;
    struct resp_reply reply;

    bool called = redis_client_call(redis, exchange_command(exchange), &reply);
    moment_set(&serving->worker->moment, time(NULL));
    if (!called)
        return exchange_replied(exchange, NULL);
    if (!exchange_accepts(exchange, &reply)) {
        redis_refuses(redis->server, reply.type == RESP_ERROR
                                         ? reply.text
                                         : VIEW("of another type"));
        return exchange_replied(exchange, NULL);
    }
    return exchange_replied(exchange, &reply);
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
        case EXCHANGE_KEEP:
            need = exchange_keep(exchange, may_keep(worker));
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
