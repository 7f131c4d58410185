/* SPDX-License-Identifier: MIT */
/*
 * NAME: a server of your own.  (Write its idea here, in one sentence.)
 *
 * It compiles and runs as it is: it sends every client the same response, one
 * client after another.  You make it a complete server in five stages.  Each
 * stage has a command that checks it:
 *
 *     1  bytes in, bytes out   receive() and send_some()
 *            make grade SERVER=FOLDER ARGS='--only serves bad-input'
 *     2  Redis                 ask_redis(), for the guestbook
 *            make grade SERVER=FOLDER ARGS='--only serves redis'
 *     3  timeouts              a silent client must not block the server
 *            make grade SERVER=FOLDER ARGS='--only silent'
 *     4  many at once          your architecture, the loop in main()
 *            make grade SERVER=FOLDER \
 *                ARGS='--only races silent leaves-nothing load'
 *     5  the end               on SIGTERM finish open requests, then exit
 *            make grade SERVER=FOLDER ARGS='--only ends'
 *
 *     all stages: make grade SERVER=FOLDER
 *
 * The project has the command line, the listening socket, the application
 * (net/server.h), HTTP and the guestbook (app/connection.h).  You write the
 * architecture: which process or thread waits, and where.
 *
 * Then answer in this comment, as the seven servers do: Who waits, and where?
 * Where is a half-done request stored?  What does it cost?  What happens at
 * the limit?
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

/* .calls lists the system calls that your architecture needs in addition to
   those of lib/.  After server_ready() all others fail, and their numbers are
   printed on standard error.  In stage 4 add the calls of your architecture:
   for threads THREADED_CALLS and THREAD_CREATING_CALLS, for children
   FORKING_CALLS, for epoll CALL(epoll_wait), CALL(epoll_ctl).

   A server with a fixed number of workers adds .has_workers = true.  The option
   --workers then sets server.options.workers, and server.counters has one
   element for each worker.  Without .has_workers, server.options.workers is 1,
   and server.counters has one element. */
static const struct architecture architecture = {
    .name = "NAME",
    .summary = "a server of your own",
    .requests_per_connection = 1, /* stage 3: KEEP_ALIVE_REQUESTS */
    .calls = {CALL(poll), CALL(fcntl)},
};

/* The data of one client. */
struct blocking_conn {
    struct server *server;
    struct redis_pool *redis;
    struct counters *counters;
    const struct client *client;
    struct cached_time cached_time; /* the time, for the application */
    struct connection connection;   /* decides what to do next */
};

/*
 * Stage 1, first half.  Give the connection the bytes that the client sends:
 *
 *   - connection_room() returns where to put bytes, and how many;
 *   - recv(2) puts them there.  It may return only a part of the request;
 *   - cached_time_set(&conn->cached_time, time(NULL)) gives the application
 *     the time;
 *   - connection_received(&conn->connection, (size_t)count) reports the
 *     bytes received (0: the client sends no more), and sets the next need.
 *
 * If recv fails, call connection_abandon().  EINTR (a signal arrived) and
 * EAGAIN (no bytes are there) are not failures: the need stays NEED_RECEIVE.
 *
 * Stage 3: wait with poll(2) first.  If the time limit is over, call
 * connection_timed_out().  connection_timeout() returns the kind of limit,
 * timeout_milliseconds() its length, and options_time() shortens this length
 * for tests (--time-scale).  This limit is for the whole request, not for each
 * call.  So note when this limit began (clock_milliseconds()); otherwise a
 * client that sends a byte from time to time blocks the server forever.
 */
static void receive(struct blocking_conn *conn) {
    connection_abandon(&conn->connection);
}

/*
 * Stage 1, second half.  Send the pending bytes of the connection:
 *
 *   - transmit() sends some of connection_pending(), with one system call, and
 *     returns how many bytes it sent.  The socket may not have room for all
 *     bytes;
 *   - connection_sent(&conn->connection, (uint64_t)count) reports the bytes
 *     sent.  If more bytes are pending, the need is NEED_SEND again.
 *
 * If transmit fails, or sends nothing (0: the file is shorter now), call
 * connection_abandon().  EINTR and EAGAIN are not failures here, either.
 *
 * Stage 3: also abandon a client that reads no byte for SEND_TIMEOUT.  Keep a
 * client that reads slowly: each byte restarts the timeout.
 */
static void send_some(struct blocking_conn *conn) {
    connection_abandon(&conn->connection);
}

/*
 * Stage 2.  Send one command to Redis and receive its reply.  Borrow a
 * connection (redis_pool_borrow), use it (redis_pool_call with
 * exchange_command), and pass the reply to connection_replied().  Return the
 * connection (redis_pool_return) in every case.  Three things can fail.  If no
 * connection is available (NULL), or if the call fails, pass NULL: the client
 * receives a 503, as it does now.  If the reply has the wrong type,
 * connection_replied() returns false, and the client receives a 502.  Such a
 * reply may belong to another command.  In net/blocking.c, `ask_once` closes
 * such a connection, and `ask_redis` checks a connection before a remark is
 * stored.
 */
static void ask_redis(struct blocking_conn *conn) {
    connection_replied(&conn->connection, NULL);
}

/* Serves one client from its first byte to its last.  Stage 1: after you have
   written receive() and send_some(), delete the three lines of `hello`. */
static void serve(struct blocking_conn *conn) {
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"
                                "Connection: close\r\n\r\nHello!\n";
    send(conn->client->socket, hello, strlen(hello), MSG_NOSIGNAL);
    struct connection *connection = &conn->connection;
    enum connection_need need;

    connection_init(connection, &conn->server->app, &conn->cached_time,
                    architecture.requests_per_connection);
    while ((need = connection_need(connection)) != NEED_CLOSE) {
        switch (need) {
        case NEED_RECEIVE:
            receive(conn);
            break;
        case NEED_ASK_REDIS:
            ask_redis(conn);
            break;
        case NEED_KEEP: /* stage 4: false if a client waits for a worker;
                           stage 5: false if server_is_stopping() */
            connection_keep(connection, true);
            break;
        case NEED_SEND:
            send_some(conn);
            break;
        case NEED_DONE:
            server_exchange_done(conn->server, conn->counters, conn->client,
                                 connection);
            connection_next(connection);
            break;
        case NEED_CLOSE:
            break;
        }
    }
    connection_free(connection);
    close(conn->client->socket);
}

/*
 * Stage 4: while one client is served, all others wait.  What should serve the
 * other clients: a child or a thread each, a pool of children or threads, or an
 * event loop?  (net/evented.h needs no receive() and send_some().)  Add the
 * system calls that you need to .calls.  Give each child or thread its own
 * `struct client`, not the address of the variable in main().  Handle the
 * errors of fork and pthread_create at a limit: clients then wait, and the
 * server continues.  Leave no resources behind: wait for each child, join or
 * detach each thread, close the client's socket in the parent after fork().
 *
 * Stage 5: after the loop wait for the children or threads before you free the
 * data that they use.  Wake the children or threads that sleep, so that they
 * test server_is_stopping().  Each must then close an idle connection
 * (connection_is_idle) at once, unless the next request is there already.  When
 * server_is_out_of_time(), each must close any other connection, too.  04 and
 * 05 show this with threads, 02 and 03 with children (net/children.h).
 */
int main(int argc, char **argv) {
    struct server server;
    struct redis_pool redis;
    struct client client;

    server_start(&server, &architecture, argc, argv);
    redis_pool_init(&redis, &server.redis);

    server_ready(&server);
    while (!server_shut_if_drained())
        if (server_accept(&server, 0, &client)) {
            struct blocking_conn conn = {.server = &server,
                                         .redis = &redis,
                                         .counters = server.counters,
                                         .client = &client};
            serve(&conn);
        }

    redis_pool_destroy(&redis);
    return server_end(&server);
}
