/* SPDX-License-Identifier: MIT */
/*
 * All states and transitions:
 *
 *      +-> HEAD --head whole--+--body awaited--> BODY <--100 sent-- CONTINUE
 *      |    |                 |                   |  \--100 awaited-->/
 *      |    |bad              |no body            |whole, or bad
 *      |    v                 v                   v
 *      |    +------------> handler: asks --> REDIS --reply--> handler again
 *      |                      |
 *      |                      | done
 *      |                      v
 *      |                     KEEP, unless something else ends the connection
 *      |                      |
 *      |                      v
 *      |                     SEND --all is out--> SENT
 *      |                                           |
 *      +------- the connection is kept ------------+
 *                                                  |
 *               LINGER <-- some of the request ----+---- otherwise --> close
 *                 |        was left unread
 *                 +--> close
 *
 * Whatever cannot be answered (out of memory, a client that left) is closed.
 */
#include "app/exchange.h"

#include "app/routes.h"
#include "config.h"

#include <assert.h>

static const struct view continue_head =
    VIEW_INITIALIZER("HTTP/1.1 100 Continue\r\n\r\n");

void exchange_init(struct exchange *exchange, const struct app *app,
                   const struct moment *moment, int requests) {
    *exchange = (struct exchange){.app = app, .requests_left = requests};
    exchange->response.moment = moment;
}

/* Drops what belongs to one request; the connection's own part stays. */
static void forget_request(struct exchange *exchange) {
    buffer_free(&exchange->page.kept);
    buffer_free(&exchange->page.command);
    response_free(&exchange->response);
    exchange->seen = exchange->head = exchange->body = 0;
    exchange->continued = false;
    exchange->sent = 0;
}

void exchange_free(struct exchange *exchange) {
    forget_request(exchange);
    buffer_free(&exchange->input);
}

/* ---- Responses ---- */

enum exchange_need exchange_keep(struct exchange *exchange, bool may_keep) {
    struct response *response = &exchange->response;

    exchange->keep_alive &= may_keep;
    response_finish(response, exchange->keep_alive,
                    exchange->request.minor_version);
    if (response->head.failed || response->body.failed)
        return EXCHANGE_CLOSE;
    exchange->state = STATE_SEND;
    return EXCHANGE_SEND;
}

static enum exchange_need send_response(struct exchange *exchange) {
    if (--exchange->requests_left <= 0 || !exchange->keep_alive)
        return exchange_keep(exchange, false);
    exchange->state = STATE_KEEP;
    return EXCHANGE_KEEP;
}

/* Answers with an error before all of the request was read: what is left of it
   cannot be told from a next request, so the connection must end. */
static enum exchange_need refuse(struct exchange *exchange, int status,
                                 const char *sentence) {
    response_error(&exchange->response, status, sentence);
    exchange->keep_alive = false;
    exchange->unread = true;
    return send_response(exchange);
}

static enum exchange_need call_handler(struct exchange *exchange,
                                       const struct resp_reply *reply) {
    struct page *page = &exchange->page;

    page->reply = reply;
    buffer_clear(&page->command);
    exchange->handler(page);
    if (page->command.failed || page->kept.failed)
        return EXCHANGE_CLOSE;
    if (page->command.length > 0) {
        exchange->state = STATE_REDIS;
        return EXCHANGE_ASK_REDIS;
    }
    return send_response(exchange);
}

static enum exchange_need answer(struct exchange *exchange) {
    struct view input = buffer_view(&exchange->input);

    exchange->page.app = exchange->app;
    exchange->page.request = &exchange->request;
    exchange->page.path = &exchange->path;
    exchange->page.response = &exchange->response;
    exchange->page.body = view_part(input, exchange->head, exchange->body);
    exchange->page.step = 0;
    return call_handler(exchange, NULL);
}

/* ---- Requests ---- */

/* Answers what no handler answers: OPTIONS, which asks what is allowed, and
   what is not allowed.  A body, of which nobody would know what to do, is not
   waited for. */
static enum exchange_need answer_without_handler(struct exchange *exchange,
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
    exchange->keep_alive &= !exchange->unread;
    return send_response(exchange);
}

/* Sees whether the request is one for a handler, before its body is there. */
static enum exchange_need refuse_or_route(struct exchange *exchange,
                                          bool *refused) {
    const struct http_request *request = &exchange->request;
    struct view allowed;

    *refused = true;
    if (view_equal(request->path, VIEW("*")))
        return answer_without_handler(exchange, routes_methods);
    int result = path_decode(request->path, &exchange->path);
    if (result < 0)
        return refuse(exchange, -result,
                      result == -414 ? "The path is too long."
                                     : "The path is malformed.");
    exchange->handler =
        routes_find(exchange->app, request->method, &exchange->path, &allowed);
    if (exchange->handler == NULL)
        return answer_without_handler(exchange, allowed);
    if (request->body == HTTP_LENGTH_BODY &&
        request->content_length > BODY_LIMIT)
        return refuse(exchange, 413, "The request's body is too long.");
    *refused = false;
    return EXCHANGE_RECEIVE;
}

/* Takes what has come of the body.  Returns 1 if it is whole, 0 if more is
   needed, or minus a status. */
static int take_body(struct exchange *exchange) {
    struct buffer *input = &exchange->input;
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
    /* What was used up closes ranks: pipelined bytes move to the body's end. */
    size_t consumed = used > 0 ? (size_t)used : raw;
    struct buffer rest = {.data = input->data + start + decoded,
                          .length = raw - decoded};
    buffer_consume(&rest, consumed - decoded);
    exchange->body += decoded;
    input->length = start + decoded + rest.length;
    return used > 0;
}

static enum exchange_need advance_body(struct exchange *exchange) {
    int result = take_body(exchange);

    if (result == -413)
        return refuse(exchange, 413, "The request's body is too long.");
    if (result < 0)
        return refuse(exchange, -result, "The chunks of the body are broken.");
    return result == 0 ? EXCHANGE_RECEIVE : answer(exchange);
}

static enum exchange_need advance_head(struct exchange *exchange) {
    struct http_request *request = &exchange->request;
    bool refused;

    if (exchange->input.length == 0)
        return EXCHANGE_RECEIVE;
    ssize_t result =
        http_parse_head(buffer_view(&exchange->input), exchange->seen, request);
    if (result == 0) {
        exchange->seen = exchange->input.length;
        return EXCHANGE_RECEIVE;
    }
    if (result < 0)
        return refuse(exchange, (int)-result, request->complaint);
    exchange->head = (size_t)result;
    exchange->keep_alive = request->keep_alive;
    exchange->unread = false;
    enum exchange_need need = refuse_or_route(exchange, &refused);
    if (refused)
        return need;
    if (request->body == HTTP_NO_BODY)
        return answer(exchange);

    exchange->chunks = (struct http_chunks){0};
    /* RFC 9110, section 10.1.1: needless once some of the body is there. */
    if (request->expects_continue && exchange->input.length == exchange->head) {
        exchange->state = STATE_CONTINUE;
        exchange->continued = true;
        return EXCHANGE_SEND;
    }
    exchange->state = STATE_BODY;
    return advance_body(exchange);
}

/* The request's views point into the input: when that moves while a body comes
   in, they are taken anew. */
static void renew_views(struct exchange *exchange) {
    struct view head =
        view_part(buffer_view(&exchange->input), 0, exchange->head);
    ssize_t result = http_parse_head(head, 0, &exchange->request);

    assert(result == (ssize_t)exchange->head); /* as it was the first time */
    (void)result;
}

char *exchange_room(struct exchange *exchange, size_t *size) {
    struct buffer *input = &exchange->input;
    size_t capacity = input->capacity;

    if (exchange->state == STATE_LINGER)
        input->length = 0;
    /* At least half of the first size, so that a long body comes in few
       pieces; never so little that a read would fetch a handful of bytes. */
    size_t least = input->capacity == 0 ? RECEIVE_SIZE : RECEIVE_SIZE / 2;
    char *room = buffer_reserve(input, least);
    if (input->capacity != capacity && exchange->state == STATE_BODY)
        renew_views(exchange);
    *size = input->capacity - input->length;
    return room;
}

enum exchange_need exchange_received(struct exchange *exchange, size_t count) {
    if (count == 0)
        return EXCHANGE_CLOSE; /* what is half here will never be whole */
    switch (exchange->state) {
    case STATE_HEAD:
        exchange->input.length += count;
        return advance_head(exchange);
    case STATE_BODY:
        exchange->input.length += count;
        return advance_body(exchange);
    case STATE_LINGER:
        exchange->dropped += count;
        return exchange->dropped > LINGER_LIMIT ? EXCHANGE_CLOSE
                                                : EXCHANGE_LINGER;
    default:
        assert(false); /* bytes were not asked for */
        return EXCHANGE_CLOSE;
    }
}

/* ---- Redis ---- */

struct view exchange_command(const struct exchange *exchange) {
    return buffer_view(&exchange->page.command);
}

bool exchange_changes_something(const struct exchange *exchange) {
    return exchange->request.method == HTTP_POST;
}

bool exchange_accepts(const struct exchange *exchange,
                      const struct resp_reply *reply) {
    enum resp_type expected = exchange->page.expected;
    struct view items = reply->items;
    struct resp_reply item;

    if (expected == RESP_STRING && reply->type == RESP_NULL)
        return true;
    if (reply->type != expected)
        return false;
    /* Arrays are lists of strings: nothing here asks for others. */
    while (reply->type == RESP_ARRAY && resp_next(&items, &item))
        if (item.type != RESP_STRING)
            return false;
    return true;
}

enum exchange_need exchange_replied(struct exchange *exchange,
                                    const struct resp_reply *reply) {
    assert(exchange->state == STATE_REDIS);
    if (reply == NULL) {
        response_error(&exchange->response, 503,
                       "The guestbook's memory, Redis, cannot be reached just "
                       "now. Please try again in a moment.");
        response_field(&exchange->response, VIEW("Retry-After"), VIEW("1"));
        return send_response(exchange);
    }
    exchange->page.step++;
    return call_handler(exchange, reply);
}

/* ---- Sending ---- */

/* To close with bytes unread resets the connection, and the client may lose
   the response: RFC 9112, section 9.6. */
static bool must_linger(const struct exchange *exchange) {
    return exchange->unread ||
           exchange->input.length != exchange->head + exchange->body;
}

/* Will close() or shutdown() follow at once?  One who was not told before that
   this is the end may have sent his next request meanwhile: bytes unread, which
   we have not seen.  He shall have the response before the connection is reset,
   so it must not wait for close(). */
static bool is_last(const struct exchange *exchange) {
    return exchange->state == STATE_SEND && !exchange->keep_alive &&
           (must_linger(exchange) || !exchange->request.keep_alive);
}

static struct view behind(struct view view, uint64_t *skip) {
    size_t step = *skip < view.length ? (size_t)*skip : view.length;
    *skip -= step;
    return view_from(view, step);
}

struct exchange_pending exchange_pending(const struct exchange *exchange) {
    const struct response *response = &exchange->response;
    struct exchange_pending pending = {.descriptor = -1,
                                       .last = is_last(exchange)};
    uint64_t skip = exchange->sent;

    if (exchange->state == STATE_CONTINUE) {
        pending.first = behind(continue_head, &skip);
        return pending;
    }
    pending.first = behind(buffer_view(&response->head), &skip);
    if (exchange->request.method == HTTP_HEAD)
        return pending;
    if (response->file == NULL) {
        pending.second = behind(buffer_view(&response->body), &skip);
        return pending;
    }
    pending.descriptor = response->file->descriptor;
    pending.offset = response->offset + skip;
    pending.count = response->count - skip;
    return pending;
}

enum exchange_need exchange_sent(struct exchange *exchange, uint64_t count) {
    exchange->sent += count;
    struct exchange_pending pending = exchange_pending(exchange);
    if (pending.first.length + pending.second.length + pending.count > 0)
        return EXCHANGE_SEND;
    if (exchange->state == STATE_CONTINUE) {
        exchange->sent = 0;
        exchange->state = STATE_BODY;
        return EXCHANGE_RECEIVE;
    }
    exchange->state = STATE_SENT;
    return EXCHANGE_DONE;
}

uint64_t exchange_bytes(const struct exchange *exchange) {
    return exchange->sent + (exchange->continued ? continue_head.length : 0);
}

enum exchange_need exchange_next(struct exchange *exchange) {
    size_t used = exchange->head + exchange->body;
    bool lingers = must_linger(exchange);

    assert(exchange->state == STATE_SENT);
    forget_request(exchange);
    if (!exchange->keep_alive) {
        if (!lingers)
            return EXCHANGE_CLOSE;
        exchange->state = STATE_LINGER;
        return EXCHANGE_LINGER;
    }
    buffer_consume(&exchange->input, used);
    if (exchange->input.length == 0)
        buffer_free(&exchange->input); /* an idle connection costs no buffer */
    exchange->state = STATE_HEAD;
    exchange->greeted = true;
    return advance_head(exchange);
}

/* ---- Time ---- */

bool exchange_is_idle(const struct exchange *exchange) {
    return exchange->state == STATE_HEAD && exchange->input.length == 0;
}

enum patience exchange_patience(const struct exchange *exchange) {
    switch (exchange->state) {
    case STATE_HEAD:
        return exchange->greeted && exchange_is_idle(exchange)
                   ? PATIENCE_IDLE
                   : PATIENCE_REQUEST;
    case STATE_BODY:
        return PATIENCE_REQUEST;
    case STATE_CONTINUE:
    case STATE_SEND:
    case STATE_SENT:
        return PATIENCE_SEND;
    case STATE_LINGER:
        return PATIENCE_LINGER;
    default:
        return PATIENCE_NONE;
    }
}

int patience_time(enum patience patience) {
    static const int times[] = {
        [PATIENCE_NONE] = -1,
        [PATIENCE_IDLE] = IDLE_TIMEOUT,
        [PATIENCE_REQUEST] = REQUEST_TIMEOUT,
        [PATIENCE_SEND] = SEND_TIMEOUT,
        [PATIENCE_LINGER] = LINGER_TIMEOUT,
    };
    return times[patience];
}

enum exchange_need exchange_timed_out(struct exchange *exchange) {
    bool half_a_request =
        exchange->state == STATE_BODY ||
        (exchange->state == STATE_HEAD && !exchange_is_idle(exchange));

    if (half_a_request)
        return refuse(exchange, 408, "The request did not come in time.");
    return EXCHANGE_CLOSE;
}
