/* SPDX-License-Identifier: MIT */
#include "net/redis/client.h"

#include "config.h"
#include "ops.h"
#include "process/clock.h"
#include "process/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

/* A call may take this many milliseconds longer than its timeout.  So most
   calls use the socket's own timeout, and need no poll(2). */
#define CALL_SLACK 100

struct redis_client *redis_client_create(const struct redis_server *server) {
    struct redis_client *client = malloc(sizeof *client);

    if (client == NULL)
        return NULL;
    *client = (struct redis_client){0};
    redis_pipeline_init(&client->pipeline, server, NULL);
    client->pipeline.room = 4096;
    return client;
}

void redis_client_destroy(struct redis_client *client) {
    redis_client_close(client);
    free(client);
}

/* Counts a long reply's memory.  Returns false if the budget is exhausted. */
static bool count_reply(struct redis_client *client) {
    return budget_count(&client->counted, client->pipeline.input.capacity,
                        LARGE_RESPONSE);
}

void redis_client_close(struct redis_client *client) {
    redis_pipeline_close(&client->pipeline);
    (void)count_reply(client); /* which cannot fail now */
    client->lent = false;
}

void redis_client_drop_reply(struct redis_client *client) {
    struct redis_pipeline *redis = &client->pipeline;

    if (client->counted == 0 || redis->input.length > redis->taken)
        return;
    buffer_free(&redis->input);
    redis->taken = 0;
    (void)count_reply(client);
}

void redis_client_check_before_use(struct redis_client *client) {
    client->used_at -= REDIS_CHECK_AFTER;
}

/* Redis may have closed a connection that was idle.  If another connection has
   failed meanwhile, Redis may have closed all. */
static bool is_stale(const struct redis_client *client) {
    const struct redis_pipeline *redis = &client->pipeline;
    char byte;

    if (clock_milliseconds() - client->used_at < REDIS_CHECK_AFTER &&
        client->used_at > redis->server->shared->failed_at)
        return false;
    ssize_t count =
        recv(redis->source.descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* The connection is closed, has an error, or has unrequested bytes. */
    return count >= 0 || errno != EAGAIN;
}

/* Once a socket is connected, its calls may block until its timeouts. */
static void make_blocking(int descriptor) {
    struct timeval timeout = timeval_of(REDIS_REPLY_TIMEOUT);

    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout,
                   sizeof timeout) == 0 &&
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout,
                   sizeof timeout) == 0)
        (void)fcntl(descriptor, F_SETFL,
                    fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
}

static int64_t time_left(const struct redis_pipeline *redis) {
    return redis->deadline - clock_milliseconds();
}

/* Returns 0 if the call may sleep until the socket's timeout.  While the socket
   connects, or if that timeout would end too late, returns MSG_DONTWAIT. */
static int call_flags(const struct redis_pipeline *redis) {
    bool sleeps = redis->state == PIPELINE_OPEN &&
                  time_left(redis) > REDIS_REPLY_TIMEOUT - CALL_SLACK;
    return sleeps ? 0 : MSG_DONTWAIT;
}

/* Sleeps until the socket is ready, the deadline passes or a signal comes. */
static void wait_until_ready(const struct redis_pipeline *redis) {
    int64_t left = time_left(redis);
    struct pollfd ready = {
        .fd = redis->source.descriptor,
        .events = redis_pipeline_unsent(redis).length > 0 ? POLLOUT : POLLIN};

    (void)poll(&ready, 1, left > 0 ? (int)left : 0);
}

/* Sends the rest of the command, then receives bytes; each step may sleep.
   After the deadline the call continues only if bytes had already
   come, because the server may have been suspended (SIGSTOP).  If they belong
   to an oversized reply, the call fails. */
static void continue_call(struct redis_pipeline *redis) {
    int flags = call_flags(redis);
    bool late = time_left(redis) <= 0;

    if (flags != 0)
        wait_until_ready(redis);
    if (redis->state == PIPELINE_CONNECTS)
        make_blocking(redis->source.descriptor);
    redis_pipeline_flush(redis, flags, clock_milliseconds());
    /* If Redis accepts no more bytes, its last message may give the reason. */
    flags = redis_pipeline_unsent(redis).length > 0 ? MSG_DONTWAIT
                                                    : call_flags(redis);
    bool received = redis_pipeline_fill(redis, flags, clock_milliseconds());
    if (!received) /* perhaps because of a signal */
        (void)server_shut_if_drained();
    if (late && !(received && !redis->scan.skips))
        redis_pipeline_check(redis, clock_milliseconds());
}

/* Connecting, the login and the reply have one time limit together, because a
   worker waits for them.  After a rejection the call returns at once: another
   thread may return a connection. */
enum redis_outcome redis_client_call(struct redis_client *client,
                                     struct view command,
                                     struct resp_reply *reply) {
    struct redis_pipeline *redis = &client->pipeline;
    int64_t begun = clock_milliseconds();

    if (redis_client_is_open(client) && is_stale(client))
        redis_client_close(client);
    if (!redis_pipeline_append(redis, command, NULL, begun))
        return REDIS_FAILED;
    while (redis_client_is_open(client) && !server_is_out_of_time()) {
        if (redis->deadline > begun + REDIS_REPLY_TIMEOUT)
            redis->deadline = begun + REDIS_REPLY_TIMEOUT;
        continue_call(redis);
        client->used_at = clock_milliseconds();
        if (!count_reply(client)) {
            redis_report_failure(redis->server, VIEW("no memory for its reply"),
                                 client->used_at);
            break;
        }
        if (redis_pipeline_next(redis, reply, client->used_at))
            return REDIS_REPLIED;
    }
    bool rejected = redis->state == PIPELINE_PAUSES;
    redis_client_close(client); /* the command is dropped, too */
    return rejected ? REDIS_REJECTED : REDIS_FAILED;
}
