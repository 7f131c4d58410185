/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the baselines that wait until a descriptor is ready (06, 07,
 * 09): the states of a client.
 *
 * Simplifications: commands are sent by a call that sleeps while Redis has no
 * room for more.  Redis soon has room, because it always reads.  If a client
 * leaves while it waits for Redis, the loop closes the connection when the
 * reply comes.  Until then poll() or epoll_wait() reports the client in each
 * iteration, and the loop never sleeps.
 */
#pragma once

#include "asking.h"

enum interest { TO_READ, TO_WRITE };

/* Supplied by the program.  The descriptor may be watched already. */
static void watch(int descriptor, enum interest interest);
/* The descriptor may be watched or not. */
static void stop_watching(int descriptor);

static inline void loop_end_client(int descriptor) {
    stop_watching(descriptor);
    loop.clients[descriptor] = (struct client){0};
    close(descriptor);
}

static void loop_answer(int descriptor) {
    struct client *client = &loop.clients[descriptor];
    ssize_t count = baseline_send(&loop.baseline, descriptor, client->sent);

    if (count < 0 && errno != EAGAIN) {
        loop_end_client(descriptor);
        return;
    }
    client->sent += count < 0 ? 0 : (size_t)count;
    if (client->sent < loop.baseline.bytes) {
        client->state = WRITES;
        watch(descriptor, TO_WRITE);
    } else if (loop.baseline.keep_alive) {
        *client = (struct client){0};
        watch(descriptor, TO_READ);
    } else {
        loop_end_client(descriptor);
    }
}

/* Serves a client that is new, or whose descriptor is ready. */
static inline void loop_serve(int descriptor) {
    char request[RECEIVE_SIZE];
    struct client *client = &loop.clients[descriptor];

    if (client->state == WRITES) {
        loop_answer(descriptor);
        return;
    }
    if (client->state == ASKS)
        return;
    ssize_t got = recv(descriptor, request, sizeof request, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        watch(descriptor, TO_READ);
    else if (got <= 0)
        loop_end_client(descriptor);
    else if (loop.redis >= 0)
        loop_ask(descriptor);
    else
        loop_answer(descriptor);
}

/* If the request has already arrived, the client need not be watched. */
static inline void loop_accept(void) {
    int client;

    while ((client = accept4(loop.baseline.listener, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        loop_serve(client);
}

static inline void loop_receive_redis(void) {
    /* NOLINTNEXTLINE: without Redis no descriptor is watched */
    ssize_t got = recv(loop.redis, loop.replies + loop.replies_length,
                       sizeof loop.replies - loop.replies_length, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        baseline_fatal("Redis");
    loop_take_replies((size_t)got);
}

/* Sends all commands of a loop iteration in one write, at its end. */
static inline void loop_send_redis(void) {
    size_t sent = 0;

    while (sent < loop.commands_length) {
        /* NOLINTNEXTLINE: not reached without a command */
        ssize_t count = send(loop.redis, loop.commands + sent,
                             loop.commands_length - sent, 0);
        if (count < 0)
            baseline_fatal("Redis");
        sent += (size_t)count;
    }
    loop.commands_length = 0;
}
