/* SPDX-License-Identifier: MIT */
#include "net/redis/lending.h"

#include "config.h"
#include "ops.h"
#include "process/clock.h"
#include "process/shared.h"

#include <signal.h>

void redis_lending_init(struct redis_lending *lending,
                        const struct redis_server *server, size_t count) {
    *lending = (struct redis_lending){
        .server = server,
        .count = count,
        .loans = server_share(count * sizeof(struct redis_loan))};
}

/* Returns a connection to lend.  NULL while Redis has never answered, is down
   or has no free connection: a child that needs one then connects itself.  Each
   additional descriptor of the parent makes each fork slower. */
static struct redis_client *begin(const struct redis_server *server) {
    const struct redis_shared *shared = server->shared;
    bool answers = shared->answered_at != 0 && !shared->down;
    int64_t now = clock_milliseconds();

    if (!answers || redis_is_scarce(now))
        return NULL;
    struct redis_client *client = redis_client_create(server);
    if (client == NULL)
        return NULL;
    client->used_at = now;
    redis_pipeline_connect(&client->pipeline, now);
    if (redis_client_is_open(client) &&
        (size_t)client->pipeline.source.descriptor <
            server_room_for_clients(0, 0))
        return client;
    redis_client_destroy(client);
    return NULL;
}

void redis_lending_prepare(struct redis_lending *lending, size_t slot) {
    struct redis_loan *loan = &lending->loans[slot];

    if (loan->client == NULL)
        loan->client = begin(lending->server);
    if (loan->client != NULL)
        loan->client->lent = true;
    loan->final_state = LOAN_BROKEN;
}

void redis_lending_open(struct redis_lending *lending, size_t slot,
                        struct redis_pool *pool) {
    redis_pool_init(pool, lending->server, false);
    pool->keeps_idle = &lending->loans[slot].keeps_idle;
    if (lending->loans[slot].client != NULL)
        redis_pool_return(pool, lending->loans[slot].client);
}

void redis_lending_leave(struct redis_lending *lending, size_t slot,
                         const struct redis_pool *pool) {
    const struct redis_client *client = pool->idle;

    if (client != NULL && client->lent)
        lending->loans[slot].final_state =
            client->pipeline.state == PIPELINE_OPEN ? LOAN_READY : LOAN_UNUSED;
}

static void end(struct redis_loan *loan) {
    if (loan->client != NULL)
        redis_client_destroy(loan->client);
    loan->client = NULL;
}

void redis_lending_child_ended(struct redis_lending *lending, size_t slot) {
    struct redis_loan *loan = &lending->loans[slot];
    int64_t now = clock_milliseconds();

    loan->keeps_idle = false;
    if (loan->final_state == LOAN_BROKEN || redis_is_scarce(now)) {
        end(loan);
    } else if (loan->client != NULL && loan->final_state == LOAN_READY) {
        redis_pipeline_set_idle(&loan->client->pipeline);
        loan->client->used_at = now;
        redis_client_check_before_use(loan->client); /* the next child */
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
        struct redis_loan *loan = &lending->loans[i];
        if (children[i] > 0 && scarce && loan->keeps_idle)
            kill(children[i], SIGALRM);
        if (children[i] == 0 && loan->client != NULL &&
            redis_client_should_close(loan->client, now))
            end(loan);
    }
}

void redis_lending_close(struct redis_lending *lending) {
    for (size_t i = 0; i < lending->count; i++)
        end(&lending->loans[i]);
}
