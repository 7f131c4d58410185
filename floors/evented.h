/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the baselines with an event loop (06, 07): a client's few
 * states, and one connection to Redis for all of them.
 *
 * Commands of one loop iteration leave in one write.  Redis answers in the
 * order of the commands, so the client that has waited longest gets the reply.
 *
 * Simplifications: commands are sent by a call that sleeps while Redis has no
 * room for more.  It soon has, because it always keeps reading.  A client that
 * leaves while it waits for Redis is noticed when it is answered; until then
 * each loop iteration reports it, and the loop never sleeps.
 */
#ifndef FLOOR_EVENTED_H
#define FLOOR_EVENTED_H

#include "floor.h"

#include <fcntl.h>

enum interest { TO_READ, TO_WRITE };

/* Supplied by the program.  The descriptor may be watched already. */
static void watch(int descriptor, enum interest interest);
/* It may be watched or not. */
static void stop_watching(int descriptor);

struct client {
    enum { READS, ASKS, WRITES } state;
    unsigned asked; /* commands that Redis has answered */
    size_t sent;    /* bytes of the answer */
};

static struct {
    struct floor floor;
    struct client *clients; /* by descriptor */
    size_t limit;           /* of descriptors */
    int redis;              /* -1: none */
    char *commands;         /* of this loop iteration */
    size_t commands_length;
    int *waiting; /* for Redis: a ring of descriptors */
    size_t first, count;
    char replies[REPLY_SIZE];
    size_t replies_length;
} loop;

static inline void loop_start(int argc, char **argv) {
    const struct commands *asks = &loop.floor.redis.asks;
    size_t longest = 1;

    floor_start(&loop.floor, argc, argv);
    for (size_t i = 0; i < asks->count; i++)
        if (asks->list[i].length > longest)
            longest = asks->list[i].length;
    loop.redis = floor_connect(&loop.floor.redis);
    loop.limit = (size_t)sysconf(_SC_OPEN_MAX);
    /* Only the used pages of these take memory. */
    loop.clients = calloc(loop.limit, sizeof loop.clients[0]);
    loop.waiting = calloc(loop.limit, sizeof loop.waiting[0]);
    loop.commands = calloc(loop.limit, longest);
    if (loop.clients == NULL || loop.waiting == NULL || loop.commands == NULL ||
        fcntl(loop.floor.listener, F_SETFL, O_NONBLOCK) < 0)
        floor_give_up("start");
}

static inline void loop_end_client(int descriptor) {
    stop_watching(descriptor);
    loop.clients[descriptor] = (struct client){0};
    close(descriptor);
}

/* Adds the client's next command to those of this loop iteration. */
static inline void loop_ask(int descriptor) {
    struct client *client = &loop.clients[descriptor];
    const struct command *command = &loop.floor.redis.asks.list[client->asked];

    client->state = ASKS;
    memcpy(loop.commands + loop.commands_length, command->bytes,
           command->length);
    loop.commands_length += command->length;
    loop.waiting[(loop.first + loop.count++) % loop.limit] = descriptor;
}

static inline void loop_answer(int descriptor) {
    struct client *client = &loop.clients[descriptor];
    ssize_t count = floor_send(&loop.floor, descriptor, client->sent);

    if (count < 0 && errno != EAGAIN) {
        loop_end_client(descriptor);
        return;
    }
    client->sent += count < 0 ? 0 : (size_t)count;
    if (client->sent < loop.floor.bytes) {
        client->state = WRITES;
        watch(descriptor, TO_WRITE);
    } else if (loop.floor.keep_alive) {
        *client = (struct client){0};
        watch(descriptor, TO_READ);
    } else {
        loop_end_client(descriptor);
    }
}

/* Something has happened to a client, or it is new. */
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

/* Often the request is there already: then the client need not be watched. */
static inline void loop_accept(void) {
    int client;

    while ((client = accept4(loop.floor.listener, NULL, NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        loop_serve(client);
}

/* Gives each reply to the client that has waited longest. */
static inline void loop_hear_redis(void) {
    size_t at = 0, length;

    /* NOLINTNEXTLINE: without Redis there is nothing to watch and to read */
    ssize_t got = recv(loop.redis, loop.replies + loop.replies_length,
                       sizeof loop.replies - loop.replies_length, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        floor_give_up("Redis");
    loop.replies_length += (size_t)got;
    while (loop.count > 0 &&
           (length = floor_reply_length(loop.replies + at,
                                        loop.replies_length - at)) > 0) {
        int descriptor = loop.waiting[loop.first];
        at += length;
        loop.first = (loop.first + 1) % loop.limit;
        loop.count--;
        if (++loop.clients[descriptor].asked < loop.floor.redis.asks.count)
            loop_ask(descriptor);
        else
            loop_answer(descriptor);
    }
    loop.replies_length -= at;
    memmove(loop.replies, loop.replies + at, loop.replies_length);
}

/* Sends all commands of a loop iteration in one write, at its end. */
static inline void loop_tell_redis(void) {
    size_t sent = 0;

    while (sent < loop.commands_length) {
        /* NOLINTNEXTLINE: nor is there a command */
        ssize_t count = send(loop.redis, loop.commands + sent,
                             loop.commands_length - sent, 0);
        if (count < 0)
            floor_give_up("Redis");
        sent += (size_t)count;
    }
    loop.commands_length = 0;
}

#endif
