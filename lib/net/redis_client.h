/* SPDX-License-Identifier: MIT */
/* One connection to Redis for callers that may sleep: 01 to 05. */
#ifndef NET_REDIS_CLIENT_H
#define NET_REDIS_CLIENT_H

#include "net/redis.h"
#include "proto/resp.h"

struct redis_client {
    const struct redis_server *server;
    int descriptor;       /* -1: not connected */
    bool ready;           /* AUTH and SELECT are behind us */
    unsigned connections; /* begun so far */
    int64_t used_at;      /* clock_milliseconds() of the last reply */
    struct buffer input;
    size_t taken;     /* bytes of the input that are the last reply */
    char reason[100]; /* of the last failure, for the log */
};

void redis_client_init(struct redis_client *client,
                       const struct redis_server *server);

/*
 * Carries one command to Redis and sleeps until its reply is whole, for twice
 * REDIS_REPLY_TIMEOUT at most; connects first where that is needed.  The reply
 * points into the client and is good until the next call.  Returns false when
 * Redis cannot be had: down, slow or talking nonsense.  The connection is then
 * closed, for a late reply would be taken for the next one's.
 */
bool redis_client_call(struct redis_client *client, struct view command,
                       struct resp_reply *reply);

/* Begins to connect without waiting, so that a forked child finds the
   connection under way and the parent still owns it. */
void redis_client_begin(struct redis_client *client);

void redis_client_close(struct redis_client *client);

#endif
