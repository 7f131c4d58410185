/* SPDX-License-Identifier: MIT */
#include "net/redis/lending.h"

#include "config.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"

#include <signal.h>
#include <stdlib.h>

void redis_lending_init(struct redis_lending *lending,
                        const struct redis_server *server, size_t count) {
    *lending = (struct redis_lending){.server = server, .count = count};
    lending->clients = calloc(count, sizeof(struct redis_client *));
    lending->loans = server_share(count * sizeof *lending->loans);
    if (lending->clients == NULL)
        server_fatal("no memory for %zu children", count);
}

/* Returns a connection to lend.  NULL while Redis has never answered, is down
   or has no free connection: a child that needs one then connects itself.  Each
   additional descriptor of the parent makes each fork slower. */
static struct redis_client *begin(const struct redis_server *server) {
    const struct redis_shared *shared = server->shared;
    bool answers = shared->answered_at != 0 && !shared->down;

    if (!answers || redis_is_scarce(clock_milliseconds()))
        return NULL;
    struct redis_client *client = redis_client_create(server);
    if (client == NULL)
        return NULL;
    redis_client_connect_start(client);
    if (redis_client_is_open(client) &&
        (size_t)client->pipeline.source.descriptor <
            server_room_for_clients(0, 0))
        return client;
    redis_client_destroy(client);
    return NULL;
}

void redis_lending_prepare(struct redis_lending *lending, size_t slot) {
    struct redis_client **client = &lending->clients[slot];

    /* It is written only if it changes, because after each fork the first write
       to a page copies it. */
    if (*client == NULL) {
        struct redis_client *begun = begin(lending->server);
        if (begun != NULL)
            *client = begun;
    }
    if (*client != NULL)
        (*client)->lent = true;
    lending->loans[slot].final_state = LOAN_BROKEN;
}

void redis_lending_open(struct redis_lending *lending, size_t slot,
                        struct redis_pool *pool) {
    redis_pool_init(pool, lending->server, false);
    pool->keeps_idle = &lending->loans[slot].keeps_idle;
    if (lending->clients[slot] != NULL)
        redis_pool_return(pool, lending->clients[slot]);
}

void redis_lending_leave(struct redis_lending *lending, size_t slot,
                         const struct redis_pool *pool) {
    const struct redis_client *client = pool->idle;

    if (client != NULL && client->lent)
        lending->loans[slot].final_state =
            client->pipeline.state == PIPELINE_OPEN ? LOAN_READY : LOAN_UNUSED;
}

static void end(struct redis_lending *lending, size_t slot) {
    if (lending->clients[slot] == NULL)
        return;
    redis_client_destroy(lending->clients[slot]);
    lending->clients[slot] = NULL;
}

void redis_lending_child_ended(struct redis_lending *lending, size_t slot) {
    struct redis_client *client = lending->clients[slot];
    struct redis_loan *loan = &lending->loans[slot];

    loan->keeps_idle = false;
    if (loan->final_state == LOAN_BROKEN ||
        redis_is_scarce(clock_milliseconds())) {
        end(lending, slot);
    } else if (client != NULL && loan->final_state == LOAN_READY) {
        redis_client_was_used(client);
    }
}

void redis_lending_close_idle(struct redis_lending *lending,
                              const pid_t *children) {
    int64_t now = clock_milliseconds();

    bool scarce = redis_is_scarce(now);
    if (now - lending->checked_at < (scarce ? RETRY_DELAY : REDIS_IDLE))
        return;
    lending->checked_at = now;
    for (size_t i = 0; i < lending->count; i++) {
        struct redis_client *client = lending->clients[i];
        if (children[i] > 0) {
            if (scarce && lending->loans[i].keeps_idle)
                kill(children[i], SIGALRM);
        } else if (client != NULL && redis_client_should_close(client, now)) {
            end(lending, i);
        }
    }
}

void redis_lending_close(struct redis_lending *lending) {
    for (size_t i = 0; i < lending->count; i++)
        end(lending, i);
    free(lending->clients);
}
