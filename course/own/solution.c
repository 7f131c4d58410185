/* SPDX-License-Identifier: MIT */
/*
 * The completed skeleton (course/own/main.c): one of many right solutions.
 * Threads made at the start take clients from a queue, and each drives the
 * connection of one client at a time.
 */
#include "config.h"
#include "net/redis/pool.h"
#include "net/server.h"
#include "net/transmit.h"
#include "process/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const struct architecture architecture = {
    .name = "NAME",
    .summary = "threads and a queue, written from the skeleton",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .has_workers = true,
    .calls = {CALL(poll), CALL(fcntl), THREADED_CALLS, THREAD_CREATING_CALLS},
};

/* A thread that waits for its client checks at this interval (in milliseconds)
   whether the server stops. */
#define LOOK      100
#define QUEUE_FOR 32 /* few, so that files and Redis have descriptors, too */

/* The data of one client. */
struct blocking_conn {
    struct server *server;
    struct redis_pool *redis;
    struct counters *counters;
    const struct client *client;
    struct cached_time cached_time;
    struct connection connection;
    enum timeout awaited; /* the kind of the current time limit */
    int64_t since;        /* when it began, clock_milliseconds() */
};

static struct server server;
static struct redis_pool redis;
static struct counters *counters;

/* ---- Stage 3: timeouts ---- */

/* Returns the milliseconds that the client has left. */
static int64_t time_left(struct blocking_conn *conn) {
    enum timeout timeout = connection_timeout(&conn->connection);

    if (timeout != conn->awaited) {
        conn->awaited = timeout;
        conn->since = clock_milliseconds();
    }
    int whole =
        options_time(&conn->server->options, timeout_milliseconds(timeout));
    return conn->since + whole - clock_milliseconds();
}

/* Sleeps until the client is ready, at most LOOK milliseconds at a time.
   Returns false if the time limit of the client or of the stopping server is
   over, or if the server stops and the client is idle. */
static bool wait_for(struct blocking_conn *conn, short event) {
    struct pollfd client = {.fd = conn->client->socket, .events = event};

    while (time_left(conn) > 0 && !server_is_out_of_time()) {
        bool leave =
            server_is_stopping() && connection_is_idle(&conn->connection);
        if (poll(&client, 1, leave ? 0 : LOOK) > 0)
            return true; /* perhaps a request that came before the signal */
        if (leave)
            return false;
    }
    return false;
}

/* ---- Stage 1: bytes in, bytes out ---- */

static void receive(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    size_t size;

    char *room = connection_room(connection, &size);
    if (room == NULL) {
        connection_abandon(connection);
        return;
    }
    if (!wait_for(conn, POLLIN)) {
        connection_timed_out(connection);
        return;
    }
    ssize_t count = recv(conn->client->socket, room, size, MSG_DONTWAIT);
    cached_time_set(&conn->cached_time, time(NULL));
    if (count >= 0)
        connection_received(connection, (size_t)count);
    else if (errno != EAGAIN && errno != EINTR)
        connection_abandon(connection);
}

/* Sends some of the pending bytes; the connection counts what is left. */
static void send_some(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;

    if (!wait_for(conn, POLLOUT)) {
        connection_abandon(connection);
        return;
    }
    ssize_t count =
        transmit(conn->client->socket, connection_pending(connection));
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return; /* not sent: serve() calls this function again */
    if (count <= 0)
        connection_abandon(connection);
    else
        connection_sent(connection, (uint64_t)count);
    conn->since = clock_milliseconds();
}

/* ---- Stage 2: Redis ---- */

static void ask_redis(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    struct exchange *exchange = &connection->exchange;
    struct redis_client *client = redis_pool_borrow(conn->redis);
    struct resp_reply reply;

    if (client == NULL) {
        connection_replied(connection, NULL);
        return;
    }
    if (exchange_changes_data(exchange))
        redis_client_check_before_use(client);
    bool called = redis_pool_call(conn->redis, &client,
                                  exchange_command(exchange), &reply);
    bool fits = connection_replied(connection, called ? &reply : NULL);
    if (called && !fits && reply.type != RESP_ERROR)
        redis_client_close(client); /* its next reply may not be for us */
    redis_pool_return(conn->redis, client);
}

/* ---- One client ---- */

static bool others_wait(void); /* see stage 4 */

static void serve(struct blocking_conn *conn) {
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
        case NEED_KEEP:
            connection_keep(connection,
                            !server_is_stopping() && !others_wait());
            break;
        case NEED_SEND:
            send_some(conn);
            break;
        case NEED_DONE:
            server_exchange_done(conn->server, conn->counters, conn->client,
                                 connection);
            connection_next(connection);
            conn->awaited = TIMEOUT_NONE;
            break;
        case NEED_CLOSE:
            break;
        }
    }
    connection_free(connection);
    close(conn->client->socket);
}

/* ---- Stage 4: many at once ---- */

static struct queue {
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t filled, has_room;
    struct client clients[QUEUE_FOR];
    size_t first, count;
    bool closed;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .filled = PTHREAD_COND_INITIALIZER,
           .has_room = PTHREAD_COND_INITIALIZER};

/* Returns true if a client waits for a thread. */
static bool others_wait(void) {
    pthread_mutex_lock(&queue.lock);
    bool wait = queue.count > 0;
    pthread_mutex_unlock(&queue.lock);
    return wait;
}

static void queue_put(const struct client *client) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == QUEUE_FOR)
        pthread_cond_wait(&queue.has_room, &queue.lock);
    queue.clients[(queue.first + queue.count) % QUEUE_FOR] = *client;
    queue.count++;
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_signal(&queue.filled);
}

/* Returns false if the queue is closed and empty. */
static bool queue_take(struct client *client) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && !queue.closed)
        pthread_cond_wait(&queue.filled, &queue.lock);
    bool taken = queue.count > 0;
    if (taken) {
        *client = queue.clients[queue.first];
        queue.first = (queue.first + 1) % QUEUE_FOR;
        queue.count--;
    }
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_signal(&queue.has_room);
    return taken;
}

static void *work(void *number) {
    struct client client;

    while (queue_take(&client)) {
        struct blocking_conn conn = {.server = &server,
                                     .redis = &redis,
                                     .counters = &counters[*(size_t *)number],
                                     .client = &client};
        serve(&conn);
    }
    return NULL;
}

/* ---- Stage 5: the end ---- */

static void end_threads(const pthread_t *threads, size_t count) {
    pthread_mutex_lock(&queue.lock);
    queue.closed = true;
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_broadcast(&queue.filled);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    static pthread_t threads[WORKERS_LIMIT];
    static size_t numbers[WORKERS_LIMIT];
    struct client client;

    server_start(&server, &architecture, argc, argv);
    redis_pool_init(&redis, &server.redis);
    counters = server.counters;
    size_t count = server.options.workers;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0)
            server_fatal("cannot create thread %zu", i + 1);
    }

    server_ready(&server);
    while (!server_shut_if_drained())
        if (server_accept(&server, 0, &client))
            queue_put(&client);

    end_threads(threads, count);
    redis_pool_destroy(&redis);
    return server_end(&server);
}
