/* SPDX-License-Identifier: MIT */
/* Waiting for a connection to Redis (lib/net/redis/pool.c), and replies that
   come too early (lib/net/redis/pipeline.c).  Takes 0.1 s. */
#include "config.h"
#include "harness.h"
#include "net/redis/pool.h"
#include "process/clock.h"
#include "process/stop.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- Early replies ---- */

enum { COMMANDS = 3 };

/* Sends only some bytes of the commands, and then receives a number of replies.
   Returns how many commands get a reply. */
static size_t count_confirmed(const struct redis_server *server, size_t sent,
                              size_t replies) {
    struct redis_pipeline pipeline;
    struct redis_waiter waiters[COMMANDS];
    struct resp_reply reply;
    size_t size, confirmed = 0;
    bool replied;

    redis_pipeline_init(&pipeline, server, NULL);
    pipeline.source.descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    pipeline.state = PIPELINE_OPEN;
    for (size_t i = 0; i < COMMANDS; i++)
        assert_true(
            redis_pipeline_append(&pipeline, VIEW("abc"), &waiters[i], 0));
    redis_pipeline_sent(&pipeline, (ssize_t)sent, 0);
    char *room = redis_pipeline_room(&pipeline, &size);
    memcpy(room, ":1\r\n:1\r\n:1\r\n", 4 * replies);
    redis_pipeline_received(&pipeline, (ssize_t)(4 * replies), 0);
    while (redis_pipeline_take(&pipeline, &reply, &replied, 0) != NULL)
        confirmed += replied;
    redis_pipeline_close(&pipeline);
    return confirmed;
}

/* Only a command that was sent to its last byte gets a reply.  If there are too
   many replies, the last of these commands gets none either. */
TEST(early_replies_confirm_nothing) {
    struct redis_server server;

    redis_parse(&server, "unix:/none");
    for (size_t sent = 0; sent <= COMMANDS * strlen("abc"); sent++)
        for (size_t replies = 1; replies <= COMMANDS; replies++) {
            size_t whole = sent / strlen("abc");
            size_t valid = replies <= whole ? replies
                           : whole > 0      ? whole - 1
                                            : 0;
            assert_int_equal(count_confirmed(&server, sent, replies), valid);
        }
}
