/* SPDX-License-Identifier: MIT */
/*
 * Shortages: each is logged at once, then rarely.
 *
 * If a resource of this host runs out, no client's connection is kept alive for
 * SHORTAGE milliseconds.  If Redis has no free connection (its maxclients), or
 * this host has no free port, existing connections still work.  So 01 to 05
 * close idle connections to Redis (for REDIS_SCARCE); waiting threads retry.
 */
#include "limits.h"
#include "net/redis/redis.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"
#include "start.h"

#include <errno.h>
#include <string.h>
#include <sys/param.h>

/* State that all processes share. */
static struct shortages {
    struct shortage {
        struct log_limit log;
        _Atomic int64_t until; /* 0: no such shortage yet */
    } host, redis;
} own, *shared = &own;

void shortage_init(void) {
    shared = shared_allocate(sizeof *shared);
}

void shortage_report(const char *what) {
    int error = errno;

    atomic_store(&shared->host.until, clock_milliseconds() + SHORTAGE);
    log_limited(&shared->host.log,
                "out of %s (%s); clients wait or are rejected; raise the limit",
                what, strerror(error));
    errno = error;
}

bool shortage_is_recent(void) {
    int64_t until =
        atomic_load_explicit(&shared->host.until, memory_order_relaxed);
    return until != 0 && clock_milliseconds() < until;
}

/* ---- Redis ---- */

bool redis_is_scarce(int64_t now) {
    return now <
           atomic_load_explicit(&shared->redis.until, memory_order_relaxed);
}

bool redis_report_rejection(const struct redis_server *server,
                            const struct resp_reply *reply, int64_t now) {
    if (reply->type != RESP_ERROR ||
        !view_starts_with(reply->text, VIEW("ERR max number of clients")))
        return false;
    log_limited(&shared->redis.log,
                "Redis at %s rejected a connection: %.*s; raise its maxclients",
                server->text, (int)MIN(reply->text.length, 99),
                reply->text.data);
    atomic_store(&shared->redis.until, now + REDIS_SCARCE);
    redis_report_reply(server, now); /* the rejection is a reply, too */
    return true;
}

/* Returns the fix for a shortage; NULL if the errno shows none. */
static const char *advice_for(int error) {
    switch (error) {
    case EADDRNOTAVAIL:
        return "widen net.ipv4.ip_local_port_range";
    case EAGAIN:
        return "raise its tcp-backlog and net.core.somaxconn";
    case EMFILE:
    case ENFILE:
        return "allow more descriptors (ulimit -n, fs.file-max)";
    case ENOMEM:
    case ENOBUFS:
        return "allow more memory";
    default:
        return NULL;
    }
}

bool redis_report_shortage(const struct redis_server *server, int64_t now) {
    int error = errno;
    const char *advice = advice_for(error);

    if (advice == NULL)
        return false;
    log_limited(&shared->redis.log,
                "Redis at %s cannot be connected to: %s; %s", server->text,
                strerror(error), advice);
    if (error == EADDRNOTAVAIL || error == ENFILE)
        atomic_store(&shared->redis.until, now + REDIS_SCARCE);
    return true;
}
