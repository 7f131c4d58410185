/* SPDX-License-Identifier: MIT */
#include "net/redis/pipeline.h"

#include "config.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void redis_pipeline_init(struct redis_pipeline *pipeline,
                         const struct redis_server *server,
                         const struct event_loop *loop) {
    *pipeline = (struct redis_pipeline){
        .source = {.kind = SOURCE_REDIS, .descriptor = -1},
        .loop = loop,
        .server = server};
}

void redis_pipeline_close(struct redis_pipeline *pipeline) {
    redis_count_missed(pipeline->server, pipeline->due);
    source_close(pipeline->loop, &pipeline->source);
    pipeline->state = PIPELINE_CLOSED;
    pipeline->heard = false;
    pipeline->refused_at = 0;
    pipeline->handshake = 0;
    pipeline->due = pipeline->expected = 0;
    pipeline->leaving = pipeline->skip = (struct resp_skip){0};
    pipeline->gone = pipeline->taken = 0;
    buffer_free(&pipeline->output);
    buffer_free(&pipeline->input);
}

static bool fail(struct redis_pipeline *pipeline, const char *reason,
                 int64_t now) {
    redis_report_down(pipeline->server, reason, now, now);
    redis_pipeline_close(pipeline);
    return false;
}

/* Only this connection has failed: the next command begins another. */
static bool fail_alone(struct redis_pipeline *pipeline, const char *reason,
                       int64_t now) {
    redis_report_failure(pipeline->server, reason, now);
    redis_pipeline_close(pipeline);
    return false;
}

/* The connection is lost.  If Redis has replied on it, or on another one just
   before it began, the next command shows whether Redis still accepts
   connections. */
static bool lose(struct redis_pipeline *pipeline, const char *reason,
                 int64_t now) {
    return pipeline->heard ||
                   redis_answers(pipeline->server, pipeline->begun_at)
               ? fail_alone(pipeline, reason, now)
               : fail(pipeline, reason, now);
}

/* No connection is available now.  The pipeline retries after a pause, with the
   same commands, until their timeout. */
static bool pause_refused(struct redis_pipeline *pipeline,
                          const struct resp_reply *refusal, int64_t now) {
    redis_report_refusal(pipeline->server, refusal, now);
    if (pipeline->refused_at == 0)
        pipeline->refused_at = now;
    if (now - pipeline->refused_at >= REDIS_REPLY_TIMEOUT) {
        redis_pipeline_close(pipeline);
        return false;
    }
    source_close(pipeline->loop, &pipeline->source);
    buffer_clear(&pipeline->input);
    pipeline->gone = pipeline->taken = pipeline->expected = 0;
    pipeline->leaving = (struct resp_skip){0};
    pipeline->tried = 0;
    pipeline->state = PIPELINE_PAUSES;
    pipeline->deadline = now + RETRY_DELAY;
    return true;
}

/* Begins with the last address that answered; if all fail, the pipeline stops
   trying for a while. */
static bool begin(struct redis_pipeline *pipeline, int64_t now) {
    const struct redis_server *server = pipeline->server;

    for (; pipeline->tried < server->count; pipeline->tried++) {
        pipeline->address =
            (server->shared->address + pipeline->tried) % server->count;
        pipeline->source.descriptor =
            redis_connect_start(server, pipeline->address);
        if (pipeline->source.descriptor >= 0) {
            pipeline->state = PIPELINE_CONNECTS;
            pipeline->begun_at = now;
            pipeline->deadline = now + redis_connect_time(server);
            return true;
        }
        if (redis_is_shortage(errno))
            return pause_refused(pipeline, NULL, now);
    }
    pipeline->tried = 0;
    return fail(pipeline, strerror(errno), now);
}

/* Redis could not be reached at this address: tries the next one, with the same
   commands. */
static bool begin_elsewhere(struct redis_pipeline *pipeline, int error,
                            int64_t now) {
    source_close(pipeline->loop, &pipeline->source);
    pipeline->tried++;
    errno = error;
    return begin(pipeline, now);
}

static bool append(struct redis_pipeline *pipeline, struct view command,
                   int64_t now) {
    struct buffer *output = &pipeline->output;

    /* Also during a try: a new command would wait as long. */
    if (!redis_claim_try(pipeline->server, now))
        return false;
    /* Does an unexpected reply wait?  It would be taken for this command's. */
    if (pipeline->due + pipeline->handshake == 0 &&
        pipeline->input.length > pipeline->taken)
        fail_alone(pipeline, REDIS_NONSENSE, now);
    if (pipeline->state == PIPELINE_CLOSED) {
        if (!begin(pipeline, now))
            return false;
        pipeline->handshake = redis_append_handshake(pipeline->server, output);
        if (output->failed) { /* without it we would ask another database */
            redis_pipeline_close(pipeline);
            return false;
        }
    }
    if (output->length + command.length > REDIS_BACKLOG_LIMIT)
        return false;
    buffer_append(output, command);
    if (output->failed) {
        output->failed = false; /* what it holds is whole */
        return false;
    }
    if (pipeline->due++ == 0 && pipeline->state == PIPELINE_OPEN)
        pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
    return true;
}

bool redis_pipeline_append(struct redis_pipeline *pipeline, struct view command,
                           int64_t now) {
    bool appended = append(pipeline, command, now);

    redis_count_missed(pipeline->server, !appended);
    return appended;
}

/* Commands may be needed once more until Redis has replied: it may reject the
   connection and have carried out none. */
static void forget_gone(struct redis_pipeline *pipeline) {
    if (!pipeline->heard)
        return;
    buffer_consume(&pipeline->output, pipeline->gone);
    pipeline->gone = 0;
    if (pipeline->output.length == 0)
        buffer_free(&pipeline->output); /* it was long once: need not stay so */
}

/* Returns how many commands begin in the bytes that were sent.  Called only
   after a partial write: otherwise all that wait have left. */
static size_t count_begun(struct redis_pipeline *pipeline, struct view sent) {
    struct resp_skip *leaving = &pipeline->leaving;
    size_t begun = 0;

    while (sent.length > 0) {
        if (leaving->replies == 0) {
            resp_skip_begin(leaving);
            begun++;
        }
        ssize_t used = resp_skip(leaving, sent);
        assert(used > 0); /* they are our own */
        sent = view_skip(sent, (size_t)used);
    }
    return begun;
}

struct view redis_pipeline_unsent(const struct redis_pipeline *pipeline) {
    return pipeline->source.descriptor < 0
               ? (struct view){0}
               : view_skip(buffer_view(&pipeline->output), pipeline->gone);
}

bool redis_pipeline_sent(struct redis_pipeline *pipeline, ssize_t result,
                         int64_t now) {
    if (result < 0) {
        /* A socket that is still connecting returns EAGAIN as well, and
           ENOTCONN before it knows more.  The loop reports a closed one; then
           what Redis sent before it closed is read. */
        if (result == -EAGAIN || result == -EINTR || result == -EPIPE ||
            result == -ECONNRESET)
            return true;
        if (pipeline->state == PIPELINE_CONNECTS)
            return begin_elsewhere(pipeline, (int)-result, now);
        return lose(pipeline, strerror((int)-result), now);
    }
    pipeline->state = PIPELINE_OPEN;
    if (pipeline->expected == 0) /* none was under way: the time begins now */
        pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
    if (pipeline->gone + (size_t)result < pipeline->output.length) {
        struct view rest = redis_pipeline_unsent(pipeline);
        pipeline->expected +=
            count_begun(pipeline, view_slice(rest, 0, (size_t)result));
    } else {
        pipeline->expected = pipeline->due + pipeline->handshake;
        pipeline->leaving = (struct resp_skip){0};
    }
    pipeline->gone += (size_t)result;
    forget_gone(pipeline);
    return true;
}

bool redis_pipeline_flush(struct redis_pipeline *pipeline, int64_t now) {
    struct view rest = redis_pipeline_unsent(pipeline);

    if (rest.length == 0)
        return true;
    ssize_t count = send(pipeline->source.descriptor, rest.data, rest.length,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
    return redis_pipeline_sent(pipeline, count < 0 ? -errno : count, now);
}

char *redis_pipeline_room(struct redis_pipeline *pipeline, size_t *size) {
    struct buffer *input = &pipeline->input;

    buffer_consume(input, pipeline->taken);
    pipeline->taken = 0;
    char *room = buffer_reserve(input, 65536);
    *size = input->capacity - input->length;
    return room;
}

bool redis_pipeline_received(struct redis_pipeline *pipeline, ssize_t result,
                             int64_t now) {
    if (result == -EAGAIN || result == -EINTR)
        return true;
    if (result < 0 && pipeline->state == PIPELINE_CONNECTS)
        return begin_elsewhere(pipeline, (int)-result, now);
    /* Redis closes connections that are idle for long (its `timeout`), or was
       restarted: the next command connects, and shows which. */
    if (result <= 0 && pipeline->due + pipeline->handshake == 0) {
        redis_pipeline_close(pipeline);
        return true;
    }
    if (result <= 0)
        return lose(pipeline,
                    result == 0 ? "it closed the connection"
                                : strerror((int)-result),
                    now);
    pipeline->input.length += (size_t)result;
    return true;
}

bool redis_pipeline_fill(struct redis_pipeline *pipeline, int64_t now) {
    size_t size;

    char *room = redis_pipeline_room(pipeline, &size);
    if (room == NULL)
        return redis_pipeline_received(pipeline, -ENOMEM, now);
    ssize_t count = recv(pipeline->source.descriptor, room, size, MSG_DONTWAIT);
    return redis_pipeline_received(pipeline, count < 0 ? -errno : count, now);
}

/* Returns -1 if the handshake was rejected, 1 if the reply was part of it, 0 if
   it belongs to a command. */
static int take_handshake(struct redis_pipeline *pipeline,
                          const struct resp_reply *reply, int64_t now) {
    char reason[100];

    if (pipeline->handshake == 0)
        return 0;
    pipeline->handshake--;
    if (reply->type == RESP_STATUS)
        return 1;
    size_t length = reply->text.length < sizeof reason - 1 ? reply->text.length
                                                           : sizeof reason - 1;
    memcpy(reason, reply->text.data == NULL ? "" : reply->text.data, length);
    reason[length] = '\0';
    fail(pipeline, reason, now);
    return -1;
}

static int talks_nonsense(struct redis_pipeline *pipeline, int64_t now) {
    fail_alone(pipeline, REDIS_NONSENSE, now);
    return -1;
}

/* The reply to a command, unless more have come than commands were sent.  Then
   it is unknown which of them is the one too many. */
static int take_due(struct redis_pipeline *pipeline, int64_t now) {
    pipeline->due--;
    if (pipeline->expected == 0 && pipeline->input.length > pipeline->taken)
        return talks_nonsense(pipeline, now);
    pipeline->tried = 0;
    pipeline->server->shared->address = pipeline->address;
    redis_report_answer(pipeline->server, now);
    return 1;
}

int redis_pipeline_next(struct redis_pipeline *pipeline,
                        struct resp_reply *reply, int64_t now) {
    for (;;) {
        struct view rest =
            view_skip(buffer_view(&pipeline->input), pipeline->taken);
        size_t used;
        int result = resp_read(&pipeline->skip, rest, &used, reply);
        pipeline->taken += used;
        if (result == 0)
            return 0;
        /* A refusal may come before the first command could be sent. */
        if (result > 0 && !pipeline->heard && redis_is_refusal(reply))
            return pause_refused(pipeline, reply, now) ? 0 : -1;
        if (result < 0 || pipeline->expected == 0)
            return talks_nonsense(pipeline, now);
        pipeline->heard = true;
        pipeline->refused_at = 0;
        pipeline->expected--;
        forget_gone(pipeline);
        result = take_handshake(pipeline, reply, now);
        if (result < 0)
            return -1;
        if (result == 0) {
            pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
            return take_due(pipeline, now);
        }
    }
}

bool redis_pipeline_check(struct redis_pipeline *pipeline, int64_t now) {
    if (now < redis_pipeline_deadline(pipeline))
        return true;
    if (pipeline->state == PIPELINE_PAUSES)
        return begin(pipeline, now);
    if (pipeline->state == PIPELINE_CONNECTS)
        return begin_elsewhere(pipeline, ETIMEDOUT, now);
    return fail(pipeline, "no reply in time", now);
}

void redis_pipeline_watch(struct redis_pipeline *pipeline) {
    /* Also when no reply is awaited: that Redis closes must be noticed. */
    unsigned interest = pipeline->output.length > pipeline->gone
                            ? READABLE | WRITABLE
                            : READABLE;

    if (pipeline->source.descriptor >= 0)
        (void)source_watch(pipeline->loop, &pipeline->source, interest);
}

int64_t redis_pipeline_deadline(const struct redis_pipeline *pipeline) {
    bool waits = pipeline->state == PIPELINE_PAUSES ||
                 pipeline->state == PIPELINE_CONNECTS || pipeline->due > 0;
    return waits ? pipeline->deadline : INT64_MAX;
}
