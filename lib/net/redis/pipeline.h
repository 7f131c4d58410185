/* SPDX-License-Identifier: MIT */
/*
 * One connection to Redis for callers that never sleep, shared by all clients
 * of an event loop.
 *
 * Commands go out one after the other without waiting for replies, and Redis
 * answers in the same order: the first command gets the first reply.  The
 * pipeline handles commands and replies; its caller remembers which client
 * waits for which reply.
 */
#ifndef NET_REDIS_PIPELINE_H
#define NET_REDIS_PIPELINE_H

#include "net/event_source.h"
#include "net/redis/redis.h"
#include "proto/resp.h"

struct redis_pipeline {
    struct event_source
        source; /* what the event loop watches; descriptor -1: closed */
    const struct event_loop *loop;
    const struct redis_server *server;
    /*
     *            first command            first bytes sent
     *     CLOSED --------------> CONNECTS ------------------> OPEN
     *        ^                    |    ^                       |
     *        |          rejected  v    |  after a RETRY_DELAY        |
     *        |                    PAUSES <------- rejected ----+
     *        +---- failed, in any state
     */
    enum {
        PIPELINE_CLOSED,
        PIPELINE_CONNECTS,
        PIPELINE_PAUSES,
        PIPELINE_OPEN,
    } state;
    bool heard;         /* Redis has replied on this connection */
    int64_t begun_at;   /* clock_milliseconds() of the connection's beginning */
    int64_t refused_at; /* for the first time since a reply; 0: it was not */
    unsigned address;   /* which one it is trying, or uses */
    unsigned tried;     /* addresses that have failed since the last success */
    unsigned handshake; /* replies to AUTH and SELECT that are still to come */
    size_t due;         /* replies to commands that are still to come */
    size_t expected;    /* replies to what has begun to leave, as AUTH */
    int64_t deadline;   /* by when the connection or the next reply must come */
    struct buffer output; /* commands that have not gone out yet */
    size_t gone;          /* bytes of it that have: kept until Redis is heard */
    struct resp_skip leaving; /* where in a command the last send ended */
    struct buffer input;      /* replies that have not been taken yet */
    size_t taken;             /* bytes at the input's front that have been */
    struct resp_skip skip;    /* a reply that is too large */
};

void redis_pipeline_init(struct redis_pipeline *pipeline,
                         const struct redis_server *server,
                         const struct event_loop *loop);

/* Closes the connection without a report: no awaited reply will come. */
void redis_pipeline_close(struct redis_pipeline *pipeline);

/* Queues a command; begins to connect if that is needed.  Returns false if
   Redis is unavailable now. */
bool redis_pipeline_append(struct redis_pipeline *pipeline, struct view command,
                           int64_t now);

/* Sends what is queued, receives what is there, as far as that goes without
   waiting.  Call them when the loop says so; flush also once a loop iteration.
   Returns false if the connection has failed and is closed: no awaited reply
   will come. */
bool redis_pipeline_flush(struct redis_pipeline *pipeline, int64_t now);
bool redis_pipeline_fill(struct redis_pipeline *pipeline, int64_t now);

/* Sending and receiving in two steps, for a loop whose kernel makes these calls
   (io_uring): first what is to be sent, or where bytes may be put (NULL: no
   memory); then the result, a number of bytes or minus errno. */
struct view redis_pipeline_unsent(const struct redis_pipeline *pipeline);
bool redis_pipeline_sent(struct redis_pipeline *pipeline, ssize_t result,
                         int64_t now);
char *redis_pipeline_room(struct redis_pipeline *pipeline, size_t *size);
bool redis_pipeline_received(struct redis_pipeline *pipeline, ssize_t result,
                             int64_t now);

/* Takes the next reply: 1, or 0 if none is whole yet, or -1 as above.  It
   points into the pipeline and is valid until the next call that receives. */
int redis_pipeline_next(struct redis_pipeline *pipeline,
                        struct resp_reply *reply, int64_t now);

/* When the deadline has passed, closes the connection and returns false, as
   above; or retries, if the connection was rejected. */
bool redis_pipeline_check(struct redis_pipeline *pipeline, int64_t now);

/* Has the loop watch what it waits for now; call it once a loop iteration. */
void redis_pipeline_watch(struct redis_pipeline *pipeline);

/* Returns until when it waits; INT64_MAX: it waits for nothing. */
int64_t redis_pipeline_deadline(const struct redis_pipeline *pipeline);

#endif
