/* SPDX-License-Identifier: MIT */
/* One connection to Redis for callers that may sleep: 01 to 05. */
#ifndef NET_REDIS_CLIENT_H
#define NET_REDIS_CLIENT_H

#include "net/redis/redis.h"
#include "proto/resp.h"

struct redis_client {
    const struct redis_server *server;
    int descriptor; /* -1: not connected */
    /* CLOSED --begin--> CONNECTS --AUTH and SELECT are answered--> READY; after
       any failure CLOSED again. */
    enum { CLIENT_CLOSED, CLIENT_CONNECTS, CLIENT_READY } state;
    bool heard;   /* Redis has replied on this connection */
    bool lent;    /* for lending.c: a forked child's parent has it, too */
    bool fresh;   /* for pool.c: not yet given back */
    bool suspect; /* check for a reply that was not requested */
    enum {        /* how far this call has come */
           CALL_CONNECTS,
           CALL_ASKS,    /* the command has begun to leave */
           CALL_REFUSED, /* no connection was available */
           CALL_BROKEN,  /* its connection is lost, but Redis may be well */
    } call;
    int64_t deadline; /* of this call */
    int64_t begun_at; /* clock_milliseconds() of the connection's beginning */
    int64_t used_at;  /* that of the last reply */
    struct buffer input;
    size_t taken;              /* bytes of the input that are the last reply */
    struct resp_skip skip;     /* a reply that is too large */
    char reason[100];          /* of the last failure, for the log */
    struct redis_client *next; /* in a pool */
};

/* A client on the heap, not connected yet; NULL: out of memory. */
struct redis_client *redis_client_create(const struct redis_server *server);
void redis_client_destroy(struct redis_client *client); /* closes it */

enum redis_answer {
    REDIS_REPLIED,
    REDIS_REFUSES, /* no connection is available: try again in a RETRY_DELAY */
    REDIS_FAILS,   /* down or slow, or its connection broke */
};

/*
 * Sends one command to Redis and sleeps until its reply is whole; connects
 * first if that is needed.  All of it takes at most REDIS_REPLY_TIMEOUT and
 * CALL_SLACK (client.c).  The reply points into the client and is valid until
 * the next call.  Without a reply the connection is closed, because a late
 * reply would be taken for the next one.  If Redis rejected the connection, the
 * command has not been carried out.
 */
enum redis_answer redis_client_call(struct redis_client *client,
                                    struct view command,
                                    struct resp_reply *reply);

/* Makes the next call check first, by a system call, for a reply that was not
   requested: it would be taken for ours. */
void redis_client_check_before_use(struct redis_client *client);

/* Should an unused connection be closed?  Yes, if Redis connections are scarce,
   or if it was idle for REDIS_IDLE. */
bool redis_client_should_close(const struct redis_client *client, int64_t now);

/* Begins to connect without waiting, so that a forked child finds the
   connection under way and the parent still owns it. */
void redis_client_connect_start(struct redis_client *client);

/* Ends the connection, for all processes that share it. */
void redis_client_close(struct redis_client *client);

/* Call it after a call: frees the memory of a long reply that was used. */
void redis_client_shrink(struct redis_client *client);

#endif
