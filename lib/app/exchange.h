/* SPDX-License-Identifier: MIT */
/*
 * The life of a client's connection, one HTTP exchange (request and response)
 * after another: a state machine that owns no I/O.
 *
 * It is told what happened and answers with what it needs next.  Whoever
 * drives it does that, by calls that sleep or by calls that do not, and tells
 * it the outcome:
 *
 *     need                the driver's next call
 *     EXCHANGE_RECEIVE    put bytes into exchange_room(), exchange_received()
 *     EXCHANGE_ASK_REDIS  carry exchange_command(); exchange_replied()
 *     EXCHANGE_KEEP       exchange_keep(): may the connection be kept?
 *     EXCHANGE_SEND       send exchange_pending(), exchange_sent()
 *     EXCHANGE_DONE       note it in statistics and log; exchange_next()
 *     EXCHANGE_LINGER     shutdown(SHUT_WR), then as for RECEIVE
 *     EXCHANGE_CLOSE      close; exchange_free()
 *
 * In any state the driver may, for reasons of its own, close and
 * exchange_free().
 */
#ifndef APP_EXCHANGE_H
#define APP_EXCHANGE_H

#include "app/page.h"
#include "proto/http_chunks.h"

enum exchange_need {
    EXCHANGE_RECEIVE,
    EXCHANGE_ASK_REDIS,
    EXCHANGE_KEEP,
    EXCHANGE_SEND,
    EXCHANGE_DONE,
    EXCHANGE_LINGER,
    EXCHANGE_CLOSE,
};

struct exchange {
    const struct app *app;
    enum {
        STATE_HEAD,     /* the head is awaited; idle until its first byte */
        STATE_CONTINUE, /* "100 Continue" goes out, then STATE_BODY */
        STATE_BODY,     /* the rest of the body is awaited */
        STATE_REDIS,    /* the handler awaits a reply */
        STATE_KEEP,   /* the response is there, but for its Connection field */
        STATE_SEND,   /* the response goes out */
        STATE_SENT,   /* all of it is out */
        STATE_LINGER, /* what still comes is read and dropped */
    } state;
    int requests_left; /* that this connection may still bring */
    bool greeted;      /* at least one request has been answered */
    bool keep_alive;   /* after this response */
    bool unread;       /* an early response left some of the request unread */
    bool continued;    /* this exchange has sent a "100 Continue" */

    /* The head, then what is decoded of the body, then what is still raw. */
    struct buffer input;
    size_t seen;    /* bytes of the head already searched for its end */
    size_t head;    /* bytes of the head */
    size_t body;    /* bytes of the body, decoded, right behind the head */
    size_t dropped; /* bytes read while lingering */
    struct http_chunks chunks;

    struct http_request request; /* points into input */
    struct path path;
    page_handler *handler;
    struct page page;
    struct response response;
    uint64_t sent; /* bytes of the response, head and body */
};

/* What is to be sent now: some bytes, then some more, then part of a file.
   Each may be empty.  All belong to the exchange. */
struct exchange_pending {
    struct view first, second;
    int descriptor; /* -1: no file part */
    uint64_t offset, count;
    /* Nothing follows it: the driver ends the connection, or at least its own
       side, as soon as it is out. */
    bool last;
};

/*
 * Starts a connection's life.  `moment` tells the time and is the driver's to
 * keep current; app and moment must outlive the exchange.  After `requests`
 * requests the connection is closed.  The first need is EXCHANGE_RECEIVE.
 */
void exchange_init(struct exchange *exchange, const struct app *app,
                   const struct moment *moment, int requests);
void exchange_free(struct exchange *exchange);

/* Where to put received bytes, and in *size how many; NULL: out of memory. */
char *exchange_room(struct exchange *exchange, size_t *size);

/* So many bytes came; 0: the client will send no more. */
enum exchange_need exchange_received(struct exchange *exchange, size_t count);

struct view exchange_command(const struct exchange *exchange);

/* Is it a request that shall change something (RFC 9110, section 9.2.1)?  Then
   no stray reply may be taken for the confirmation. */
bool exchange_changes_something(const struct exchange *exchange);

/* Is that the type of reply that the handler asked for?  Where it is not, the
   driver reports it and answers with NULL instead; and if it is no error that
   Redis tells, the connection is not used any more, for its replies may be off
   by one. */
bool exchange_accepts(const struct exchange *exchange,
                      const struct resp_reply *reply);

/* Redis has replied, or cannot be had: NULL.  The reply is used up when this
   returns. */
enum exchange_need exchange_replied(struct exchange *exchange,
                                    const struct resp_reply *reply);

/* May the connection be kept after this response?  Asked at most once a
   request, at the last moment, and only where nothing else ends it. */
enum exchange_need exchange_keep(struct exchange *exchange, bool may_keep);

struct exchange_pending exchange_pending(const struct exchange *exchange);
enum exchange_need exchange_sent(struct exchange *exchange, uint64_t count);

/* All bytes that this exchange has sent. */
uint64_t exchange_bytes(const struct exchange *exchange);

/* Goes on to the connection's next exchange, or to its end. */
enum exchange_need exchange_next(struct exchange *exchange);

/* The client kept us waiting for longer than its patience_time(). */
enum exchange_need exchange_timed_out(struct exchange *exchange);

/* What the client is waited for now, and for how long, in milliseconds.
   All are deadlines, which count from the beginning of the wait, but for
   PATIENCE_SEND, which counts from the last byte that the client took. */
enum patience {
    PATIENCE_NONE, /* it is not the client that is waited for; time: -1 */
    PATIENCE_IDLE, /* between requests; the first one counts as begun */
    PATIENCE_REQUEST,
    PATIENCE_SEND,
    PATIENCE_LINGER,
    PATIENCES,
};
enum patience exchange_patience(const struct exchange *exchange);
int patience_time(enum patience patience);

bool exchange_is_idle(const struct exchange *exchange); /* between requests */

#endif
