/* SPDX-License-Identifier: MIT */
#include "net/redis/pipeline.h"

#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/param.h>
#include <utlist.h>

#define REDIS_UNEXPECTED                                                       \
    VIEW("its replies are not RESP2, too many, or too early")

void redis_pipeline_init(struct redis_pipeline *pipeline,
                         const struct redis_server *server,
                         const struct event_loop *loop) {
    *pipeline = (struct redis_pipeline){
        .source = {.kind = SOURCE_REDIS, .descriptor = -1},
        .loop = loop,
        .server = server,
        .room = 65536};
}

/* After fork() a connection belongs to several processes, so close(2) alone
   does not end it.  On TCP, connect(2) to the family AF_UNSPEC ends it with a
   reset, so no port stays in TIME_WAIT. */
static void disconnect(struct redis_pipeline *pipeline) {
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    int descriptor = pipeline->source.descriptor;

    if (descriptor >= 0 && connect(descriptor, &nowhere, sizeof nowhere) < 0)
        shutdown(descriptor, SHUT_RDWR);
    source_close(pipeline->loop, &pipeline->source);
}

/* Fails only the commands that are waiting at this call.  A command that is
   added while these failures are reported joins the end of the queue. */
void redis_pipeline_close(struct redis_pipeline *pipeline) {
    pipeline->failing =
        pipeline->waiters == NULL ? NULL : pipeline->waiters->prev;
    disconnect(pipeline);
    pipeline->state = PIPELINE_CLOSED;
    pipeline->has_replied = false;
    pipeline->handshake = 0;
    pipeline->due = 0;
    pipeline->scan = (struct resp_scan){0};
    pipeline->sent = pipeline->taken = 0;
    buffer_free(&pipeline->output);
    buffer_free(&pipeline->input);
}

/* Reports that Redis is down, unless any process had a reply after `since`. */
static void fail_server(struct redis_pipeline *pipeline, struct view reason,
                        int64_t since, int64_t now) {
    redis_report_down(pipeline->server, reason, since, now);
    redis_pipeline_close(pipeline);
}

/* Only this connection has failed: the next command connects again. */
static void fail_connection(struct redis_pipeline *pipeline, struct view reason,
                            int64_t now) {
    redis_report_failure(pipeline->server, reason, now);
    redis_pipeline_close(pipeline);
}

/* The connection is lost (error 0: Redis closed it).  If Redis has replied on
   this connection, or recently to any process, only this connection has failed.
   Then the next command connects again. */
static void connection_lost(struct redis_pipeline *pipeline, int error,
                            int64_t now) {
    struct view reason = error == 0 ? VIEW("it closed the connection")
                                    : view_of(strerror(error));

    if (error == ENOMEM || pipeline->has_replied)
        fail_connection(pipeline, reason, now);
    else
        fail_server(pipeline, reason,
                    MIN(pipeline->asked_at, pipeline->begun_at - REDIS_RETRY),
                    now);
}

/* No connection is available now.  The pipeline retries after a pause, with the
   same commands, until their timeout. */
static void pause_rejected(struct redis_pipeline *pipeline, int64_t now) {
    if (now - pipeline->asked_at >= REDIS_REPLY_TIMEOUT) {
        redis_pipeline_close(pipeline);
        return;
    }
    disconnect(pipeline);
    buffer_clear(&pipeline->input);
    pipeline->sent = pipeline->taken = 0;
    pipeline->tried = 0;
    pipeline->state = PIPELINE_PAUSES;
    pipeline->deadline = now + RETRY_DELAY;
}

/* Begins with the address that answered last.  If all addresses fail, Redis is
   down, unless it answers on other connections: then it is only too busy to
   accept, and the pipeline tries again. */
static void begin_connecting(struct redis_pipeline *pipeline, int64_t now) {
    const struct redis_server *server = pipeline->server;

    for (; pipeline->tried < server->count; pipeline->tried++) {
        pipeline->address =
            (server->shared->address + pipeline->tried) % server->count;
        pipeline->source.descriptor =
            redis_connect_start(server, pipeline->address);
        if (pipeline->source.descriptor >= 0) {
            pipeline->state = PIPELINE_CONNECTS;
            pipeline->begun_at = now;
            /* All addresses together have REDIS_CONNECT_TIMEOUT. */
            pipeline->deadline = now + REDIS_CONNECT_TIMEOUT / server->count;
            return;
        }
        if (redis_report_shortage(server, now)) {
            pause_rejected(pipeline, now);
            return;
        }
    }
    pipeline->tried = 0;
    if (redis_report_down(server, view_of(strerror(errno)), pipeline->asked_at,
                          now))
        redis_pipeline_close(pipeline);
    else
        pause_rejected(pipeline, now);
}

/* Tries the next address, with the same commands. */
static void begin_at_next_address(struct redis_pipeline *pipeline, int error,
                                  int64_t now) {
    disconnect(pipeline);
    pipeline->tried++;
    errno = error;
    begin_connecting(pipeline, now);
}

void redis_pipeline_connect(struct redis_pipeline *pipeline, int64_t now) {
    pipeline->asked_at = now;
    begin_connecting(pipeline, now);
    if (pipeline->state == PIPELINE_CLOSED)
        return;
    pipeline->handshake =
        redis_append_handshake(pipeline->server, &pipeline->output);
    pipeline->login = pipeline->output.length;
    if (pipeline->output.failed) /* the login is incomplete */
        redis_pipeline_close(pipeline);
}

void redis_pipeline_set_idle(struct redis_pipeline *pipeline) {
    pipeline->state = PIPELINE_OPEN;
    pipeline->has_replied = true;
    pipeline->handshake = 0;
    buffer_free(&pipeline->output); /* the login, which has been sent */
}

bool redis_pipeline_append(struct redis_pipeline *pipeline, struct view command,
                           struct redis_waiter *waiter, int64_t now) {
    struct buffer *output = &pipeline->output;

    /* If Redis is down, returns false even while this pipeline connects. */
    if (!redis_claim_attempt(pipeline->server, now))
        return false;
    /* An unexpected reply would be taken for the reply to this command. */
    if (pipeline->due + pipeline->handshake == 0 &&
        pipeline->input.length > pipeline->taken)
        fail_connection(pipeline, REDIS_UNEXPECTED, now);
    if (pipeline->state == PIPELINE_CLOSED)
        redis_pipeline_connect(pipeline, now);
    if (pipeline->state == PIPELINE_CLOSED ||
        output->length + command.length > REDIS_BACKLOG_LIMIT)
        return false;
    buffer_append(output, command);
    if (output->failed) {
        output->failed = false; /* the output still has only whole commands */
        return false;
    }
    if (pipeline->due++ == 0) {
        pipeline->asked_at = now;
        if (pipeline->state == PIPELINE_OPEN)
            pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
    }
    pipeline->queued += command.length;
    if (waiter != NULL) {
        waiter->end = pipeline->queued;
        DL_APPEND(pipeline->waiters, waiter);
    }
    return true;
}

/* The commands are kept until Redis has replied on this connection: if it
   rejects the connection, all must be sent again. */
static void drop_answered_commands(struct redis_pipeline *pipeline) {
    if (!pipeline->has_replied || pipeline->handshake > 0)
        return;
    buffer_consume(&pipeline->output, pipeline->sent);
    pipeline->sent = 0;
    if (pipeline->output.length == 0 &&
        pipeline->output.capacity > LARGE_RESPONSE)
        buffer_free(&pipeline->output); /* the memory of a long pipeline */
}

/* The login is sent first, and alone, so that a surplus reply to the login is
   not taken for the reply to a command. */
struct view redis_pipeline_unsent(const struct redis_pipeline *pipeline) {
    struct view queued = buffer_view(&pipeline->output);

    if (pipeline->source.descriptor < 0)
        return (struct view){0};
    if (pipeline->handshake > 0)
        queued.length = pipeline->login;
    return view_skip(queued, pipeline->sent);
}

/* May Redis have sent a reply now, and `others` (0 or 1) more?  It answers only
   a command, or a login, that was sent to its last byte. */
static bool may_reply(const struct redis_pipeline *pipeline, size_t others) {
    const struct redis_waiter *waiter = pipeline->waiters;
    size_t unsent = pipeline->output.length - pipeline->sent;

    if (pipeline->handshake > 0)
        return pipeline->handshake > others &&
               pipeline->sent >= pipeline->login;
    if (pipeline->due <= others)
        return false;
    if (waiter == NULL) /* there is only one command */
        return unsent == 0;
    if (others > 0)
        waiter = waiter->next;
    return unsent <= pipeline->queued - waiter->end;
}

void redis_pipeline_sent(struct redis_pipeline *pipeline, ssize_t result,
                         int64_t now) {
    /* A socket that is still connecting returns EAGAIN as well.  If Redis has
       closed the connection, the bytes that it sent before are read first. */
    if (result == -EAGAIN || result == -EINTR || result == -EPIPE ||
        result == -ECONNRESET)
        return;
    if (result < 0 && pipeline->state == PIPELINE_CONNECTS) {
        begin_at_next_address(pipeline, (int)-result, now);
        return;
    }
    if (result < 0) {
        connection_lost(pipeline, (int)-result, now);
        return;
    }
    /* If no reply was awaited yet, the timeout of the next reply begins now.
       But the login and the first command after it share one timeout. */
    bool after_login = pipeline->handshake == 0 && pipeline->login > 0;
    pipeline->state = PIPELINE_OPEN;
    if (!after_login && !may_reply(pipeline, 0))
        pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
    if (after_login)
        pipeline->login = 0;
    pipeline->sent += (size_t)result;
    drop_answered_commands(pipeline);
}

void redis_pipeline_flush(struct redis_pipeline *pipeline, int flags,
                          int64_t now) {
    struct view rest = redis_pipeline_unsent(pipeline);

    if (rest.length == 0)
        return;
    ssize_t count = send(pipeline->source.descriptor, rest.data, rest.length,
                         MSG_NOSIGNAL | flags);
    redis_pipeline_sent(pipeline, count < 0 ? -errno : count, now);
}

char *redis_pipeline_room(struct redis_pipeline *pipeline, size_t *size) {
    struct buffer *input = &pipeline->input;

    buffer_consume(input, pipeline->taken);
    pipeline->taken = 0;
    char *room =
        buffer_reserve(input, pipeline->scan.skips ? 65536 : pipeline->room);
    *size = input->capacity - input->length;
    return room;
}

void redis_pipeline_received(struct redis_pipeline *pipeline, ssize_t result,
                             int64_t now) {
    if (result == -EAGAIN || result == -EINTR)
        return;
    if (result > 0)
        pipeline->input.length += (size_t)result;
    else if (result < 0 && pipeline->state == PIPELINE_CONNECTS)
        begin_at_next_address(pipeline, (int)-result, now);
    else if (pipeline->due + pipeline->handshake > 0)
        connection_lost(pipeline, (int)-result, now);
    else
        /* Redis has closed an idle connection (its option `timeout`), or was
           restarted: the next command connects, and shows which. */
        redis_pipeline_close(pipeline);
}

bool redis_pipeline_fill(struct redis_pipeline *pipeline, int flags,
                         int64_t now) {
    ssize_t count = -ENOMEM;
    size_t size;

    if (pipeline->source.descriptor < 0)
        return false;
    char *room = redis_pipeline_room(pipeline, &size);
    if (room != NULL)
        count = recv(pipeline->source.descriptor, room, size, flags);
    redis_pipeline_received(pipeline,
                            room != NULL && count < 0 ? -errno : count, now);
    return count > 0;
}

/* Records that the reply to a command has come. */
static void take_reply(struct redis_pipeline *pipeline, int64_t now) {
    pipeline->due--;
    pipeline->asked_at = now;
    pipeline->deadline = now + REDIS_REPLY_TIMEOUT;
    pipeline->tried = 0;
    /* The address is written only if it changes: other processors cache it. */
    if (pipeline->server->shared->address != pipeline->address)
        pipeline->server->shared->address = pipeline->address;
    redis_report_reply(pipeline->server, now);
}

/* Handles a whole reply.  Returns true if it is the reply to a command. */
static bool accept_reply(struct redis_pipeline *pipeline,
                         const struct resp_reply *reply, int64_t now) {
    /* A rejection may come before the first command could be sent. */
    if (!pipeline->has_replied &&
        redis_report_rejection(pipeline->server, reply, now)) {
        pause_rejected(pipeline, now);
        return false;
    }
    /* If there is one reply too many, it is unknown which reply that is. */
    bool surplus = pipeline->input.length > pipeline->taken;
    if (!may_reply(pipeline, 0) || (surplus && !may_reply(pipeline, 1))) {
        fail_connection(pipeline, REDIS_UNEXPECTED, now);
        return false;
    }
    pipeline->has_replied = true;
    bool login = pipeline->handshake > 0;
    if (login && reply->type != RESP_STATUS) {
        fail_server(pipeline, reply->text, pipeline->asked_at, now);
        return false;
    }
    if (login)
        pipeline->handshake--;
    else
        take_reply(pipeline, now);
    drop_answered_commands(pipeline);
    return !login;
}

bool redis_pipeline_next(struct redis_pipeline *pipeline,
                         struct resp_reply *reply, int64_t now) {
    for (;;) {
        struct view rest =
            view_skip(buffer_view(&pipeline->input), pipeline->taken);
        size_t used;
        int result = resp_read(&pipeline->scan, rest, &used, reply);
        pipeline->taken += used;
        if (result < 0)
            fail_connection(pipeline, REDIS_UNEXPECTED, now);
        if (result <= 0)
            return false;
        if (accept_reply(pipeline, reply, now))
            return true;
    }
}

struct redis_waiter *redis_pipeline_take(struct redis_pipeline *pipeline,
                                         struct resp_reply *reply,
                                         bool *replied, int64_t now) {
    *replied =
        pipeline->failing == NULL && redis_pipeline_next(pipeline, reply, now);
    if (!*replied && pipeline->failing == NULL)
        return NULL;
    struct redis_waiter *waiter = pipeline->waiters;
    DL_DELETE(pipeline->waiters, waiter);
    if (waiter == pipeline->failing)
        pipeline->failing = NULL;
    return waiter;
}

void redis_pipeline_check(struct redis_pipeline *pipeline, int64_t now) {
    if (now < redis_pipeline_deadline(pipeline))
        return;
    if (pipeline->state == PIPELINE_PAUSES)
        begin_connecting(pipeline, now);
    else if (pipeline->state == PIPELINE_CONNECTS)
        begin_at_next_address(pipeline, ETIMEDOUT, now);
    else
        fail_server(pipeline, VIEW("no reply in time"), pipeline->asked_at,
                    now);
}

void redis_pipeline_watch(struct redis_pipeline *pipeline) {
    /* READABLE is set even when no reply is awaited, so that the loop reports
       when Redis closes the connection. */
    unsigned interest = redis_pipeline_unsent(pipeline).length > 0
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
