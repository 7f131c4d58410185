/* SPDX-License-Identifier: MIT */
#include "dialogue.h"

#include "answers.h"
#include "config.h"
#include "must.h"
#include "process/log.h"
#include "tokens.h"

#include <string.h>
#include <unistd.h>

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

/* The largest input buffer: the longest request and the next pieces, times 3/2
   because the buffer grows by half. */
#define INPUT_MOST                                                             \
    ((HEAD_LIMIT + BODY_LIMIT + CHUNK_OVERHEAD_LIMIT + 4 * RECEIVE_SIZE) * 3 / \
     2)

struct worker worker;

/* The application calls this function if a file is missing. */
void server_fatal(const char *format, ...) {
    (void)fprintf(stderr, "%s\n", format);
    abort();
}

/* ---- Memory that runs out ---- */

static bool inside; /* a connection's code runs, not the fuzz target */

/* Replaces realloc(3), which all buffers use (linker option --wrap). */
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
    worker.script = view_skip(worker.script, 1);
    return byte;
}

/* Returns a number up to 64 KiB, most often a small number. */
static size_t next_size(void) {
    unsigned byte = script_next();
    return byte < 0xc0 ? byte : (size_t)(byte - 0xbf) << 10;
}

/* ---- Invariants ---- */

static void must_agree(const struct dialogue *dialogue) {
    const struct connection *connection = &dialogue->connection;
    const struct exchange *exchange = &connection->exchange;
    enum timeout kind = connection_timeout(connection);
    struct pending pending;

    must(connection->input.capacity <= INPUT_MOST);
    must(exchange->head + exchange->body <= connection->input.length ||
         connection->state == STATE_LINGER ||
         connection->state == STATE_CLOSED);
    must(connection->requests_left >= 0);
    switch (connection_need(connection)) {
    case NEED_RECEIVE:
        if (connection->state == STATE_LINGER) {
            must(kind == TIMEOUT_LINGER);
            must(connection->dropped <= LINGER_LIMIT);
            break;
        }
        must(kind == TIMEOUT_REQUEST || kind == TIMEOUT_IDLE);
        must(kind != TIMEOUT_IDLE || dialogue->answers > 0);
        must(kind != TIMEOUT_IDLE || connection_is_idle(connection));
        break;
    case NEED_ASK_REDIS:
        must(kind == TIMEOUT_NONE);
        must(exchange_command(exchange).length > 0);
        break;
    case NEED_KEEP:
        must(connection->keep_alive);
        must(connection->requests_left > 0 && !exchange->unread);
        must(dialogue->may_keep); /* not asked again after "no" */
        break;
    case NEED_SEND:
        pending = connection_pending(connection);
        must(pending.first.length + pending.second.length + pending.file_bytes >
             0);
        must(pending.second.length == 0 || pending.descriptor < 0);
        must(kind == TIMEOUT_SEND);
        break;
    case NEED_DONE:
        must(kind == TIMEOUT_NONE);
        break;
    case NEED_CLOSE:
        break;
    }
    must(timeout_milliseconds(kind) > 0 || kind == TIMEOUT_NONE);
}

/* Returns whether the request is a HEAD; empty lines may precede it. */
static bool is_head_request(const struct dialogue *dialogue) {
    struct view request =
        view_skip(buffer_view(&dialogue->delivered), dialogue->start);

    while (view_starts_with(request, VIEW("\r\n")))
        request = view_skip(request, 2);
    return view_starts_with(request, VIEW("HEAD "));
}

/* Aborts unless the response has the data that Redis sent to this exchange. */
static void must_have_the_reply(const struct dialogue *dialogue,
                                const struct answer *answer) {
    struct buffer words = {0};

    if (dialogue->lied || answer->status >= 500)
        return;
    if (dialogue->visitor > 0 && answer->body.length > 0) {
        must(answer->status == 200 || answer->status == 400);
        buffer_append(&words, VIEW("visitor number "));
        buffer_append_number(&words, dialogue->visitor);
        buffer_append(&words, VIEW("<"));
        must(view_contains(answer->body, buffer_view(&words)));
    }
    if (dialogue->link.length > 0) {
        must(answer->status == 302);
        must(view_equal(answer_field(answer, VIEW("Location")),
                        buffer_view(&dialogue->link)));
    }
    buffer_free(&words);
}

static void must_be_answered(struct dialogue *dialogue) {
    const struct connection *connection = &dialogue->connection;
    const struct exchange *exchange = &connection->exchange;
    struct answer answer =
        read_answer(buffer_view(&dialogue->out), is_head_request(dialogue));

    must(exchange->sent +
             (exchange->continued ? exchange_continue.length : 0) ==
         dialogue->out.length);
    must(answer.status == exchange->response.status);
    must(answer.closes == !connection->keep_alive);
    must(!answer.continued || exchange->request.expects_continue);
    must(!answer.keeps || exchange->request.minor_version == 0);
    if (!dialogue->may_keep || connection->requests_left == 0 ||
        (exchange->head > 0 && !exchange->request.keep_alive))
        must(answer.closes);
    if (exchange->unread)
        must(answer.closes);
    must_have_the_reply(dialogue, &answer);
    /* If a request has several errors, the lengths of its pieces may determine
       which error is reported. */
    if (exchange->unread) {
        buffer_append(&dialogue->all, VIEW("refused"));
    } else {
        buffer_append(&dialogue->all, answer.head);
        buffer_append(&dialogue->all, answer.body);
    }
    dialogue->answers++;
}

/* ---- Steps ---- */

static void fill(struct buffer *buffer, char byte, size_t count) {
    char *room = buffer_reserve(buffer, count);

    must(room != NULL);
    memset(room, byte, count);
    buffer->length += count;
}

/* Appends bytes that the client sends: `how` selects them. */
static void compose(struct dialogue *dialogue, unsigned how) {
    struct buffer *outbox = &dialogue->outbox;
    size_t count;

    if (outbox->length > 4 * BODY_LIMIT)
        return;
    if (how < 2 * TOKENS) {
        buffer_append(outbox, view_of(tokens[how % TOKENS]));
    } else if (how % 2 == 0) {
        count = script_next() % 32;
        count = count < worker.script.length ? count : worker.script.length;
        buffer_append(outbox, view_slice(worker.script, 0, count));
        worker.script = view_skip(worker.script, count);
    } else {
        count = next_size();
        fill(outbox, (char)script_next(), count);
    }
}

static void received(struct dialogue *dialogue, size_t count) {
    inside = true;
    connection_received(&dialogue->connection, count);
    inside = false;
}

/* Passes up to `count` bytes from the client to the connection. */
static void deliver(struct dialogue *dialogue, size_t count) {
    struct buffer *outbox = &dialogue->outbox;
    size_t size;
    inside = true;
    char *room = connection_room(&dialogue->connection, &size);
    inside = false;

    if (room == NULL) {
        must(!has_memory());
        connection_abandon(&dialogue->connection);
        return;
    }
    must(size >= RECEIVE_SIZE / 2);
    count = count < size ? count : size;
    count = count < outbox->length ? count : outbox->length;
    if (count == 0)
        return;
    memcpy(room, outbox->data, count);
    buffer_append(&dialogue->delivered,
                  view_slice(buffer_view(outbox), 0, count));
    buffer_consume(outbox, count);
    received(dialogue, count);
}

static void run_into_timeout(struct dialogue *dialogue) {
    struct connection *connection = &dialogue->connection;
    bool lingers = connection->state == STATE_LINGER;
    bool idle = connection_is_idle(connection);

    dialogue->cut = true;
    inside = true;
    connection_timed_out(connection);
    inside = false;
    if (lingers || idle)
        must(connection_need(connection) == NEED_CLOSE);
    else if (has_memory())
        must(connection_need(connection) == NEED_SEND &&
             connection->exchange.response.status == 408);
}

static void receive(struct dialogue *dialogue) {
    unsigned how = script_next();

    if (worker.script.length == 0 && dialogue->outbox.length > 0)
        deliver(dialogue, SIZE_MAX);
    else if (worker.script.length == 0)
        received(dialogue, 0);
    else if (how < 0x80)
        compose(dialogue, how);
    else if (how < 0xc0)
        deliver(dialogue, SIZE_MAX);
    else if (how < 0xf8)
        deliver(dialogue, how - 0xbf);
    else if (how < 0xfa)
        run_into_timeout(dialogue);
    else if (how < 0xfc)
        received(dialogue, 0);
    else
        worker.allocations_left =
            how == 0xff ? (int)(script_next() % 8) : worker.allocations_left;
}

/* Copies the reply to separate memory and frees it afterwards, so that the
   address sanitizer reports a later access. */
void dialogue_reply(struct dialogue *dialogue, struct view bytes) {
    struct resp_scan scan = {0};
    struct resp_reply parsed;
    size_t used;
    char *copy = malloc(bytes.length + 1);

    must(copy != NULL);
    if (bytes.length > 0)
        memcpy(copy, bytes.data, bytes.length);
    bool whole =
        resp_read(&scan, (struct view){copy, bytes.length}, &used, &parsed) > 0;
    buffer_append_number(&dialogue->replies, (int64_t)bytes.length);
    buffer_append(&dialogue->replies, VIEW(" "));
    buffer_append(&dialogue->replies, bytes);
    inside = true;
    connection_replied(&dialogue->connection, whole ? &parsed : NULL);
    inside = false;
    free(copy);
}

static void ask(struct dialogue *dialogue) {
    struct buffer honest = {0};
    unsigned how = script_next();

    dialogue->link.length = 0;
    false_redis_answer(&worker.redis,
                       exchange_command(&dialogue->connection.exchange),
                       &honest, &dialogue->visitor, &dialogue->link);
    must(!honest.failed);
    if (how < 0xc0) {
        dialogue_reply(dialogue, buffer_view(&honest));
    } else {
        dialogue->lied = true;
        dialogue_reply(dialogue, view_of(lies[how % LIES]));
    }
    buffer_free(&honest);
}

static void keep(struct dialogue *dialogue) {
    dialogue->may_keep = script_next() < 0xf0;
    dialogue->cut |= !dialogue->may_keep;
    inside = true;
    connection_keep(&dialogue->connection, dialogue->may_keep);
    inside = false;
}

/* Takes up to `most` bytes, in the order in which they are pending. */
static size_t take(struct buffer *out, const struct pending *pending,
                   size_t most) {
    const struct view views[] = {pending->first, pending->second};
    size_t taken = 0;

    for (size_t i = 0; i < 2; i++) {
        size_t left = most - taken;
        size_t count = views[i].length < left ? views[i].length : left;
        buffer_append(out, view_slice(views[i], 0, count));
        taken += count;
    }
    if (taken == most || pending->file_bytes == 0)
        return taken;
    size_t count = most - taken;
    if (count > pending->file_bytes)
        count = (size_t)pending->file_bytes;
    char *room = buffer_reserve(out, count);
    must(room != NULL);
    must(pread(pending->descriptor, room, count, (off_t)pending->file_offset) ==
         (ssize_t)count);
    out->length += count;
    return taken + count;
}

static void transmit(struct dialogue *dialogue) {
    struct pending pending = connection_pending(&dialogue->connection);
    size_t most = SIZE_MAX;

    if (worker.script.length > 0 && (script_next() & 1) != 0)
        most = next_size() + 1;
    size_t count = take(&dialogue->out, &pending, most);
    must(count > 0);
    connection_sent(&dialogue->connection, count);
}

/* Checks the response of a finished exchange; prepares the next exchange. */
static void finish(struct dialogue *dialogue) {
    struct connection *connection = &dialogue->connection;
    const struct exchange *exchange = &connection->exchange;
    size_t used = exchange->head + exchange->body;
    size_t rest = connection->input.length - used;
    size_t start = dialogue->delivered.length - rest;
    bool keeps = connection->keep_alive;
    bool lingers =
        exchange->unread || rest > 0 || exchange->sent > SENDFILE_AT_ONCE;

    must_be_answered(dialogue);
    must(start > dialogue->start || exchange->unread); /* progress */
    dialogue->start = start;
    buffer_clear(&dialogue->out);
    dialogue->visitor = 0;
    dialogue->link.length = 0;
    dialogue->lied = false;
    inside = true;
    connection_next(connection);
    inside = false;
    bool ends = connection->state == STATE_LINGER ||
                connection_need(connection) == NEED_CLOSE;
    must(keeps != ends || !has_memory());
    if (!keeps)
        must((connection->state == STATE_LINGER) == lingers);
}

enum connection_need dialogue_need(const struct dialogue *dialogue) {
    return connection_need(&dialogue->connection);
}

void dialogue_step(struct dialogue *dialogue) {
    switch (dialogue_need(dialogue)) {
    case NEED_RECEIVE:
        receive(dialogue);
        break;
    case NEED_ASK_REDIS:
        ask(dialogue);
        break;
    case NEED_KEEP:
        keep(dialogue);
        break;
    case NEED_SEND:
        transmit(dialogue);
        break;
    case NEED_DONE:
        finish(dialogue);
        break;
    case NEED_CLOSE:
        break;
    }
    must_agree(dialogue);
    if (dialogue_need(dialogue) == NEED_CLOSE && !has_memory())
        dialogue->cut = true;
}

/* ---- Start and end ---- */

void dialogue_start(struct dialogue *dialogue, int requests) {
    *dialogue = (struct dialogue){.may_keep = true};
    connection_init(&dialogue->connection, &worker.app, &worker.cached_time,
                    requests);
}

void dialogue_free(struct dialogue *dialogue) {
    connection_free(&dialogue->connection);
    buffer_free(&dialogue->outbox);
    buffer_free(&dialogue->delivered);
    buffer_free(&dialogue->out);
    buffer_free(&dialogue->all);
    buffer_free(&dialogue->replies);
    buffer_free(&dialogue->link);
}
