/* SPDX-License-Identifier: MIT */
/* One connection to Redis for callers that may sleep: 01 to 05. */
#ifndef NET_REDIS_CLIENT_H
#define NET_REDIS_CLIENT_H

#include "net/redis/pipeline.h"

struct redis_client {
    struct redis_pipeline pipeline; /* of one command at a time */
    bool lent;                      /* the parent has the connection, too */
    bool fresh;                /* for pool.c: never returned to the pool yet */
    int64_t used_at;           /* clock_milliseconds() of the last use */
    size_t counted;            /* memory of a long reply, see budget_count() */
    struct redis_client *next; /* in a pool */
};

/* Returns a client that is not connected yet; NULL: out of memory. */
struct redis_client *redis_client_create(const struct redis_server *server);
void redis_client_destroy(struct redis_client *client); /* closes it */

static inline bool redis_client_is_open(const struct redis_client *client) {
    return client->pipeline.source.descriptor >= 0;
}

enum redis_outcome {
    REDIS_REPLIED,
    REDIS_REJECTED, /* no free connection: try again after a RETRY_DELAY */
    REDIS_FAILED,   /* down or slow, or its connection broke */
};

/* Sends one command to Redis, and sleeps until its reply is whole.  Connects
   first if that is needed.  All this takes about REDIS_REPLY_TIMEOUT at most.
   The reply points into the client and is valid until the next call.  If no
   reply comes, the connection is closed: otherwise a late reply would be taken
   for the next one. */
enum redis_outcome redis_client_call(struct redis_client *client,
                                     struct view command,
                                     struct resp_reply *reply);

/* Makes the next call check first, with a system call, whether a surplus reply
   has come: otherwise the call would take that reply for its own. */
void redis_client_check_before_use(struct redis_client *client);

/* Frees the memory of a long reply, which is no longer needed. */
void redis_client_drop_reply(struct redis_client *client);

/* Ends the connection, for all processes that share it. */
void redis_client_close(struct redis_client *client);

#endif
