/* SPDX-License-Identifier: MIT */
/* Waiting for a connection to Redis: lib/net/redis/pool.c.  Takes 0.1 s. */
#include "config.h"
#include "harness.h"
#include "net/redis/pool.h"
#include "process/clock.h"
#include "process/stop.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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
    unsigned count = pool->waiting;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

/* When a new connection is returned, one waiting thread receives it, and
   another thread may connect. */
TEST(one_return_serves_two_borrowers) {
    struct redis_server server;
    struct redis_pool pool;
    struct redis_client *clients[REDIS_NEW_AT_ONCE];
    struct borrower borrowers[BORROWERS];

    redis_parse(&server, "unix:/none");
    redis_pool_init(&pool, &server);
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
    clients[0]->pipeline.source.descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    clients[0]->used_at = clock_milliseconds(); /* not idle: it is kept */
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
