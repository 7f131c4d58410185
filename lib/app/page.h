/* SPDX-License-Identifier: MIT */
/*
 * What a handler works with: the request that it answers and the response that
 * it makes.
 *
 * A handler never waits.  If it needs Redis it asks and returns; it is called
 * again with the reply, one step further.  It is done when it returns without
 * having asked:
 *
 *     switch (page->step) {
 *     case 0:
 *         page_ask(page, RESP_INTEGER, words, 2);
 *         break;
 *     case 1:
 *         response_start(page->response, 200);
 *         buffer_append_number(&page->response->body, page->reply->integer);
 *     }
 *
 * It is called only with replies of the type that it asked for, or with a
 * RESP_NULL instead of a RESP_STRING: there is no such key.  When Redis is
 * unavailable or replies otherwise, the exchange answers 503 or 502 itself.
 */
#ifndef APP_PAGE_H
#define APP_PAGE_H

#include "app/response.h"
#include "proto/http.h"
#include "proto/path.h"
#include "proto/resp.h"

/* What all requests to a server share; it is not written after the start. */
struct app {
    struct cache *public;
    struct cache *templates;
    struct redirect *redirects; /* a hash table */
};

struct page {
    const struct app *app;
    const struct http_request *request;
    const struct path *path; /* decoded and safe */
    struct view body;        /* of the request */
    struct response *response;

    int step; /* replies so far */
    const struct resp_reply
        *reply; /* at step 1 and above; for this call only */

    /* What a handler keeps between steps.  A reply points into what Redis has
       sent, which is gone with the next call: what is needed later is copied,
       text into the buffer, a number into its member. */
    struct buffer kept;
    int64_t kept_number;
    size_t held; /* bytes that it has taken from the budget */

    struct buffer command;   /* to be sent to Redis; empty: done */
    enum resp_type expected; /* the type of its reply */
};

typedef void page_handler(struct page *page);

/* Changes what this page takes from the budget to `bytes`; LARGE_RESPONSE or
   fewer count as none.  If the budget is exhausted: false, and the response is
   a 503. */
bool page_hold(struct page *page, size_t bytes);

/* Asks Redis for a reply of that type, with a command of `count` words. */
void page_ask(struct page *page, enum resp_type expected,
              const struct view *words, size_t count);

#endif
