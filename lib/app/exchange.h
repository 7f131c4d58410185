/* SPDX-License-Identifier: MIT */
/*
 * One HTTP exchange: a request and its response.  The connection
 * (app/connection.h) moves the bytes, for one exchange after another.
 *
 * A handler makes the response, and never waits for the network.  To use Redis,
 * it calls exchange_ask() and returns.  Then it is called again with the reply,
 * in the next step.  It is done when it returns without calling exchange_ask():
 *
 *     switch (exchange->step) {
 *     case 0:
 *         exchange_ask(exchange, RESP_INTEGER, words, 2);
 *         break;
 *     case 1:
 *         response_start(&exchange->response, 200);
 *         buffer_append_number(&exchange->response.body,
 *                              exchange->reply->integer);
 *     }
 *
 * The handler receives only replies of the type that it asked for.  A RESP_NULL
 * instead of a RESP_STRING means that the key does not exist.  If Redis is
 * unavailable or its reply has another type, the response is a 503 or 502.
 */
#pragma once

#include "app/response.h"
#include "proto/http.h"
#include "proto/resp.h"

struct exchange;
typedef void handler(struct exchange *exchange);

struct exchange {
    const struct app *app;
    struct http_request request; /* points into the connection's input */
    struct buffer path;          /* decoded and safe: path_decode() */
    struct view content;         /* the body, for the handler */
    struct response response;

    /* ---- The handler and Redis ---- */
    handler *handler;
    int step;                       /* replies so far */
    const struct resp_reply *reply; /* NULL in step 0; only for this call */
    /* A handler keeps text in `kept`, and numbers in `kept_numbers`, because
       the next reply overwrites the current one. */
    struct buffer kept;
    int64_t kept_numbers[2];
    size_t reserved;         /* bytes taken from the budget (ops.h) */
    struct buffer command;   /* the next command for Redis; empty: none */
    enum resp_type expected; /* the type of its reply */

    /* ---- The bytes ---- */
    size_t head; /* bytes of the request's head */
    size_t body; /* bytes of its body, decoded, right after the head */
    struct http_chunks chunks;
    bool unread;    /* an early response left some of the request unread */
    bool continued; /* "100 Continue" went out before the response */
    uint64_t sent;  /* bytes of the response that were sent */
};

/* ---- Called by a handler ---- */

/* Asks Redis for a reply of that type, with a command of `count` words. */
void exchange_ask(struct exchange *exchange, enum resp_type expected,
                  const struct view *words, size_t count);

/* Changes the memory that is counted for this response (budget_count()) to
   `bytes`; LARGE_RESPONSE bytes or fewer count as 0.  Returns false if the
   budget is exhausted; the response is then a 503. */
bool exchange_reserve(struct exchange *exchange, size_t bytes);

/* ---- Called by the connection ---- */

/* Answers with an error before all of the request was read. */
void exchange_reject(struct exchange *exchange, int status,
                     const char *sentence);

/* Checks the reply of Redis.  If it cannot be used, makes an error response and
   returns false.  The status is 503 without a reply (NULL), or if Redis will
   accept commands soon; 502 if the reply has the wrong type. */
bool exchange_check_reply(struct exchange *exchange,
                          const struct resp_reply *reply);

/* ---- Called by the driver ---- */

struct view exchange_command(const struct exchange *exchange);

/* Is the method unsafe (POST; RFC 9110, section 9.2.1)?  For such a request, a
   late reply to an older command must not be mistaken for success. */
bool exchange_changes_data(const struct exchange *exchange);

/* The interim response: a client may wait for it before it sends the body. */
extern const struct view exchange_continue;
