/* SPDX-License-Identifier: MIT */
/*
 * A client's connection as a state machine.  It processes one exchange
 * (app/exchange.h) after another, and makes no system call on a socket.
 *
 * Only connection.c uses the state.  The need is the driver's next action.  The
 * driver performs it, with blocking or non-blocking calls, and reports the
 * result:
 *
 *     need            the driver's next call
 *     NEED_RECEIVE    put bytes into connection_room(), connection_received()
 *                     (which drops bytes that come after the last response)
 *     NEED_ASK_REDIS  send exchange_command() to Redis, connection_replied()
 *     NEED_KEEP       decide whether to keep the connection, connection_keep()
 *     NEED_SEND       send connection_pending(), connection_sent()
 *     NEED_DONE       server_exchange_done(), connection_next()
 *     NEED_CLOSE      close, connection_free()
 *
 * The driver may close the socket and call connection_free() in any state.
 */
#pragma once

#include "app/exchange.h"

enum connection_need {
    NEED_RECEIVE,
    NEED_ASK_REDIS,
    NEED_KEEP,
    NEED_SEND,
    NEED_DONE,
    NEED_CLOSE,
};

struct connection {
    enum {
        STATE_HEAD,     /* the head is awaited; idle until its first byte */
        STATE_CONTINUE, /* "100 Continue" is being sent, then STATE_BODY */
        STATE_BODY,     /* the rest of the body is awaited */
        STATE_REDIS,    /* the handler awaits a reply */
        STATE_KEEP,     /* the response lacks its Connection field */
        STATE_SEND,     /* the response is being sent */
        STATE_SENT,     /* the whole response was sent */
        STATE_LINGER,   /* further bytes are read and dropped */
        STATE_CLOSED,   /* the connection has ended */
    } state;
    int requests_left; /* requests that the client may still send */
    bool greeted;      /* at least one request has been answered */
    bool keep_alive;   /* keep the connection after this response */

    /* The head, then the decoded part of the body, then received bytes that are
       not decoded yet. */
    struct buffer input;
    size_t counted; /* the input's memory, as budget_count() has counted it */
    size_t seen;    /* bytes of the head already searched for its end */
    size_t dropped; /* bytes read while lingering */

    struct exchange exchange; /* the current one */
};

/* Starts a connection for at most `requests` requests.  The driver keeps
   `cached_time` current.  `cached_time` and `app` must outlive the
   connection. */
void connection_init(struct connection *connection, const struct app *app,
                     const struct cached_time *cached_time, int requests);
void connection_free(struct connection *connection);

enum connection_need connection_need(const struct connection *connection);

/* Returns where to put received bytes, and sets *size; NULL: out of memory. */
char *connection_room(struct connection *connection, size_t *size);

/* Reports that `count` bytes were received; 0: the client will send no more.
   Call it only while the need is NEED_RECEIVE. */
void connection_received(struct connection *connection, size_t count);

/* Passes the reply of Redis to the handler; NULL: Redis is unavailable.
   Returns false for NULL, an error or a reply of the wrong type; the driver
   logs such a reply.  After a reply of the wrong type the driver also closes
   the connection to Redis: all later replies may belong to earlier commands. */
bool connection_replied(struct connection *connection,
                        const struct resp_reply *reply);

/* Finishes the response.  The connection is kept only if `may_keep`. */
void connection_keep(struct connection *connection, bool may_keep);

/* The bytes to be sent now: two pieces of memory, then part of a file.  Each
   may be empty.  All belong to the exchange. */
struct pending {
    struct view first, second;
    int descriptor; /* -1: no file part */
    uint64_t file_offset, file_bytes;
    /* These bytes are the last: after sending them, the driver ends the
       connection, or at least its own sending side. */
    bool last;
};
struct pending connection_pending(const struct connection *connection);
void connection_sent(struct connection *connection, uint64_t count);

/* Starts the connection's next exchange, or ends the connection. */
void connection_next(struct connection *connection);

/* Reports that the client exceeded its timeout_milliseconds(). */
void connection_timed_out(struct connection *connection);

/* Ends the connection, because the driver cannot or must not continue. */
void connection_abandon(struct connection *connection);

/* What the server waits for.  Each timeout starts with the wait, but
   TIMEOUT_SEND starts again with each acknowledged byte. */
enum timeout {
    TIMEOUT_NONE, /* the server does not wait for the client; time: -1 */
    TIMEOUT_IDLE, /* between requests; not before the first one */
    TIMEOUT_REQUEST,
    TIMEOUT_SEND,
    TIMEOUT_LINGER,
    TIMEOUTS,
};
enum timeout connection_timeout(const struct connection *connection);
int timeout_milliseconds(enum timeout timeout);

/* Does the server wait for the first byte of a request? */
bool connection_is_idle(const struct connection *connection);
