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
 *               LINGER <-- some of the request ----+---- otherwise --> CLOSED
 *                 |        was left unread, or the
 *                 |        response is a long one
 *                 +--> CLOSED
 *
 * A connection closes if its request cannot be answered (out of memory).
 */
#include "app/connection.h"

#include "app/routes.h"
#include "config.h"
#include "ops.h"

#include <assert.h>
#include <sys/param.h>

void connection_init(struct connection *connection, const struct app *app,
                     const struct cached_time *cached_time, int requests) {
    *connection = (struct connection){.requests_left = requests};
    connection->exchange.app = app;
    connection->exchange.response.cached_time = cached_time;
}

/* Frees the data of one exchange. */
static void end_exchange(struct exchange *exchange) {
    buffer_free(&exchange->kept);
    buffer_free(&exchange->command);
    response_free(&exchange->response);
    if (exchange->reserved > 0)
        (void)exchange_reserve(exchange, 0); /* which cannot fail */
    buffer_free(&exchange->path);
    exchange->head = exchange->body = 0;
    exchange->step = 0;
    exchange->unread = exchange->continued = false;
    exchange->sent = 0;
}

/* Counts the memory of a request while it is incomplete.  Returns false if the
   limit for all large requests is reached. */
static bool count_input(struct connection *connection) {
    return budget_count(&connection->counted, connection->input.capacity,
                        LARGE_REQUEST);
}

static void free_input(struct connection *connection) {
    buffer_free(&connection->input);
    (void)count_input(connection); /* which cannot fail */
}

void connection_free(struct connection *connection) {
    end_exchange(&connection->exchange);
    free_input(connection);
}

void connection_abandon(struct connection *connection) {
    connection->state = STATE_CLOSED;
}

enum connection_need connection_need(const struct connection *connection) {
    static const enum connection_need needs[] = {
        [STATE_HEAD] = NEED_RECEIVE, [STATE_CONTINUE] = NEED_SEND,
        [STATE_BODY] = NEED_RECEIVE, [STATE_REDIS] = NEED_ASK_REDIS,
        [STATE_KEEP] = NEED_KEEP,    [STATE_SEND] = NEED_SEND,
        [STATE_SENT] = NEED_DONE,    [STATE_LINGER] = NEED_RECEIVE,
        [STATE_CLOSED] = NEED_CLOSE,
    };
    return needs[connection->state];
}

/* ---- Responses ---- */

void connection_keep(struct connection *connection, bool may_keep) {
    struct exchange *exchange = &connection->exchange;
    struct response *response = &exchange->response;

    connection->keep_alive &= may_keep;
    response_finish(response, connection->keep_alive,
                    exchange->request.minor_version);
    connection->state = response->head.failed || response->body.failed
                            ? STATE_CLOSED
                            : STATE_SEND;
}

/* If the rest of the request is unread, the connection must end: the rest would
   be parsed as the next request. */
static void send_response(struct connection *connection) {
    if (--connection->requests_left <= 0 || !connection->keep_alive ||
        connection->exchange.unread)
        connection_keep(connection, false);
    else
        connection->state = STATE_KEEP;
}

static void reject(struct connection *connection, int status,
                   const char *sentence) {
    exchange_reject(&connection->exchange, status, sentence);
    send_response(connection);
}

/* Calls the handler with the whole request, and again with each reply of Redis.
   If this call adds no command for Redis, the response is complete. */
static void call_handler(struct connection *connection,
                         const struct resp_reply *reply) {
    struct exchange *exchange = &connection->exchange;

    exchange->content = view_slice(buffer_view(&connection->input),
                                   exchange->head, exchange->body);
    exchange->reply = reply;
    buffer_clear(&exchange->command);
    exchange->handler(exchange);
    if (exchange->command.failed || exchange->kept.failed)
        connection->state = STATE_CLOSED; /* out of memory */
    else if (exchange->command.length > 0)
        connection->state = STATE_REDIS;
    else
        send_response(connection);
}

bool connection_replied(struct connection *connection,
                        const struct resp_reply *reply) {
    assert(connection->state == STATE_REDIS);
    bool fits = exchange_check_reply(&connection->exchange, reply);
    if (fits) {
        connection->exchange.step++;
        call_handler(connection, reply);
    } else {
        send_response(connection);
    }
    return fits;
}

/* ---- Requests ---- */

/* Processes the received part of the body.  Returns 1 if the body is complete,
   0 if more bytes are needed, or minus a status. */
static int take_body(struct exchange *exchange, struct buffer *input) {
    size_t wanted = (size_t)exchange->request.content_length;
    size_t end = exchange->head + exchange->body;

    if (exchange->request.body == HTTP_LENGTH_BODY) {
        exchange->body = MIN(input->length - exchange->head, wanted);
        return exchange->body == wanted;
    }
    int result = http_decode_chunks(&exchange->chunks, input, &end);
    exchange->body = end - exchange->head;
    return result;
}

static void advance_body(struct connection *connection) {
    int result = take_body(&connection->exchange, &connection->input);

    if (result == -413)
        reject(connection, 413, "The request's body is too long.");
    else if (result < 0)
        reject(connection, -result, "The chunks of the body are malformed.");
    else if (result > 0)
        call_handler(connection, NULL);
}

static void await_body(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;

    exchange->chunks = (struct http_chunks){0};
    /* RFC 9110, section 10.1.1: a client that sends a part of its body does not
       wait for "100 Continue". */
    if (exchange->request.expects_continue &&
        connection->input.length == exchange->head) {
        exchange->continued = true;
        connection->state = STATE_CONTINUE;
        return;
    }
    connection->state = STATE_BODY;
    advance_body(connection);
}

/* A client that has sent only empty lines is idle. */
static void drop_empty_lines(struct connection *connection) {
    struct buffer *input = &connection->input;
    size_t empty = http_empty_lines(buffer_view(input));

    if (empty == 0)
        return;
    buffer_consume(input, empty);
    connection->seen = 0;
    if (input->length == 0)
        free_input(connection);
}

static void advance_head(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;
    struct http_request *request = &exchange->request;

    drop_empty_lines(connection);
    struct view input = buffer_view(&connection->input);
    if (input.length == 0)
        return;
    ssize_t result = http_parse_head(input, connection->seen, request);
    if (result == 0) {
        connection->seen = input.length;
        return;
    }
    if (result < 0) {
        reject(connection, (int)-result, request->complaint);
        return;
    }
    exchange->head = (size_t)result;
    connection->keep_alive = request->keep_alive;
    if (!routes_choose(exchange))
        send_response(connection);
    else if (request->body == HTTP_NO_BODY)
        call_handler(connection, NULL);
    else
        await_body(connection);
}

/* The request's views point into the input.  The input may move while a body is
   received, so the head is parsed again. */
static void renew_views(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;
    struct view head =
        view_slice(buffer_view(&connection->input), 0, exchange->head);
    ssize_t result = http_parse_head(head, 0, &exchange->request);

    assert(result == (ssize_t)exchange->head); /* it was valid the first time */
    (void)result;
}

char *connection_room(struct connection *connection, size_t *size) {
    struct buffer *input = &connection->input;
    size_t capacity = input->capacity;

    if (connection->state == STATE_LINGER)
        input->length = 0;
    /* At least half of the first size, so that few receive calls are needed. */
    size_t least = input->capacity == 0 ? RECEIVE_SIZE : RECEIVE_SIZE / 2;
    char *room = buffer_reserve(input, least);
    if (input->capacity != capacity && connection->state == STATE_BODY)
        renew_views(connection);
    *size = input->capacity - input->length;
    return room;
}

void connection_received(struct connection *connection, size_t count) {
    assert(connection_need(connection) == NEED_RECEIVE);
    if (count == 0) { /* the client will send no more */
        connection->state = STATE_CLOSED;
        return;
    }
    if (connection->state == STATE_LINGER) {
        connection->dropped += count;
        if (connection->dropped > LINGER_LIMIT)
            connection->state = STATE_CLOSED;
        return;
    }
    connection->input.length += count;
    if (connection->state == STATE_HEAD)
        advance_head(connection);
    else
        advance_body(connection);
    if (connection_need(connection) != NEED_RECEIVE || count_input(connection))
        return;
    response_unavailable(&connection->exchange.response,
                         "The server is receiving too many long requests. "
                         "Please try again in a moment.");
    connection->exchange.unread = true;
    send_response(connection);
}

/* ---- Sending ---- */

/* Returns the part of the view that has not been sent.  Subtracts the sent
   bytes of this view from *sent, which also counts those of later views. */
static struct view unsent_part(struct view view, uint64_t *sent) {
    size_t count = *sent < view.length ? (size_t)*sent : view.length;
    *sent -= count;
    return view_skip(view, count);
}

struct pending connection_pending(const struct connection *connection) {
    const struct exchange *exchange = &connection->exchange;
    const struct response *response = &exchange->response;
    struct pending pending = {.descriptor = -1,
                              .last = connection->state == STATE_SEND &&
                                      !connection->keep_alive};
    uint64_t sent = exchange->sent;

    if (connection->state == STATE_CONTINUE) {
        pending.first = unsent_part(exchange_continue, &sent);
        return pending;
    }
    struct view head = buffer_view(&response->head);
    if (exchange->request.method == HTTP_HEAD) {
        pending.first =
            unsent_part(view_slice(head, 0, response->head_length), &sent);
        return pending;
    }
    pending.first = unsent_part(head, &sent);
    if (response->file == NULL || response->file->text.length > 0) {
        pending.second = unsent_part(response_body(response), &sent);
        return pending;
    }
    pending.descriptor = response->file->descriptor;
    pending.file_offset = response->file_offset + sent;
    pending.file_bytes = response->file_bytes - sent;
    return pending;
}

void connection_sent(struct connection *connection, uint64_t count) {
    connection->exchange.sent += count;
    struct pending pending = connection_pending(connection);
    if (pending.first.length + pending.second.length + pending.file_bytes > 0)
        return;
    if (connection->state == STATE_CONTINUE) {
        connection->exchange.sent = 0;
        connection->state = STATE_BODY;
    } else {
        connection->state = STATE_SENT;
    }
}

void connection_next(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;
    struct buffer *input = &connection->input;
    size_t used = exchange->head + exchange->body;
    /* A close with unread bytes resets the connection, and the client may lose
       the response: RFC 9112, section 9.6.  The client may also send more bytes
       while it receives a long response. */
    bool lingers = exchange->unread || input->length > used ||
                   exchange->sent > SENDFILE_AT_ONCE;

    assert(connection->state == STATE_SENT);
    end_exchange(exchange);
    if (!connection->keep_alive) {
        connection->state = lingers ? STATE_LINGER : STATE_CLOSED;
        return;
    }
    buffer_consume(input, used);
    if (input->length == 0)
        free_input(connection); /* an idle connection costs no buffer */
    connection->seen = 0;
    connection->state = STATE_HEAD;
    connection->greeted = true;
    advance_head(connection);
}

/* ---- Time ---- */

/* A CR alone does not begin a request.  Otherwise a client could restart its
   timeout with each CR and LF. */
bool connection_is_idle(const struct connection *connection) {
    struct view input = buffer_view(&connection->input);

    return connection->state == STATE_HEAD &&
           (input.length == 0 || view_equal(input, VIEW("\r")));
}

enum timeout connection_timeout(const struct connection *connection) {
    static const enum timeout timeouts[] = {
        [STATE_HEAD] = TIMEOUT_REQUEST,  [STATE_CONTINUE] = TIMEOUT_SEND,
        [STATE_BODY] = TIMEOUT_REQUEST,  [STATE_SEND] = TIMEOUT_SEND,
        [STATE_LINGER] = TIMEOUT_LINGER, [STATE_CLOSED] = TIMEOUT_NONE,
    };
    if (connection->greeted && connection_is_idle(connection))
        return TIMEOUT_IDLE;
    return timeouts[connection->state];
}

int timeout_milliseconds(enum timeout timeout) {
    static const int times[] = {
        [TIMEOUT_NONE] = -1,
        [TIMEOUT_IDLE] = IDLE_TIMEOUT,
        [TIMEOUT_REQUEST] = REQUEST_TIMEOUT,
        [TIMEOUT_SEND] = SEND_TIMEOUT,
        [TIMEOUT_LINGER] = LINGER_TIMEOUT,
    };
    return times[timeout];
}

void connection_timed_out(struct connection *connection) {
    if (connection_timeout(connection) == TIMEOUT_REQUEST &&
        !connection_is_idle(connection))
        reject(connection, 408, "The request did not arrive in time.");
    else
        connection->state = STATE_CLOSED;
}
