/* SPDX-License-Identifier: MIT */
/*
 * NAME: a server of your own.  (Here will stand its idea, in a sentence.)
 *
 * It compiles and runs as it is: it answers every client with the same words,
 * one client after another.  It becomes a whole server in five stages.  Each
 * has a command that checks what the stage is about:
 *
 *     1  bytes in, bytes out   receive() and send_some()
 *            make grade SERVER=FOLDER ARGS='--only serves bad-input'
 *     2  Redis                 ask_redis(), for the guestbook
 *            make grade SERVER=FOLDER ARGS='--only serves redis'
 *     3  patience              a silent client must not hold you for ever
 *            make grade SERVER=FOLDER ARGS='--only silent'
 *     4  many at once          your architecture, the loop in main()
 *            make grade SERVER=FOLDER \
 *                ARGS='--only races silent leaves-nothing load'
 *     5  the end               on SIGTERM serve those in flight, and go
 *            make grade SERVER=FOLDER ARGS='--only ends'
 *
 *     all of it: make grade SERVER=FOLDER
 *
 * What is done for you: the command line, the listening socket and the
 * application (net/server.h), HTTP and the guestbook (app/connection.h).  What
 * is yours is who waits, and where.
 *
 * Then answer in this comment, as the seven do: Who waits, and where?  Where
 * does a half-done request live?  What does it cost?  What happens at the
 * limit?
 */
#include "config.h"
#include "net/redis/pool.h"
#include "net/server.h"
#include "net/transmit.h"
#include "process/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Which system calls your way to wait needs is said here: others are refused
   once server_ready() has been called, and told on standard error by their
   number: stage 4 begins here.  For threads add THREADED_CALLS and
   THREAD_CREATING_CALLS, for children FORKING_CALLS, for epoll
   CALL(epoll_wait), CALL(epoll_ctl).

   A server with a fixed number of workers adds .has_workers = true.  The option
   --workers then sets server.options.workers, and server.counters has one
   element for each worker.  Without it server.options.workers is 1, and
   server.counters has one element. */
static const struct architecture architecture = {
    .name = "NAME",
    .summary = "a server of your own",
    .requests_per_connection = 1, /* stage 3: KEEP_ALIVE_REQUESTS */
    .calls = {CALL(poll), CALL(fcntl)},
};

/* What one client is served with. */
struct serving {
    struct server *server;
    struct redis_pool *redis;
    struct counters *counters;
    const struct client *client;
    struct moment moment;         /* what time it is, for the application */
    struct connection connection; /* knows what is to be done next */
};

/*
 * Stage 1, first half.  Give the connection what the client sends:
 *
 *   - connection_room() says where bytes go, and how many;
 *   - recv(2) puts them there.  It may bring a part of the request only;
 *   - moment_set(&serving->moment, time(NULL)) gives the application the time;
 *   - connection_received(&serving->connection, (size_t)count): so many bytes
 *     came (0: no more will come).  Then the connection knows what it needs.
 *
 * If recv fails: connection_abandon(); but EINTR (a signal came) and EAGAIN
 * (nothing was there) are no failures: the connection still needs to receive.
 *
 * Stage 3: wait with poll(2) first, and if the client's time is over say so:
 * connection_timed_out().  How long it has tells connection_patience(), in
 * milliseconds patience_time(), and options_time() makes it shorter for tests
 * (--time-scale).  That is the time for the whole request, and not for each
 * call: note when this patience began (clock_milliseconds()), or a client who
 * sends a byte now and then holds you for ever.
 */
static void receive(struct serving *serving) {
    connection_abandon(&serving->connection);
}

/*
 * Stage 1, second half.  Send what the connection has:
 *
 *   - transmit() sends some of connection_pending(), with one system call, and
 *     says how many bytes went out.  The client may have room for less than
 *     all;
 *   - connection_sent(&serving->connection, (uint64_t)count): so many went
 *     out.  While some is left it needs NEED_SEND again.
 *
 * If transmit fails, or sends nothing (0: the file is shorter now):
 * connection_abandon(); EINTR and EAGAIN are no failures here, either.
 * Stage 3: a client who takes nothing for SEND_TIMEOUT is abandoned, too.  A
 * client that reads slowly but steadily is not: each byte starts SEND_TIMEOUT
 * again.
 */
static void send_some(struct serving *serving) {
    connection_abandon(&serving->connection);
}

/*
 * Stage 2.  Carry one command to Redis and bring its reply: borrow a connection
 * (redis_pool_borrow), call it (redis_pool_call with exchange_command), give
 * the reply to connection_replied(), return what you borrowed
 * (redis_pool_return), on every way out.  What may go wrong: there is none to
 * borrow (NULL); the call fails; the reply is not what the command asks for
 * (exchange_accepts).  Then connection_replied() is told NULL, and the client
 * is answered 503, as it is now.  And a reply that nobody asked for would be
 * taken for the next one's: `ask_once` in net/blocking.c closes such a
 * connection, `ask_redis` looks for one before a remark is stored.
 */
static void ask_redis(struct serving *serving) {
    connection_replied(&serving->connection, NULL);
}

/* One client from its first byte to its last.  Stage 1: when receive() and
   send_some() are written, take the three lines of `hello` away. */
static void serve(struct serving *serving) {
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"
                                "Connection: close\r\n\r\nHello!\n";
    send(serving->client->socket, hello, strlen(hello), MSG_NOSIGNAL);
    struct connection *connection = &serving->connection;
    enum connection_need need;

    connection_init(connection, &serving->server->app, &serving->moment,
                    architecture.requests_per_connection);
    while ((need = connection_need(connection)) != NEED_CLOSE) {
        switch (need) {
        case NEED_RECEIVE:
            receive(serving);
            break;
        case NEED_ASK_REDIS:
            ask_redis(serving);
            break;
        case NEED_KEEP: /* stage 5: not while server_is_stopping() */
            connection_keep(connection, true);
            break;
        case NEED_SEND:
            send_some(serving);
            break;
        case NEED_DONE:
            server_exchange_done(serving->server, serving->counters,
                                 serving->client, connection);
            connection_next(connection);
            break;
        case NEED_CLOSE:
            break;
        }
    }
    connection_free(connection);
    close(serving->client->socket);
}

/*
 * Stage 4: while one client is served, all others wait.  Who shall serve them?
 * A child, a thread, a pool of either, or an event loop (net/evented.h, with
 * which receive() and send_some() are not needed at all).  Whoever it is: add
 * its system calls above; give it a `struct client` of its own, not the address
 * of this one; mind what fork and pthread_create return when there is no more
 * (clients then wait, and nobody gives up); and see that who has served leaves
 * nothing behind: a child is waited for, a thread joined or detached, and after
 * fork() the parent closes the client, too.
 *
 * Stage 5: after the loop wait for those who serve, before you take down what
 * they use.  Some sleep: those must be woken, to see that server_is_stopping(),
 * and leave a client who is idle (connection_is_idle) at once, any other when
 * server_is_out_of_time().  04 and 05 show how with threads, 02 and 03 with
 * children (process/children.h).
 */
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
