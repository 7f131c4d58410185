/* SPDX-License-Identifier: MIT */
/*
 * One connection to Redis, as a state machine: connecting, login, commands,
 * replies, time limits, and what each failure means.
 *
 * Commands are sent one after the other, without waiting for replies.  Redis
 * answers in the same order: the first reply is for the first waiter.  All
 * clients of an event loop share a pipeline.  The servers 01 to 05 send one
 * command at a time (pool.h), with calls that sleep.
 */
#pragma once

#include "net/event_source.h"
#include "net/redis/redis.h"
#include "proto/resp.h"

/* A part of the data of a connection or coroutine that waits for a reply. */
struct redis_waiter {
    struct redis_waiter *prev, *next;
    size_t end; /* the pipeline's `queued` after the waiter's command */
};

struct redis_pipeline {
    struct event_source source; /* descriptor -1: closed */
    const struct event_loop *loop;
    const struct redis_server *server;
    /*
     *            first command            first bytes sent
     *     CLOSED --------------> CONNECTS ------------------> OPEN
     *        ^                    |    ^                       |
     *        |          rejected  v    | after a RETRY_DELAY   |
     *        |                    PAUSES <------- rejected ----+
     *        +---- failed, in any state
     */
    enum pipeline_state {
        PIPELINE_CLOSED,
        PIPELINE_CONNECTS,
        PIPELINE_PAUSES,
        PIPELINE_OPEN,
    } state;
    size_t room;        /* the least free memory for one receive, bytes */
    bool has_replied;   /* Redis has replied on this connection */
    int64_t begun_at;   /* clock_milliseconds() when it began to connect */
    int64_t asked_at;   /* when the wait for the next reply began */
    unsigned address;   /* the address that it tries, or uses */
    unsigned tried;     /* addresses that have failed since the last success */
    unsigned handshake; /* replies to AUTH and SELECT that are still to come */
    size_t login;       /* bytes of AUTH and SELECT, the first of the output */
    struct redis_waiter *waiters; /* in the order of the replies */
    struct redis_waiter *failing; /* the last waiter that gets no reply */
    size_t due;                   /* awaited replies to commands */
    size_t queued;                /* bytes of all commands so far */
    int64_t deadline; /* the deadline of the connection or of the next reply */
    struct buffer output;  /* commands, the sent ones first */
    size_t sent;           /* output bytes already sent, but still kept */
    struct buffer input;   /* received bytes of replies */
    size_t taken;          /* used bytes at the front of the input */
    struct resp_scan scan; /* of the first reply that is not used yet */
};

/* `loop`: NULL if no event loop watches the connection; then
   redis_pipeline_watch() is not called. */
void redis_pipeline_init(struct redis_pipeline *pipeline,
                         const struct redis_server *server,
                         const struct event_loop *loop);

/* Closes the connection without a report: no awaited reply will come.  Each
   failure also ends in this state, PIPELINE_CLOSED. */
void redis_pipeline_close(struct redis_pipeline *pipeline);

/* Begins to connect, without waiting; there need not be a command yet. */
void redis_pipeline_connect(struct redis_pipeline *pipeline, int64_t now);

/* Marks the connection as open: another process left it between commands. */
void redis_pipeline_set_idle(struct redis_pipeline *pipeline);

/* Queues a command; begins to connect if that is needed.  Returns false if
   Redis is unavailable now.  If the waiter is NULL, redis_pipeline_next()
   returns the reply. */
bool redis_pipeline_append(struct redis_pipeline *pipeline, struct view command,
                           struct redis_waiter *waiter, int64_t now);

/* Flush sends queued commands, fill receives replies and returns true if bytes
   have come.  Call both when the loop reports readiness.  Also call flush once
   in a loop iteration.  `flags`: those of send(2) and recv(2). */
void redis_pipeline_flush(struct redis_pipeline *pipeline, int flags,
                          int64_t now);
bool redis_pipeline_fill(struct redis_pipeline *pipeline, int flags,
                         int64_t now);

/* Flush and fill in two steps, for io_uring, where the kernel makes the calls.
   The first step returns the bytes to send, or the place for received bytes
   (NULL: no memory).  The second step takes the result: a number of bytes, or
   minus errno. */
struct view redis_pipeline_unsent(const struct redis_pipeline *pipeline);
void redis_pipeline_sent(struct redis_pipeline *pipeline, ssize_t result,
                         int64_t now);
char *redis_pipeline_room(struct redis_pipeline *pipeline, size_t *size);
void redis_pipeline_received(struct redis_pipeline *pipeline, ssize_t result,
                             int64_t now);

/* Takes the next reply; returns false if there is no whole one.  The reply
   points into the pipeline and is valid until the next call that receives. */
bool redis_pipeline_next(struct redis_pipeline *pipeline,
                         struct resp_reply *reply, int64_t now);

/* Takes the first waiter from the queue if its reply has come, or will not come
   (then *replied is false).  Otherwise returns NULL. */
struct redis_waiter *redis_pipeline_take(struct redis_pipeline *pipeline,
                                         struct resp_reply *reply,
                                         bool *replied, int64_t now);

/* After the deadline: ends a pause and connects, or tries the next address if
   the pipeline was connecting; otherwise closes the connection. */
void redis_pipeline_check(struct redis_pipeline *pipeline, int64_t now);

/* Updates what the loop watches; call it once in a loop iteration. */
void redis_pipeline_watch(struct redis_pipeline *pipeline);

/* Returns the end of the pipeline's wait; INT64_MAX: it does not wait. */
int64_t redis_pipeline_deadline(const struct redis_pipeline *pipeline);
