/* SPDX-License-Identifier: MIT */
#include "app/exchange.h"

#include "config.h"
#include "ops.h"

#include <stdlib.h>
#include <sys/param.h>

const struct view exchange_continue =
    VIEW_INITIALIZER("HTTP/1.1 100 Continue\r\n\r\n");

void exchange_free(struct exchange *exchange) {
    buffer_free(&exchange->kept);
    buffer_free(&exchange->command);
    response_free(&exchange->response);
    if (exchange->reserved > 0)
        (void)exchange_reserve(exchange, 0); /* which cannot fail */
    free(exchange->path.text);
    exchange->path.text = NULL;
    exchange->head = exchange->body = 0;
    exchange->unread = exchange->continued = false;
    exchange->sent = 0;
}

void exchange_refuse(struct exchange *exchange, int status,
                     const char *sentence) {
    response_error(&exchange->response, status, sentence);
    exchange->unread = true;
}

/* ---- The body ---- */

int exchange_take_body(struct exchange *exchange, struct buffer *input) {
    size_t start = exchange->head + exchange->body;
    size_t raw = input->length - start;
    size_t decoded = 0;

    if (exchange->request.body == HTTP_LENGTH_BODY) {
        size_t wanted = (size_t)exchange->request.content_length;
        exchange->body = MIN(exchange->body + raw, wanted);
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

bool exchange_reserve(struct exchange *exchange, size_t bytes) {
    size_t wanted = bytes > LARGE_RESPONSE ? bytes : 0;
    size_t reserved = exchange->reserved;

    if (wanted > reserved && !budget_take(wanted - reserved)) {
        response_unavailable(&exchange->response,
                             "The server is sending too many large pages to "
                             "other clients. Please try again in a moment.");
        return false;
    }
    if (wanted < reserved)
        budget_return(reserved - wanted);
    exchange->reserved = wanted;
    return true;
}

void exchange_ask(struct exchange *exchange, enum resp_type expected,
                  const struct view *words, size_t count) {
    exchange->expected = expected;
    resp_append_command(&exchange->command, words, count);
}

static enum exchange_result call_handler(struct exchange *exchange,
                                         const struct resp_reply *reply) {
    exchange->reply = reply;
    buffer_clear(&exchange->command);
    exchange->handler(exchange);
    if (exchange->command.failed || exchange->kept.failed)
        return EXCHANGE_FAILED;
    return exchange->command.length > 0 ? EXCHANGE_ASKS : EXCHANGE_ANSWERED;
}

enum exchange_result exchange_answer(struct exchange *exchange,
                                     struct view input) {
    exchange->content = view_slice(input, exchange->head, exchange->body);
    exchange->step = 0;
    return call_handler(exchange, NULL);
}

struct view exchange_command(const struct exchange *exchange) {
    return buffer_view(&exchange->command);
}

bool exchange_changes_data(const struct exchange *exchange) {
    return exchange->request.method == HTTP_POST;
}

bool exchange_accepts(const struct exchange *exchange,
                      const struct resp_reply *reply) {
    enum resp_type expected = exchange->expected;

    if (expected == RESP_STRING && reply->type == RESP_NULL)
        return true;
    /* Arrays are lists of strings, because no handler requests others. */
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
        response_unavailable(
            &exchange->response,
            "The guestbook's database, Redis, cannot be reached now. Please "
            "try again in a moment.");
        return EXCHANGE_ANSWERED;
    }
    if (!exchange_accepts(exchange, reply)) {
        response_error(
            &exchange->response, 502,
            "The guestbook's database, Redis, sent a reply that this "
            "server cannot use. The server's log gives the reason.");
        return EXCHANGE_ANSWERED;
    }
    exchange->step++;
    return call_handler(exchange, reply);
}

uint64_t exchange_bytes(const struct exchange *exchange) {
    return exchange->sent +
           (exchange->continued ? exchange_continue.length : 0);
}
