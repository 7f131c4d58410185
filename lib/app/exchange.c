/* SPDX-License-Identifier: MIT */
#include "app/exchange.h"

#include "app/routes.h"
#include "config.h"

#include <stdlib.h>

const struct view exchange_continue =
    VIEW_INITIALIZER("HTTP/1.1 100 Continue\r\n\r\n");

void exchange_free(struct exchange *exchange) {
    buffer_free(&exchange->page.kept);
    buffer_free(&exchange->page.command);
    response_free(&exchange->response);
    if (exchange->page.held > 0)
        (void)page_hold(&exchange->page, 0); /* which cannot fail */
    free(exchange->path.text);
    exchange->path.text = NULL;
    exchange->head = exchange->body = 0;
    exchange->unread = exchange->continued = false;
    exchange->sent = 0;
}

/* ---- The choice of a handler ---- */

void exchange_refuse(struct exchange *exchange, int status,
                     const char *sentence) {
    response_error(&exchange->response, status, sentence);
    exchange->unread = true;
}

/* Answers what no handler answers: OPTIONS, which asks what is allowed, and
   methods that are not allowed or not known.  A body would not be used, so it
   is not waited for. */
static void answer_without_handler(struct exchange *exchange,
                                   struct view allowed) {
    struct response *response = &exchange->response;

    if (exchange->request.method == HTTP_OPTIONS)
        response_start(response, 204);
    else if (allowed.length > 0)
        response_error(response, 405,
                       "This address does not take that method.");
    else
        response_error(response, 501, "This server knows no such method.");
    if (allowed.length > 0)
        response_field(response, VIEW("Allow"), allowed);
    exchange->unread = exchange->request.body != HTTP_NO_BODY;
}

bool exchange_route(struct exchange *exchange) {
    const struct http_request *request = &exchange->request;
    struct view allowed;

    if (view_equal(request->path, VIEW("*"))) {
        answer_without_handler(exchange, routes_methods);
        return false;
    }
    exchange->path.text = malloc(path_room(request->path));
    if (exchange->path.text == NULL) {
        exchange_refuse(exchange, 503, "The server is short of memory.");
        return false;
    }
    int result = path_decode(request->path, &exchange->path);
    if (result < 0) {
        exchange_refuse(exchange, -result,
                        result == -414 ? "The path is too long."
                                       : "The path is malformed.");
        return false;
    }
    exchange->handler =
        routes_find(exchange->app, request->method, &exchange->path, &allowed);
    if (exchange->handler == NULL) {
        answer_without_handler(exchange, allowed);
        return false;
    }
    if (request->body == HTTP_LENGTH_BODY &&
        request->content_length > BODY_LIMIT) {
        exchange_refuse(exchange, 413, "The request's body is too long.");
        return false;
    }
    return true;
}

/* ---- The body ---- */

int exchange_take_body(struct exchange *exchange, struct buffer *input) {
    size_t start = exchange->head + exchange->body;
    size_t raw = input->length - start;
    size_t decoded = 0;

    if (exchange->request.body == HTTP_LENGTH_BODY) {
        size_t wanted = (size_t)exchange->request.content_length;
        exchange->body +=
            raw < wanted - exchange->body ? raw : wanted - exchange->body;
        return exchange->body == wanted;
    }
    ssize_t used = http_decode_chunks(&exchange->chunks, input->data + start,
                                      raw, &decoded);
    if (used < 0)
        return (int)used;
    /* The decoded bytes are fewer: what followed the chunks, a pipelined
       request, moves up to the body's new end. */
    size_t consumed = used > 0 ? (size_t)used : raw;
    struct buffer rest = {.data = input->data + start + decoded,
                          .length = raw - decoded};
    buffer_consume(&rest, consumed - decoded);
    exchange->body += decoded;
    input->length = start + decoded + rest.length;
    return used > 0;
}

/* ---- The handler ---- */

static enum exchange_result call_handler(struct exchange *exchange,
                                         const struct resp_reply *reply) {
    struct page *page = &exchange->page;

    page->reply = reply;
    buffer_clear(&page->command);
    exchange->handler(page);
    if (page->command.failed || page->kept.failed)
        return EXCHANGE_FAILED;
    return page->command.length > 0 ? EXCHANGE_ASKS : EXCHANGE_ANSWERED;
}

enum exchange_result exchange_answer(struct exchange *exchange,
                                     struct view input) {
    exchange->page.app = exchange->app;
    exchange->page.request = &exchange->request;
    exchange->page.path = &exchange->path;
    exchange->page.response = &exchange->response;
    exchange->page.body = view_slice(input, exchange->head, exchange->body);
    exchange->page.step = 0;
    return call_handler(exchange, NULL);
}

struct view exchange_command(const struct exchange *exchange) {
    return buffer_view(&exchange->page.command);
}

bool exchange_changes_something(const struct exchange *exchange) {
    return exchange->request.method == HTTP_POST;
}

bool exchange_accepts(const struct exchange *exchange,
                      const struct resp_reply *reply) {
    enum resp_type expected = exchange->page.expected;

    if (expected == RESP_STRING && reply->type == RESP_NULL)
        return true;
    /* Arrays are lists of strings: nothing here asks for others. */
    return reply->type == expected &&
           (expected != RESP_ARRAY || reply->all_strings);
}

/* Does Redis report that it accepts no commands now, but will do so again by
   itself? */
static bool is_passing(const struct resp_reply *reply) {
    static const struct view codes[] = {
        VIEW_INITIALIZER("LOADING "), VIEW_INITIALIZER("BUSY "),
        VIEW_INITIALIZER("MASTERDOWN "), VIEW_INITIALIZER("TRYAGAIN "),
        VIEW_INITIALIZER("CLUSTERDOWN ")};

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (reply->type == RESP_ERROR &&
            view_starts_with(reply->text, codes[i]))
            return true;
    return false;
}

enum exchange_result exchange_replied(struct exchange *exchange,
                                      const struct resp_reply *reply) {
    if (reply == NULL || is_passing(reply)) {
        response_error(&exchange->response, 503,
                       "The guestbook's memory, Redis, cannot be reached just "
                       "now. Please try again in a moment.");
        response_field(&exchange->response, VIEW("Retry-After"), VIEW("1"));
        return EXCHANGE_ANSWERED;
    }
    if (!exchange_accepts(exchange, reply)) {
        response_error(&exchange->response, 502,
                       "The guestbook's memory, Redis, gave a reply that this "
                       "server cannot use. The server's log gives the reason.");
        return EXCHANGE_ANSWERED;
    }
    exchange->page.step++;
    return call_handler(exchange, reply);
}

uint64_t exchange_bytes(const struct exchange *exchange) {
    return exchange->sent +
           (exchange->continued ? exchange_continue.length : 0);
}
