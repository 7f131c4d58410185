/* SPDX-License-Identifier: MIT */
/*
 * NAME: a server of your own.  (Here will stand its idea, in a sentence.)
 *
 * It compiles and runs as it is: it answers every client with the same words,
 * one client after another.  It becomes a whole server in five stages.  After
 * each one
 *
 *     make grade SERVER=FOLDER
 *
 * says what it can do now and what stands in the way of the rest.
 *
 *     1  bytes in, bytes out      receive() and send_some()
 *     2  Redis                    ask_redis()
 *     3  patience                 who says nothing must not hold you for ever
 *     4  many at once             your architecture: the loop in main()
 *     5  the end                  on SIGTERM serve those in flight, and go
 *
 * What is done for you: the command line, the listening socket and the
 * application (net/server.h), HTTP and the guestbook (app/exchange.h).  What is
 * yours is who waits, and where.
 *
 * Then answer in this comment, as the seven do: Who waits, and where?  Where
 * does a half-done request live?  What does it cost?  What happens at the
 * limit?
 */
#include "config.h"
#include "net/clock.h"
#include "net/redis_pool.h"
#include "net/server.h"
#include "net/transmit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Which system calls your way to wait needs is said here: others are refused
   once server_ready() has been called, and told on standard error.  For
   threads add THREADED_CALLS and THREAD_CREATING_CALLS, for children
   FORKING_CALLS, for epoll CALL(epoll_wait), CALL(epoll_ctl). */
static const struct architecture architecture = {
    .name = "NAME",
    .summary = "a server of your own",
    .requests = 1, /* a connection; stage 3: KEEP_ALIVE_REQUESTS */
    .calls = {CALL(poll), CALL(fcntl)},
};

/* What one client is served with. */
struct serving {
    struct server *server;
    struct redis_pool *redis;
    struct counters *counters;
    const struct client *client;
    struct moment moment;     /* what time it is, for the application */
    struct exchange exchange; /* decides what is to be done next */
};

/*
 * Stage 1, first half.  Give the exchange what the client sends:
 *
 *   - exchange_room() says where bytes go, and how many;
 *   - recv(2) puts them there.  It may bring a part of the request only;
 *   - moment_set() tells the application the time;
 *   - exchange_received() is told how many came (0: no more will come) and
 *     answers with what the exchange needs next.  Return that.
 *
 * If recv fails: EXCHANGE_CLOSE.  Stage 3: wait with poll(2) first, for no
 * longer than patience_time(exchange_patience(...)) allows, and return
 * exchange_timed_out() if nothing comes.
 */
static enum exchange_need receive(struct serving *serving) {
    (void)serving;
    return EXCHANGE_CLOSE;
}

/*
 * Stage 1, second half.  Send what the exchange has:
 *
 *   - transmit() sends some of exchange_pending(), with one system call, and
 *     says how many bytes went out.  The client may have room for less than
 *     all;
 *   - exchange_sent() is told how many, and answers with what is needed next:
 *     EXCHANGE_SEND again while some is left.  Return that.
 *
 * If transmit fails: EXCHANGE_CLOSE.
 */
static enum exchange_need send_some(struct serving *serving) {
    (void)serving;
    return EXCHANGE_CLOSE;
}

/*
 * Stage 2.  Carry one command to Redis and bring its reply: borrow a connection
 * (redis_pool_borrow), call it (redis_pool_call with exchange_command), give
 * the reply to exchange_replied(), return the connection (redis_pool_return).
 * See net/blocking.c for what may go wrong on the way.  As it is, Redis "cannot
 * be had", and the client is answered 503.
 */
static enum exchange_need ask_redis(struct serving *serving) {
    return exchange_replied(&serving->exchange, NULL);
}

/* One client from its first byte to its last.  Stage 1: when receive() and
   send_some() are written, take the three lines of `hello` away. */
static void serve(struct serving *serving) {
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"
                                "Connection: close\r\n\r\nHello!\n";
    send(serving->client->socket, hello, strlen(hello), MSG_NOSIGNAL);
    struct exchange *exchange = &serving->exchange;
    enum exchange_need need = EXCHANGE_RECEIVE;

    exchange_init(exchange, &serving->server->app, &serving->moment,
                  architecture.requests);
    while (need != EXCHANGE_CLOSE) {
        switch (need) {
        case EXCHANGE_LINGER: /* end our side, then read what still comes */
            shutdown(serving->client->socket, SHUT_WR);
            need = receive(serving);
            break;
        case EXCHANGE_RECEIVE:
            need = receive(serving);
            break;
        case EXCHANGE_ASK_REDIS:
            need = ask_redis(serving);
            break;
        case EXCHANGE_KEEP: /* stage 5: not while server_is_stopping() */
            need = exchange_keep(exchange, true);
            break;
        case EXCHANGE_SEND:
            need = send_some(serving);
            break;
        case EXCHANGE_DONE:
            statistics_count(serving->counters, exchange);
            server_log(serving->server, serving->client, exchange);
            need = exchange_next(exchange);
            break;
        case EXCHANGE_CLOSE:
            break;
        }
    }
    exchange_free(exchange);
    close(serving->client->socket);
}

/* Stage 4: while one client is served, all others wait.  Who shall serve them?
   A child, a thread, a pool of either, or an event loop (net/evented.h, with
   which receive() and send_some() are not needed at all). */
int main(int argc, char **argv) {
    struct server server;
    struct redis_pool redis;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    redis_pool_init(&redis, &server.redis, false); /* true: threads share it */

    server_ready(&server);
    while (server_goes_on())
        if (server_accept(&server, 0, &client)) {
            struct serving serving = {.server = &server,
                                      .redis = &redis,
                                      .counters = server.counters,
                                      .client = &client};
            serve(&serving);
        }

    redis_pool_destroy(&redis);
    return server_end(&server);
}
