/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a connection to Redis, and which replies are expected:
 * ops/pool.c and pipeline.c.  Takes 0.1 s.
 */
#include "../../ops/limits.h"
#include "harness.h"
#include "net/redis/pipeline.h"
#include "net/redis/pool.h"
#include "process/clock.h"
#include "process/stop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- The pool ---- */

enum { BORROWERS = 2 };

struct borrower {
    pthread_t thread;
    struct redis_pool *pool;
    struct redis_client *client;
    int64_t waited; /* milliseconds */
};

static void *borrow(void *argument) {
    struct borrower *borrower = argument;
    int64_t begun = clock_milliseconds();

    borrower->client = redis_pool_borrow(borrower->pool);
    borrower->waited = clock_milliseconds() - begun;
    return NULL;
}

static unsigned count_borrowing(struct redis_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    unsigned count = pool->borrowing;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

/* A new connection that is returned is enough for two threads: one takes it,
   and the other may begin a connection.  No other return wakes the second. */
static void one_return_serves_two_borrowers(void **state) {
    struct redis_server server;
    struct redis_pool pool;
    struct redis_client *clients[REDIS_NEW_AT_ONCE];
    struct borrower borrowers[BORROWERS];
    char error[200];
    (void)state;

    assert_int_equal(redis_parse(&server, "unix:/none", error, sizeof error),
                     0);
    redis_pool_init(&pool, &server, true);
    for (size_t i = 0; i < REDIS_NEW_AT_ONCE; i++)
        assert_non_null(clients[i] = redis_pool_borrow(&pool));
    for (size_t i = 0; i < BORROWERS; i++) {
        borrowers[i] = (struct borrower){.pool = &pool};
        assert_int_equal(
            pthread_create(&borrowers[i].thread, NULL, borrow, &borrowers[i]),
            0);
    }
    while (count_borrowing(&pool) < BORROWERS)
        poll(NULL, 0, 1);
    clients[0]->descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    clients[0]->used_at = clock_milliseconds(); /* or it would be closed */
    redis_pool_return(&pool, clients[0]);
    for (size_t i = 0; i < BORROWERS; i++) {
        pthread_join(borrowers[i].thread, NULL);
        assert_true(borrowers[i].waited < REDIS_REPLY_TIMEOUT);
        redis_pool_return(&pool, borrowers[i].client);
    }
    for (size_t i = 1; i < REDIS_NEW_AT_ONCE; i++)
        redis_pool_return(&pool, clients[i]);
    redis_pool_destroy(&pool);
}

/* ---- The pipeline ---- */

static bool watch(void *loop, struct event_source *source, unsigned interest) {
    (void)loop;
    (void)source;
    (void)interest;
    return true;
}

/* A listener with a small receive buffer. */
static int listen_narrowly(char *url, size_t size) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int little = 4096;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(
        getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(url, size, "redis://127.0.0.1:%d/3", ntohs(address.sin_port));
    return listener;
}

static void append(struct redis_pipeline *pipeline, size_t length) {
    struct buffer word = {0}, command = {0};

    append_times(&word, VIEW("x"), length);
    struct view words[] = {VIEW("RPUSH"), buffer_view(&word)};
    resp_append_command(&command, words, 2);
    assert_true(redis_pipeline_append(pipeline, buffer_view(&command), 1));
    buffer_free(&word);
    buffer_free(&command);
}

/* What the first send leaves behind has not left: so of three commands after a
   SELECT only the first two have begun to leave, and a third reply is one too
   many. */
static void replies_are_expected_for_what_has_left(void **state) {
    struct redis_server server;
    struct event_loop loop = {.watch = watch};
    struct redis_pipeline pipeline;
    struct resp_reply reply;
    char url[100], error[200];
    (void)state;

    int listener = listen_narrowly(url, sizeof url);
    assert_int_equal(redis_parse(&server, url, error, sizeof error), 0);
    redis_pipeline_init(&pipeline, &server, &loop);
    append(&pipeline, 10);
    append(&pipeline, REDIS_BACKLOG_LIMIT / 2);
    append(&pipeline, 10);
    int redis = accept(listener, NULL, NULL);
    assert_true(redis_pipeline_flush(&pipeline, 1));
    assert_true(pipeline.output.length > pipeline.gone);
    assert_int_equal(pipeline.expected, 3); /* SELECT's as well */
    assert_int_equal(send(redis, "+OK\r\n:1\r\n:2\r\n", 13, 0), 13);
    struct pollfd readable = {.fd = pipeline.source.descriptor,
                              .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 10000), 1);
    assert_true(redis_pipeline_fill(&pipeline, 1));
    assert_int_equal(redis_pipeline_next(&pipeline, &reply, 1), 1);
    assert_int_equal(redis_pipeline_next(&pipeline, &reply, 1), 1);
    assert_int_equal(reply.integer, 2);
    assert_int_equal(pipeline.due, 1);
    assert_int_equal(send(redis, ":3\r\n", 4, 0), 4);
    assert_int_equal(poll(&readable, 1, 10000), 1);
    assert_true(redis_pipeline_fill(&pipeline, 1));
    assert_int_equal(redis_pipeline_next(&pipeline, &reply, 1), -1);
    assert_true(!server.shared->down); /* other connections work */
    redis_pipeline_close(&pipeline);
    close(redis);
    close(listener);
}

int main(void) {
    suite_add("one return serves two", one_return_serves_two_borrowers, NULL);
    suite_add("expected replies", replies_are_expected_for_what_has_left, NULL);
    return suite_run("redis");
}
