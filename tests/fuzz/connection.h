/* SPDX-License-Identifier: MIT */
/*
 * One connection that is driven by a script: its client, its exchange, and what
 * both have said.
 */
#ifndef FUZZ_CONNECTION_H
#define FUZZ_CONNECTION_H

#include "app/exchange.h"
#include "false_redis.h"

struct connection {
    struct exchange exchange;
    enum exchange_need need;
    struct buffer outbox;    /* sent by the client and not yet received */
    struct buffer delivered; /* all that was received */
    size_t start;            /* of this request, in `delivered` */
    struct buffer out;       /* what this exchange has sent */
    struct buffer all;       /* the heads and bodies of all final responses */
    struct buffer replies;   /* all that Redis has said to it */
    bool may_keep;           /* what was said when this was asked */
    int64_t visitor;         /* the number that Redis told; 0: none */
    struct buffer link;      /* the text that it told; empty: none */
    bool lied;               /* Redis, to this exchange */
    bool cut; /* something happened that is not in the bytes of the client */
    int answers;
};

/* What all connections of one run share. */
struct worker {
    struct app app;
    struct moment moment;
    struct false_redis redis;
    struct view script;   /* what is left of it */
    int allocations_left; /* those that exchanges may make; -1: any number */
};
extern struct worker worker;

/* The script's next byte; 0 when there is none left. */
unsigned script_next(void);

bool has_memory(void); /* it has not begun to run out */

void connection_start(struct connection *connection, int requests);

/* Meets its need, as the script says: of what may happen now, one thing. */
void connection_step(struct connection *connection);

/* Redis replies; with bytes that are no fitting reply it is as good as down. */
void connection_reply(struct connection *connection, struct view bytes);

void connection_free(struct connection *connection);

#endif
