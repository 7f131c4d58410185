/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the baselines with an event loop (06 to 09): their clients,
 * and one connection to Redis for all of them.
 *
 * The commands of one loop iteration are sent together.  Redis answers in the
 * order of the commands, so each reply belongs to the client that has waited
 * longest.
 */
#pragma once

#include "baseline.h"

#include <fcntl.h>

/* Supplied by the program: sends the answer, after all replies of Redis. */
static void loop_answer(int descriptor);

struct client {
    enum { READS, ASKS, WRITES } state;
    unsigned asked; /* commands that Redis has answered */
    size_t sent;    /* bytes of the answer */
};

static struct {
    struct baseline baseline;
    struct client *clients; /* by descriptor */
    size_t limit;           /* of descriptors */
    int redis;              /* -1: none */
    char *commands;         /* of this loop iteration */
    size_t commands_length;
    int *waiting; /* clients that wait for Redis: a ring of descriptors */
    size_t first, count;
    char replies[REPLY_SIZE];
    size_t replies_length;
} loop;

static inline void loop_start(int argc, char **argv) {
    const struct commands *asks = &loop.baseline.redis.asks;
    size_t longest = 1;

    baseline_start(&loop.baseline, argc, argv);
    for (size_t i = 0; i < asks->count; i++)
        if (asks->list[i].length > longest)
            longest = asks->list[i].length;
    loop.redis = baseline_connect(&loop.baseline.redis);
    loop.limit = (size_t)sysconf(_SC_OPEN_MAX);
    /* Only the used pages of these arrays take memory. */
    loop.clients = calloc(loop.limit, sizeof loop.clients[0]);
    loop.waiting = calloc(loop.limit, sizeof loop.waiting[0]);
    loop.commands = calloc(loop.limit, longest);
    if (loop.clients == NULL || loop.waiting == NULL || loop.commands == NULL ||
        fcntl(loop.baseline.listener, F_SETFL, O_NONBLOCK) < 0)
        baseline_fatal("start");
}

/* Adds the client's next command to those of this loop iteration. */
static inline void loop_ask(int descriptor) {
    struct client *client = &loop.clients[descriptor];
    const struct command *command =
        &loop.baseline.redis.asks.list[client->asked];

    client->state = ASKS;
    memcpy(loop.commands + loop.commands_length, command->bytes,
           command->length);
    loop.commands_length += command->length;
    loop.waiting[(loop.first + loop.count++) % loop.limit] = descriptor;
}

/* Takes `got` received bytes of replies; passes each reply to its client. */
static inline void loop_take_replies(size_t got) {
    size_t at = 0, length;

    loop.replies_length += got;
    while (loop.count > 0 &&
           (length = baseline_reply_length(loop.replies + at,
                                           loop.replies_length - at)) > 0) {
        int descriptor = loop.waiting[loop.first];
        at += length;
        loop.first = (loop.first + 1) % loop.limit;
        loop.count--;
        if (++loop.clients[descriptor].asked < loop.baseline.redis.asks.count)
            loop_ask(descriptor);
        else
            loop_answer(descriptor);
    }
    loop.replies_length -= at;
    memmove(loop.replies, loop.replies + at, loop.replies_length);
}
