/* SPDX-License-Identifier: MIT */
#include "app/exchange.h"

#include "config.h"
#include "ops.h"

const struct view exchange_continue =
    VIEW_INITIALIZER("HTTP/1.1 100 Continue\r\n\r\n");

void exchange_reject(struct exchange *exchange, int status,
                     const char *sentence) {
    response_error(&exchange->response, status, sentence);
    exchange->unread = true;
}

bool exchange_reserve(struct exchange *exchange, size_t bytes) {
    if (budget_count(&exchange->reserved, bytes, LARGE_RESPONSE))
        return true;
    response_unavailable(&exchange->response,
                         "The server is sending too many large pages to other "
                         "clients. Please try again in a moment.");
    return false;
}

void exchange_ask(struct exchange *exchange, enum resp_type expected,
                  const struct view *words, size_t count) {
    exchange->expected = expected;
    resp_append_command(&exchange->command, words, count);
}

struct view exchange_command(const struct exchange *exchange) {
    return buffer_view(&exchange->command);
}

bool exchange_changes_data(const struct exchange *exchange) {
    return exchange->request.method == HTTP_POST;
}

static bool accepts(const struct exchange *exchange,
                    const struct resp_reply *reply) {
    enum resp_type expected = exchange->expected;

    if (expected == RESP_STRING && reply->type == RESP_NULL)
        return true;
    /* The handlers use only arrays of strings. */
    return reply->type == expected &&
           (expected != RESP_ARRAY || reply->all_strings);
}

/* Does the reply report a state that will end by itself? */
static bool is_temporary(const struct resp_reply *reply) {
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

bool exchange_check_reply(struct exchange *exchange,
                          const struct resp_reply *reply) {
    if (reply == NULL || is_temporary(reply)) {
        response_unavailable(
            &exchange->response,
            "This request needs Redis, which is not available now. Please try "
            "again in a moment.");
        return false;
    }
    if (!accepts(exchange, reply)) {
        response_error(
            &exchange->response, 502,
            "Redis sent a reply that this server cannot use. The server's log "
            "gives the reason.");
        return false;
    }
    return true;
}
