/* SPDX-License-Identifier: MIT */
/*
 * One HTTP exchange: a request, and the response that answers it.  The
 * connection (app/connection.h) moves the bytes, for one exchange after
 * another.
 */
#ifndef APP_EXCHANGE_H
#define APP_EXCHANGE_H

#include "app/page.h"
#include "proto/http_chunks.h"

struct exchange {
    const struct app *app;
    struct http_request request; /* points into the connection's input */
    size_t head;                 /* bytes of the request's head */
    size_t body; /* bytes of its body, decoded, right after the head */
    struct http_chunks chunks;
    bool unread;    /* an early response left some of the request unread */
    bool continued; /* "100 Continue" went out before the response */

    struct path path; /* its text is the exchange's */
    page_handler *handler;
    struct page page;
    struct response response;
    uint64_t sent; /* bytes of the response, head and body */
};

/* The outcome of a call of the handler. */
enum exchange_result {
    EXCHANGE_ANSWERED, /* the response is there */
    EXCHANGE_ASKS,     /* exchange_command() must be sent to Redis */
    EXCHANGE_FAILED,   /* out of memory: no answer is possible */
};

/* Drops what belongs to one request; ready for the next. */
void exchange_free(struct exchange *exchange);

/* ---- Called by the connection ---- */

/* Answers with an error before all of the request was read. */
void exchange_refuse(struct exchange *exchange, int status,
                     const char *sentence);

/* The head is there: chooses the handler, before the body is there.  Returns
   false if there is none, and the response gives the reason. */
bool exchange_route(struct exchange *exchange);

/* Takes what has come of the body; a chunked one is decoded in its place.
   Returns 1 if it is whole, 0 if more is needed, or minus a status. */
int exchange_take_body(struct exchange *exchange, struct buffer *input);

/* All of the request is there, at the front of the input. */
enum exchange_result exchange_answer(struct exchange *exchange,
                                     struct view input);

/* Redis has replied, or is unavailable: NULL, which is answered 503.  A reply
   that exchange_accepts() rejects is answered 502; or 503, if Redis itself
   reports that it will accept commands soon. */
enum exchange_result exchange_replied(struct exchange *exchange,
                                      const struct resp_reply *reply);

/* ---- Questions of the driver ---- */

struct view exchange_command(const struct exchange *exchange);

/* Is it meant to change data, as a POST is (RFC 9110, section 9.2.1)?  Then a
   left-over reply to an older command must not be mistaken for success. */
bool exchange_changes_something(const struct exchange *exchange);

/* Is that the type of reply that the handler asked for?  If it is not, the
   driver reports it.  Unless it is an error that Redis reports, the driver also
   closes its connection to Redis: each reply may belong to the command before.
 */
bool exchange_accepts(const struct exchange *exchange,
                      const struct resp_reply *reply);

/* All bytes that this exchange has sent. */
uint64_t exchange_bytes(const struct exchange *exchange);

/* Sent before the response if the client waits for it before it sends the body:
   RFC 9110, section 10.1.1. */
extern const struct view exchange_continue;

#endif
