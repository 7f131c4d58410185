/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include "answers.h"
#include "config.h"
#include "must.h"
#include "tokens.h"

#include <string.h>
#include <unistd.h>

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

/* What is received before it is looked at, and room for the next piece, in a
   buffer that grows by half. */
#define INPUT_MOST                                                             \
    ((HEAD_LIMIT + BODY_LIMIT + CHUNK_OVERHEAD_LIMIT + 4 * RECEIVE_SIZE) * 3 / \
     2)

struct worker worker;

/* ---- Memory that runs out ---- */

static bool inside; /* an exchange asks for it, and not this program */

/* The linker puts this in place of realloc(3), which all buffers grow by. */
void *__wrap_realloc(void *memory, size_t size) {
    if (inside && worker.allocations_left == 0)
        return NULL;
    if (inside && worker.allocations_left > 0)
        worker.allocations_left--;
    return __real_realloc(memory, size);
}

bool has_memory(void) {
    return worker.allocations_left < 0;
}

/* ---- The script ---- */

unsigned script_next(void) {
    if (worker.script.length == 0)
        return 0;
    unsigned byte = (unsigned char)worker.script.data[0];
    worker.script = view_from(worker.script, 1);
    return byte;
}

/* A number that is mostly small, and up to 64 KiB. */
static size_t next_size(void) {
    unsigned byte = script_next();
    return byte < 0xc0 ? byte : (size_t)(byte - 0xbf) << 10;
}

/* ---- Invariants ---- */

static void must_agree(const struct connection *connection) {
    const struct exchange *exchange = &connection->exchange;
    enum patience patience = exchange_patience(exchange);
    struct exchange_pending pending;

    must(exchange->input.capacity <= INPUT_MOST);
    must(exchange->head + exchange->body <= exchange->input.length ||
         exchange->state == STATE_LINGER);
    must(exchange->requests_left >= 0);
    switch (connection->need) {
    case EXCHANGE_RECEIVE:
        must(exchange->state == STATE_HEAD || exchange->state == STATE_BODY);
        must(patience == PATIENCE_REQUEST || patience == PATIENCE_IDLE);
        must(patience != PATIENCE_IDLE || connection->answers > 0);
        must(patience != PATIENCE_IDLE || exchange_is_idle(exchange));
        break;
    case EXCHANGE_ASK_REDIS:
        must(exchange->state == STATE_REDIS && patience == PATIENCE_NONE);
        must(exchange_command(exchange).length > 0);
        break;
    case EXCHANGE_KEEP:
        must(exchange->state == STATE_KEEP && exchange->keep_alive);
        must(exchange->requests_left > 0 && !exchange->unread);
        must(connection->may_keep); /* not asked yet, or another answer */
        break;
    case EXCHANGE_SEND:
        must(exchange->state == STATE_SEND ||
             exchange->state == STATE_CONTINUE);
        pending = exchange_pending(exchange);
        must(pending.first.length + pending.second.length + pending.count > 0);
        must(pending.second.length == 0 || pending.descriptor < 0);
        must(patience == PATIENCE_SEND);
        break;
    case EXCHANGE_DONE:
        must(exchange->state == STATE_SENT);
        break;
    case EXCHANGE_LINGER:
        must(exchange->state == STATE_LINGER && patience == PATIENCE_LINGER);
        must(exchange->dropped <= LINGER_LIMIT);
        break;
    case EXCHANGE_CLOSE:
        break;
    }
    must(patience_time(patience) > 0 || patience == PATIENCE_NONE);
}

/* The request as it came, from its first byte that is not a blank line. */
static bool is_head_request(const struct connection *connection) {
    struct view request =
        view_from(buffer_view(&connection->delivered), connection->start);

    while (view_starts_with(request, VIEW("\r\n")))
        request = view_from(request, 2);
    return view_starts_with(request, VIEW("HEAD "));
}

/* What Redis has told this very exchange is in its response. */
static void must_tell_the_reply(const struct connection *connection,
                                const struct answer *answer) {
    struct buffer words = {0};

    if (connection->lied || answer->status >= 500)
        return;
    if (connection->visitor > 0 && answer->body.length > 0) {
        must(answer->status == 200 || answer->status == 400);
        buffer_append(&words, VIEW("visitor number "));
        buffer_append_number(&words, connection->visitor);
        buffer_append(&words, VIEW("<"));
        must(view_contains(answer->body, buffer_view(&words)));
    }
    if (connection->link.length > 0) {
        must(answer->status == 302);
        must(view_equal(answer_field(answer, VIEW("Location")),
                        buffer_view(&connection->link)));
    }
    buffer_free(&words);
}

static void must_be_answered(struct connection *connection) {
    const struct exchange *exchange = &connection->exchange;
    struct answer answer =
        read_answer(buffer_view(&connection->out), is_head_request(connection));

    must(exchange_bytes(exchange) == connection->out.length);
    must(answer.status == exchange->response.status);
    must(answer.closes == !exchange->keep_alive);
    must(!answer.continued || exchange->request.expects_continue);
    must(!answer.keeps || exchange->request.minor_version == 0);
    if (!connection->may_keep || exchange->requests_left == 0 ||
        (exchange->head > 0 && !exchange->request.keep_alive))
        must(answer.closes);
    if (exchange->unread)
        must(answer.closes);
    must_tell_the_reply(connection, &answer);
    /* Of several faults in one request the first that comes is told: which one
       that is may depend on how the bytes are cut. */
    if (exchange->unread) {
        buffer_append(&connection->all, VIEW("refused"));
    } else {
        buffer_append(&connection->all, answer.head);
        buffer_append(&connection->all, answer.body);
    }
    connection->answers++;
}

/* ---- Steps ---- */

static void fill(struct buffer *buffer, char byte, size_t count) {
    char *room = buffer_reserve(buffer, count);

    must(room != NULL);
    memset(room, byte, count);
    buffer->length += count;
}

/* The client writes something. */
static void compose(struct connection *connection, unsigned how) {
    struct buffer *outbox = &connection->outbox;
    size_t count;

    if (outbox->length > 4 * BODY_LIMIT)
        return;
    if (how < 2 * TOKENS) {
        buffer_append(outbox, view_of(tokens[how % TOKENS]));
    } else if (how % 2 == 0) {
        count = script_next() % 32;
        count = count < worker.script.length ? count : worker.script.length;
        buffer_append(outbox, view_part(worker.script, 0, count));
        worker.script = view_from(worker.script, count);
    } else {
        count = next_size();
        fill(outbox, (char)script_next(), count);
    }
}

static void received(struct connection *connection, size_t count) {
    inside = true;
    connection->need = exchange_received(&connection->exchange, count);
    inside = false;
}

/* Some of what the client has sent arrives. */
static void deliver(struct connection *connection, size_t count) {
    struct buffer *outbox = &connection->outbox;
    size_t size;
    inside = true;
    char *room = exchange_room(&connection->exchange, &size);
    inside = false;

    if (room == NULL) {
        must(!has_memory());
        connection->need = EXCHANGE_CLOSE;
        return;
    }
    must(size >= RECEIVE_SIZE / 2);
    count = count < size ? count : size;
    count = count < outbox->length ? count : outbox->length;
    if (count == 0)
        return;
    memcpy(room, outbox->data, count);
    buffer_append(&connection->delivered,
                  view_part(buffer_view(outbox), 0, count));
    buffer_consume(outbox, count);
    received(connection, count);
}

static void run_out_of_patience(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;
    bool lingers = connection->need == EXCHANGE_LINGER;
    bool idle = exchange_is_idle(exchange);

    connection->cut = true;
    inside = true;
    connection->need = exchange_timed_out(exchange);
    inside = false;
    if (lingers || idle)
        must(connection->need == EXCHANGE_CLOSE);
    else if (has_memory())
        must(connection->need == EXCHANGE_SEND &&
             exchange->response.status == 408);
}

static void receive(struct connection *connection) {
    unsigned how = script_next();

    if (worker.script.length == 0 && connection->outbox.length > 0)
        deliver(connection, SIZE_MAX);
    else if (worker.script.length == 0)
        received(connection, 0);
    else if (how < 0x80)
        compose(connection, how);
    else if (how < 0xc0)
        deliver(connection, SIZE_MAX);
    else if (how < 0xf8)
        deliver(connection, how - 0xbf);
    else if (how < 0xfa)
        run_out_of_patience(connection);
    else if (how < 0xfc)
        received(connection, 0);
    else
        worker.allocations_left =
            how == 0xff ? (int)(script_next() % 8) : worker.allocations_left;
}

/* Hands the reply over in memory of its own, which is gone afterwards: what
   still points there is found. */
void connection_reply(struct connection *connection, struct view bytes) {
    struct resp_reply parsed;
    char *copy = malloc(bytes.length + 1);

    must(copy != NULL);
    if (bytes.length > 0)
        memcpy(copy, bytes.data, bytes.length);
    bool usable = resp_parse((struct view){copy, bytes.length}, &parsed) > 0 &&
                  exchange_accepts(&connection->exchange, &parsed);
    buffer_append_number(&connection->replies, (int64_t)bytes.length);
    buffer_append(&connection->replies, VIEW(" "));
    buffer_append(&connection->replies, bytes);
    inside = true;
    connection->need =
        exchange_replied(&connection->exchange, usable ? &parsed : NULL);
    inside = false;
    free(copy);
}

static void ask(struct connection *connection) {
    struct buffer honest = {0};
    unsigned how = script_next();

    connection->link.length = 0;
    false_redis_answer(&worker.redis, exchange_command(&connection->exchange),
                       &honest, &connection->visitor, &connection->link);
    must(!honest.failed);
    if (how < 0xc0) {
        connection_reply(connection, buffer_view(&honest));
    } else {
        connection->lied = true;
        connection_reply(connection, view_of(lies[how % LIES]));
    }
    buffer_free(&honest);
}

static void keep(struct connection *connection) {
    connection->may_keep = script_next() < 0xf0;
    connection->cut |= !connection->may_keep;
    inside = true;
    connection->need =
        exchange_keep(&connection->exchange, connection->may_keep);
    inside = false;
}

/* Takes up to so many bytes, in the order in which they are pending. */
static size_t take(struct buffer *out, const struct exchange_pending *pending,
                   size_t most) {
    const struct view views[] = {pending->first, pending->second};
    size_t taken = 0;

    for (size_t i = 0; i < 2; i++) {
        size_t left = most - taken;
        size_t count = views[i].length < left ? views[i].length : left;
        buffer_append(out, view_part(views[i], 0, count));
        taken += count;
    }
    if (taken == most || pending->count == 0)
        return taken;
    size_t count =
        most - taken < pending->count ? most - taken : pending->count;
    char *room = buffer_reserve(out, count);
    must(room != NULL);
    must(pread(pending->descriptor, room, count, (off_t)pending->offset) ==
         (ssize_t)count);
    out->length += count;
    return taken + count;
}

static void transmit(struct connection *connection) {
    struct exchange_pending pending = exchange_pending(&connection->exchange);
    size_t most = SIZE_MAX;

    if (worker.script.length > 0 && (script_next() & 1) != 0)
        most = next_size() + 1;
    size_t count = take(&connection->out, &pending, most);
    must(count > 0);
    connection->need = exchange_sent(&connection->exchange, count);
}

/* An exchange is over. */
static void finish(struct connection *connection) {
    struct exchange *exchange = &connection->exchange;
    size_t used = exchange->head + exchange->body;
    size_t rest = exchange->input.length - used;
    size_t start = connection->delivered.length - rest;
    bool keeps = exchange->keep_alive;
    bool unread = exchange->unread || rest > 0;

    must_be_answered(connection);
    must(start > connection->start || exchange->unread); /* one a request */
    connection->start = start;
    buffer_clear(&connection->out);
    connection->visitor = 0;
    connection->link.length = 0;
    connection->lied = false;
    inside = true;
    connection->need = exchange_next(exchange);
    inside = false;
    must(keeps == (connection->need != EXCHANGE_LINGER &&
                   connection->need != EXCHANGE_CLOSE) ||
         !has_memory());
    if (!keeps)
        must((connection->need == EXCHANGE_LINGER) == unread);
}

void connection_step(struct connection *connection) {
    enum exchange_need before = connection->need;

    switch (before) {
    case EXCHANGE_RECEIVE:
    case EXCHANGE_LINGER:
        receive(connection);
        break;
    case EXCHANGE_ASK_REDIS:
        ask(connection);
        break;
    case EXCHANGE_KEEP:
        keep(connection);
        break;
    case EXCHANGE_SEND:
        transmit(connection);
        break;
    case EXCHANGE_DONE:
        finish(connection);
        break;
    case EXCHANGE_CLOSE:
        break;
    }
    must_agree(connection);
    if (connection->need == EXCHANGE_CLOSE && !has_memory())
        connection->cut = true;
}

/* ---- Its life ---- */

void connection_start(struct connection *connection, int requests) {
    *connection =
        (struct connection){.need = EXCHANGE_RECEIVE, .may_keep = true};
    exchange_init(&connection->exchange, &worker.app, &worker.moment, requests);
}

void connection_free(struct connection *connection) {
    exchange_free(&connection->exchange);
    buffer_free(&connection->outbox);
    buffer_free(&connection->delivered);
    buffer_free(&connection->out);
    buffer_free(&connection->all);
    buffer_free(&connection->replies);
    buffer_free(&connection->link);
}
