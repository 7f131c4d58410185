/* SPDX-License-Identifier: MIT */
/*
 * coroutines: a coroutine for each connection.
 */
#include "config.h"
#include "net/blocking.h"
#include "net/coroutine/coroutine.h"

#include <errno.h>
#include <poll.h>

static const struct architecture architecture = {
    .name = "coroutines",
    .summary = "a stack for each connection, one event loop (epoll)",
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {BLOCKING_CALLS, CALL(epoll_ctl), CALL(epoll_wait), CALL(mprotect),
              CALL(madvise)},
};

static struct server server;
static struct redis_pool redis;
static struct worker worker; /* one for all: only one runs at a time */
static size_t room;          /* for so many connections */

/* When all slots are taken, a client may be waiting in the backlog. */
static bool others_wait(const struct worker *one) {
    (void)one;
    return coroutines_alive() >= room;
}

static void serve(void *context) {
    const struct client client = *(const struct client *)context;

    blocking_serve(&worker, &client);
}

/* Waits until one more connection may be accepted. */
static bool has_room(void) {
    if (coroutines_alive() >= room) {
        coroutines_wait_for_end();
        return false;
    }
    if (!coroutine_reserve()) {
        server_report_exhausted("memory");
        poll(NULL, 0, RETRY_DELAY);
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    struct client client;

    server_start(&server, &architecture, argc, argv);
    /* As many as 04 serves at once have a connection to Redis and a file. */
    room = server_room_for_clients(CHILDREN_LIMIT, 2);
    if (room > COROUTINES_LIMIT)
        room = COROUTINES_LIMIT;
    room = server_room_in_memory(
        room, COROUTINE_STACK + CONNECTION_MEMORY, COROUTINE_MEMORY);
    redis_pool_init(&redis, &server.redis, true);
    worker = (struct worker){.server = &server,
                             .counters = server.counters,
                             .redis = &redis,
                             .others_wait = others_wait};
    server_accept_without_waiting(&server);
    coroutines_begin(room, server.listener);

    server_ready(&server);
    while (server_keep_accepting())
        if (has_room() && blocking_accept(&server, &redis, &client))
            coroutine_start(serve, &client);

    while (coroutines_alive() > 0)
        coroutines_wait_for_end();
    coroutines_end();
    redis_pool_destroy(&redis);
    return server_end(&server);
}
