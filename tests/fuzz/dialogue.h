/* SPDX-License-Identifier: MIT */
/*
 * A connection and its client, whose actions a script decides, and the bytes
 * that both have sent.
 */
#pragma once

#include "app/app.h"
#include "app/connection.h"
#include "false_redis.h"

struct dialogue {
    struct connection connection;
    struct buffer outbox;    /* sent by the client and not yet received */
    struct buffer delivered; /* all that was received */
    size_t start;            /* offset of this request in `delivered` */
    struct buffer out;       /* bytes that this exchange has sent */
    struct buffer all;       /* responses; "refused" replaces an early one */
    struct buffer replies;   /* all replies of Redis to this connection */
    bool may_keep;           /* the last answer to NEED_KEEP */
    int64_t visitor;         /* the number in Redis' reply; 0: none */
    struct buffer link;      /* the text in Redis' reply; empty: none */
    bool lied;               /* Redis has sent a false reply to this exchange */
    bool cut; /* an event happened that the client did not cause */
    int answers;
};

/* The data that all connections of one run share. */
struct worker {
    struct app app;
    struct cached_time cached_time;
    struct false_redis redis;
    struct view script;   /* the unread bytes of the script */
    int allocations_left; /* for all connections; -1: no limit */
};
extern struct worker worker;

/* Returns the script's next byte; 0 at its end. */
unsigned script_next(void);

/* Returns true until the script has limited the memory. */
bool has_memory(void);

void dialogue_start(struct dialogue *dialogue, int requests);

enum connection_need dialogue_need(const struct dialogue *dialogue);

/* Makes one step: the script decides what happens to the connection. */
void dialogue_step(struct dialogue *dialogue);

/* Passes bytes to the connection as Redis' reply.  If the bytes are not a whole
   reply, Redis counts as unavailable. */
void dialogue_reply(struct dialogue *dialogue, struct view bytes);

void dialogue_free(struct dialogue *dialogue);
