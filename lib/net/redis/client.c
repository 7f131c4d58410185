/* SPDX-License-Identifier: MIT */
#include "net/redis/client.h"

#include "config.h"
#include "process/clock.h"
#include "process/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A wait may begin this late in a call and still last as long as the socket's
   own timeout, so that most calls need no poll(2).  A call may take this much
   longer. */
#define CALL_SLACK 100

struct redis_client *redis_client_create(const struct redis_server *server) {
    struct redis_client *client = malloc(sizeof *client);

    if (client != NULL)
        *client = (struct redis_client){.server = server, .descriptor = -1};
    return client;
}

void redis_client_destroy(struct redis_client *client) {
    redis_client_close(client);
    free(client);
}

/*
 * After fork() a connection belongs to several processes, and close(2) ends it
 * only when the last of them closes.  shutdown(2) ends it at once.  So does
 * connect(2) to the family AF_UNSPEC, which only TCP knows.  It resets the
 * connection, so no port stays in TIME_WAIT: if Redis connections are scarce,
 * we make many connections a second.
 */
void redis_client_close(struct redis_client *client) {
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    if (client->descriptor >= 0) {
        if (connect(client->descriptor, &nowhere, sizeof nowhere) < 0)
            shutdown(client->descriptor, SHUT_RDWR);
        close(client->descriptor);
    }
    client->descriptor = -1;
    client->state = CLIENT_CLOSED;
    client->heard = client->lent = false;
    client->taken = 0;
    client->skip = (struct resp_skip){0};
    buffer_free(&client->input);
}

static bool fail(struct redis_client *client, struct view reason) {
    snprintf(client->reason, sizeof client->reason, "%.*s",
             (int)(reason.length < 99 ? reason.length : 99), reason.data);
    redis_client_close(client);
    return false;
}

/* Only this connection has failed: Redis may be well. */
static bool fail_alone(struct redis_client *client, struct view reason) {
    client->call = CALL_BROKEN;
    return fail(client, reason);
}

/* The connection is lost.  If Redis has replied on it, or to another call just
   before it began, the next call shows whether Redis still accepts connections.
 */
static bool lose(struct redis_client *client, struct view reason) {
    return client->heard || redis_answers(client->server, client->begun_at)
               ? fail_alone(client, reason)
               : fail(client, reason);
}

static bool fail_with(struct redis_client *client, int error) {
    if (error == EAGAIN || error == EINPROGRESS || error == ETIMEDOUT)
        return fail(client, VIEW("no reply in time"));
    if (error == ENOMEM)
        return fail_alone(client, VIEW("out of memory"));
    if (error == EINTR) /* only if the time to stop is over */
        return fail_alone(client, VIEW("the server is stopping"));
    if (error == ECONNRESET)
        return lose(client, view_of(strerror(error)));
    return fail(client, view_of(strerror(error)));
}

/* Returns MSG_DONTWAIT if the socket's own timeout would end too late for this
   call: then wait_for() waits. */
static int how_to_wait(const struct redis_client *client) {
    int64_t left = client->deadline - clock_milliseconds();
    return left > REDIS_REPLY_TIMEOUT - CALL_SLACK ? 0 : MSG_DONTWAIT;
}

/* Sleeps until the socket is ready.  Returns false with errno set: ETIMEDOUT at
   the deadline, EINTR if the time to stop is over, or another error of
   poll(2). */
static bool wait_for(const struct redis_client *client, short events,
                     int64_t deadline) {
    struct pollfd ready = {.fd = client->descriptor, .events = events};
    int result;

    do {
        int64_t left = deadline - clock_milliseconds();
        result = poll(&ready, 1, left > 0 ? (int)left : 0);
    } while (result < 0 && errno == EINTR && !server_is_out_of_time());
    if (result == 0)
        errno = ETIMEDOUT;
    return result > 0;
}

static bool send_all(struct redis_client *client, struct view bytes) {
    while (bytes.length > 0) {
        ssize_t count = send(client->descriptor, bytes.data, bytes.length,
                             MSG_NOSIGNAL | how_to_wait(client));
        if (count < 0 && (errno == EINTR || errno == EAGAIN) &&
            wait_for(client, POLLOUT, client->deadline))
            continue;
        /* Redis has closed; its last message, if any, gives the reason. */
        if (count < 0 && (errno == EPIPE || errno == ECONNRESET))
            return true;
        if (count < 0)
            return fail_with(client, errno);
        bytes = view_skip(bytes, (size_t)count);
    }
    return true;
}

/* Sleeps until more of the reply has come.  If time is over because the server
   was suspended (SIGSTOP), the reply may be there: then it is read, but not
   waited for.  An oversized reply is not read after the deadline, since it may
   never end. */
static bool receive_some(struct redis_client *client) {
    struct buffer *input = &client->input;
    bool skips = client->skip.replies > 0;

    char *room = buffer_reserve(input, skips ? 65536 : 4096);
    if (room == NULL)
        return fail_with(client, ENOMEM);
    if (skips && clock_milliseconds() > client->deadline)
        return fail_with(client, ETIMEDOUT);
    ssize_t count = recv(client->descriptor, room,
                         input->capacity - input->length, how_to_wait(client));
    if (count < 0 && (errno == EINTR || errno == EAGAIN) &&
        wait_for(client, POLLIN, client->deadline))
        return true;
    if (count == 0)
        return lose(client, VIEW("it closed the connection"));
    if (count < 0)
        return fail_with(client, errno);
    input->length += (size_t)count;
    return true;
}

/* Sleeps until one whole reply is there. */
static bool receive_reply(struct redis_client *client,
                          struct resp_reply *reply) {
    struct buffer *input = &client->input;
    int result;

    buffer_consume(input, client->taken);
    while ((result = resp_read(&client->skip, buffer_view(input),
                               &client->taken, reply)) == 0) {
        buffer_consume(input, client->taken);
        if (!receive_some(client))
            return false;
    }
    if (result < 0)
        return fail_alone(client, VIEW(REDIS_NONSENSE));
    client->used_at = clock_milliseconds();
    if (!client->heard && redis_is_refusal(reply)) {
        client->call = CALL_REFUSED;
        redis_report_refusal(client->server, reply, client->used_at);
        return fail(client, reply->text);
    }
    client->heard = true;
    return true;
}

/* Returns false and closes the connection if bytes follow the reply.  They
   would be taken for the reply to the next command. */
static bool has_asked_for_all(struct redis_client *client) {
    return client->input.length == client->taken ||
           fail_alone(client, VIEW(REDIS_NONSENSE));
}

/* The socket has begun to connect, without blocking.  Once it is connected its
   calls block, for no longer than its timeouts. */
static bool make_ready(struct redis_client *client) {
    struct timeval timeout = {.tv_sec = REDIS_REPLY_TIMEOUT / 1000,
                              .tv_usec = REDIS_REPLY_TIMEOUT % 1000 * 1000};
    struct buffer commands = {0};
    struct resp_reply reply;

    int64_t deadline =
        clock_milliseconds() + redis_connect_time(client->server);
    if (deadline > client->deadline)
        deadline = client->deadline;
    if (!wait_for(client, POLLOUT, deadline) ||
        redis_connect_result(client->descriptor) < 0)
        return errno == ETIMEDOUT ? fail(client, view_of(strerror(errno)))
                                  : fail_with(client, errno);
    int flags = fcntl(client->descriptor, F_GETFL);
    if (fcntl(client->descriptor, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
        setsockopt(client->descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout,
                   sizeof timeout) < 0 ||
        setsockopt(client->descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout,
                   sizeof timeout) < 0)
        return fail_with(client, errno);

    unsigned replies = redis_append_handshake(client->server, &commands);
    bool sent = commands.failed ? fail_with(client, ENOMEM)
                                : send_all(client, buffer_view(&commands));
    buffer_free(&commands);
    if (!sent)
        return false;
    for (; replies > 0; replies--) {
        if (!receive_reply(client, &reply))
            return false;
        if (reply.type != RESP_STATUS)
            return fail(client, reply.text);
    }
    client->state = CLIENT_READY;
    return has_asked_for_all(client);
}

static bool begin(struct redis_client *client, unsigned address) {
    client->call = CALL_CONNECTS;
    client->begun_at = clock_milliseconds();
    client->descriptor = redis_connect_start(client->server, address);
    if (client->descriptor >= 0) {
        client->state = CLIENT_CONNECTS;
        return true;
    }
    if (redis_is_shortage(errno)) {
        client->call = CALL_REFUSED;
        redis_report_refusal(client->server, NULL, client->begun_at);
    }
    return false;
}

void redis_client_connect_start(struct redis_client *client) {
    client->descriptor =
        redis_connect_start(client->server, client->server->shared->address);
    client->begun_at = client->used_at = clock_milliseconds();
    if (client->descriptor >= 0)
        client->state = CLIENT_CONNECTS;
}

void redis_client_check_before_use(struct redis_client *client) {
    client->suspect = true;
}

bool redis_client_should_close(const struct redis_client *client, int64_t now) {
    return redis_is_scarce(now) || now - client->used_at >= REDIS_IDLE;
}

/* Redis may have closed a connection that was idle. */
static bool is_stale(struct redis_client *client) {
    char byte;

    if (!client->suspect && clock_milliseconds() - client->used_at < REDIS_REST)
        return false;
    client->suspect = false;
    ssize_t count = recv(client->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* Closed, an error, or bytes that were not requested. */
    return count >= 0 || errno != EAGAIN;
}

/* Continues a connection that was begun earlier, then tries all addresses,
   beginning with the last that answered. */
static bool connect_to_any(struct redis_client *client) {
    const struct redis_server *server = client->server;
    unsigned first = server->shared->address;

    if (client->state == CLIENT_CONNECTS && make_ready(client)) {
        if (!is_stale(client))
            return true;
        redis_client_close(client);
    }
    for (unsigned i = 0; i < server->count && client->call != CALL_REFUSED;
         i++) {
        unsigned address = (first + i) % server->count;
        if (!begin(client, address)) {
            if (client->call != CALL_REFUSED) /* a shortage is retried */
                fail_with(client, errno);
        } else if (make_ready(client)) {
            server->shared->address = address;
            return true;
        }
    }
    return false;
}

static bool call(struct redis_client *client, struct view command,
                 struct resp_reply *reply) {
    if (client->state == CLIENT_READY && is_stale(client))
        redis_client_close(client);
    if (client->state != CLIENT_READY && !connect_to_any(client))
        return false;
    client->call = CALL_ASKS;
    return send_all(client, command) && receive_reply(client, reply) &&
           has_asked_for_all(client);
}

enum redis_answer redis_client_call(struct redis_client *client,
                                    struct view command,
                                    struct resp_reply *reply) {
    int64_t begun = clock_milliseconds();

    if (!redis_claim_try(client->server, begun))
        return REDIS_FAILS;
    client->call = CALL_CONNECTS;
    client->deadline = begun + REDIS_REPLY_TIMEOUT;
    if (call(client, command, reply)) {
        redis_report_answer(client->server, client->used_at);
        return REDIS_REPLIED;
    }
    if (client->call == CALL_REFUSED)
        return REDIS_REFUSES;
    int64_t now = clock_milliseconds();
    if (client->call == CALL_BROKEN) {
        redis_report_failure(client->server, client->reason, now);
        return REDIS_FAILS;
    }
    bool down = redis_report_down(client->server, client->reason, begun, now);
    /* Others are answered: Redis was only too busy to accept us. */
    return down || client->call == CALL_ASKS ? REDIS_FAILS : REDIS_REFUSES;
}

void redis_client_shrink(struct redis_client *client) {
    if (client->input.capacity <= LARGE_RESPONSE ||
        client->input.length > client->taken)
        return;
    buffer_free(&client->input);
    client->taken = 0;
}
