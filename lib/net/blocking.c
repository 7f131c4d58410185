/* SPDX-License-Identifier: MIT */
#include "net/blocking.h"

#include "config.h"
#include "net/clock.h"
#include "net/transmit.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* A connection while it is served. */
struct serving {
    struct worker *worker;
    const struct client *client;
    struct exchange exchange;
    bool is_new;           /* nothing has been received yet */
    int64_t silent_till;   /* then it is closed; 0: it should not be silent */
    enum patience awaited; /* what is being waited for */
    int64_t deadline;      /* when that must have come */
    int timeout;           /* the socket's receive timeout, milliseconds */
    struct progress progress; /* of what is sent */
};

static bool others_wait(const struct worker *worker) {
    return worker->others_wait != NULL && worker->others_wait(worker);
}

static bool may_keep(const struct worker *worker) {
    return !server_is_stopping() && !server_is_short() && !others_wait(worker);
}

/* Lets the next recv sleep as long as the client may take: one deadline for a
   whole request, however many pieces it comes in.  The usual request, in one
   piece, finds the timeout of the listening socket and costs no call here. */
static void set_timeout(struct serving *serving) {
    const struct server *server = serving->worker->server;
    enum patience awaited = exchange_patience(&serving->exchange);
    int64_t now = clock_milliseconds();

    if (awaited != serving->awaited) {
        serving->awaited = awaited;
        serving->deadline =
            now + options_time(&server->options, patience_time(awaited));
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

/*
 * Has the kernel waited for this client already?  A new connection on which
 * nothing has come is one of two.  It has used up TCP_DEFER_ACCEPT's time,
 * whose end the kernel marks by greeting (SYN-ACK) once more.  Or it came by a
 * SYN cookie, for which the kernel keeps no place where it could be deferred:
 * then its request may be a moment behind.
 */
static bool kernel_has_waited(int socket) {
    struct tcp_info info;
    socklen_t length = sizeof info;

    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_total_retrans > 0;
}

/* Nothing has come on a new connection: may it hold this worker?  As long as
   nobody else wants it, until the time for a request is over. */
static enum exchange_need wait_for_first(struct serving *serving) {
    const struct worker *worker = serving->worker;
    int64_t now = clock_milliseconds();

    if (serving->silent_till == 0) {
        if (kernel_has_waited(serving->client->socket))
            return EXCHANGE_CLOSE;
        serving->silent_till =
            now + options_time(&worker->server->options, REQUEST_TIMEOUT);
    } else if (now >= serving->silent_till || others_wait(worker)) {
        return EXCHANGE_CLOSE;
    }
    if (server_is_stopping())
        return EXCHANGE_CLOSE;
    serving->awaited = exchange_patience(&serving->exchange);
    serving->deadline =
        now + options_time(&worker->server->options, FIRST_TIMEOUT);
    return EXCHANGE_RECEIVE;
}

/* Not the first recv of a connection, for its bytes should be there; nor that
   of a stopping server for what might come: it waits for what is half done. */
static bool may_sleep(const struct serving *serving) {
    if (serving->is_new && serving->silent_till == 0)
        return false;
    return !server_is_stopping() || !exchange_is_idle(&serving->exchange);
}

static enum exchange_need received(struct serving *serving, size_t count) {
    if (serving->is_new) /* the time for a request begins now */
        serving->awaited = PATIENCE_NONE;
    serving->is_new = false;
    return exchange_received(&serving->exchange, count);
}

static enum exchange_need receive(struct serving *serving) {
    struct exchange *exchange = &serving->exchange;
    bool sleeps = may_sleep(serving);
    size_t size;

    char *room = exchange_room(exchange, &size);
    if (room == NULL || server_is_out_of_time())
        return EXCHANGE_CLOSE;
    if (sleeps)
        set_timeout(serving);
    ssize_t count =
        recv(serving->client->socket, room, size, sleeps ? 0 : MSG_DONTWAIT);
    moment_set(&serving->worker->moment, time(NULL));
    if (count >= 0)
        return received(serving, (size_t)count);
    if (errno == EAGAIN)
        return serving->is_new ? wait_for_first(serving)
                               : exchange_timed_out(exchange);
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
    moment_set(&serving->worker->moment, time(NULL));
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

/* A call that sleeps for SEND_LOOK returns with what went out, or EAGAIN. */
static enum exchange_need send_some(struct serving *serving) {
    const struct server *server = serving->worker->server;
    struct exchange *exchange = &serving->exchange;
    int socket = serving->client->socket;
    int64_t begun = clock_milliseconds();

    if (server_is_out_of_time())
        return EXCHANGE_CLOSE;
    ssize_t count = transmit(socket, exchange_pending(exchange));
    if (count < 0 && errno == EINTR)
        return EXCHANGE_SEND;
    if (count == 0 || (count < 0 && errno != EAGAIN))
        return EXCHANGE_CLOSE;
    int64_t now = clock_milliseconds();
    if (count > 0 && now - begun < options_time(&server->options, SEND_LOOK))
        serving->progress.since = now;
    else if (transmit_stalled(socket, &serving->progress, now) >=
             options_time(&server->options, SEND_TIMEOUT))
        return EXCHANGE_CLOSE;
    return count > 0 ? exchange_sent(exchange, (uint64_t)count) : EXCHANGE_SEND;
}

void blocking_serve(struct worker *worker, const struct client *client) {
    struct serving serving = {
        .worker = worker,
        .client = client,
        .is_new = true,
        .timeout = options_time(&worker->server->options, REQUEST_TIMEOUT)};
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
