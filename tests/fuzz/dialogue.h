/* SPDX-License-Identifier: MIT */
/*
 * One connection that is driven by a script, its client, and the bytes that
 * both have sent.
 */
#ifndef FUZZ_DIALOGUE_H
#define FUZZ_DIALOGUE_H

#include "app/app.h"
#include "app/connection.h"
#include "false_redis.h"

struct dialogue {
    struct connection connection;
    struct buffer outbox;    /* sent by the client and not yet received */
    struct buffer delivered; /* all that was received */
    size_t start;            /* of this request, in `delivered` */
    struct buffer out;       /* what this exchange has sent */
    struct buffer all;       /* the heads and bodies of all final responses */
    struct buffer replies;   /* all that Redis has sent to it */
    bool may_keep;           /* the last answer to NEED_KEEP */
    int64_t visitor;         /* the number in Redis' reply; 0: none */
    struct buffer link;      /* the text in its reply; empty: none */
    bool lied;               /* Redis, to this exchange */
    bool cut; /* something happened that is not in the bytes of the client */
    int answers;
};

/* What all connections of one run share. */
struct worker {
    struct app app;
    struct cached_time cached_time;
    struct false_redis redis;
    struct view script;   /* what is left of it */
    int allocations_left; /* those that connections may make; -1: any number */
};
extern struct worker worker;

/* The script's next byte; 0 when there is none left. */
unsigned script_next(void);

bool has_memory(void); /* it has not begun to run out */

void dialogue_start(struct dialogue *dialogue, int requests);

enum connection_need dialogue_need(const struct dialogue *dialogue);

/* Does one of the things that may happen now, as the script says. */
void dialogue_step(struct dialogue *dialogue);

/* Redis replies; bytes that are no fitting reply count as "down". */
void dialogue_reply(struct dialogue *dialogue, struct view bytes);

void dialogue_free(struct dialogue *dialogue);

#endif
