/* SPDX-License-Identifier: MIT */
/*
 * Shortages, and messages that may repeat: logged at once, then rarely.
 *
 * If a resource of this host runs out, no connection of a client is kept alive
 * for a SHORTAGE.  Redis may have no free connection (its maxclients), or this
 * host no free port or descriptor.  That is not an outage: connections that
 * exist are answered.  So for REDIS_SCARCE no idle connection to Redis is kept,
 * and a thread without a connection tries again.
 */
#include "limits.h"
#include "net/redis/redis.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "process/shared.h"
#include "start.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* State that all processes share. */
static struct shortages {
    struct shortage {
        struct log_limit log;
        _Atomic int64_t until; /* 0: no such shortage yet */
    } host, redis;
} own, *shared = &own;

void shortage_init(void) {
    shared = server_share(sizeof *shared);
}

bool log_limit_claim(struct log_limit *limit, int64_t now, int pause) {
    int64_t next_at = atomic_load(&limit->next_at);

    return now >= next_at && atomic_compare_exchange_strong(
                                 &limit->next_at, &next_at, now + pause);
}

void log_limited(struct log_limit *limit, const char *format, ...) {
    unsigned times = atomic_exchange(&limit->suppressed, 0);
    char text[1000], count[64] = "";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (times > 1)
        snprintf(count, sizeof count, " (%u times since the last such line)",
                 times);
    log_line(text, count);
}

void server_report_exhausted(const char *what) {
    int error = errno;
    int64_t now = clock_milliseconds();

    atomic_store(&shared->host.until, now + SHORTAGE);
    atomic_fetch_add(&shared->host.log.suppressed, 1);
    if (log_limit_claim(&shared->host.log, now, LOG_INTERVAL))
        log_limited(
            &shared->host.log,
            "out of %s (%s); clients wait or are turned away, allow it more",
            what, strerror(error));
    errno = error;
}

bool server_is_under_pressure(void) {
    int64_t until =
        atomic_load_explicit(&shared->host.until, memory_order_relaxed);
    return until != 0 && clock_milliseconds() < until;
}

/* ---- Redis ---- */

bool redis_is_refusal(const struct resp_reply *reply) {
    return reply->type == RESP_ERROR &&
           view_starts_with(reply->text, VIEW("ERR max number of clients"));
}

bool redis_is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM ||
           error == ENOBUFS || error == EADDRNOTAVAIL || error == EAGAIN;
}

/* Returns true for REDIS_SCARCE after Redis rejected a connection, or ports or
   the system's open files ran out. */
bool redis_is_scarce(int64_t now) {
    return now <
           atomic_load_explicit(&shared->redis.until, memory_order_relaxed);
}

/* Returns the fix for a shortage (redis_is_shortage()). */
static const char *advice_for(int error) {
    switch (error) {
    case EADDRNOTAVAIL:
        return "widen net.ipv4.ip_local_port_range";
    case EAGAIN:
        return "raise its tcp-backlog and net.core.somaxconn";
    case EMFILE:
    case ENFILE:
        return "allow more descriptors (ulimit -n, fs.file-max)";
    default:
        return "allow more memory";
    }
}

void redis_report_refusal(const struct redis_server *server,
                          const struct resp_reply *refusal, int64_t now) {
    int error = errno;
    bool scarce = refusal != NULL || error == EADDRNOTAVAIL || error == ENFILE;
    char reason[200];

    if (refusal != NULL)
        snprintf(reason, sizeof reason, "%.*s; raise its maxclients",
                 (int)(refusal->text.length < 99 ? refusal->text.length : 99),
                 refusal->text.data);
    else
        snprintf(reason, sizeof reason, "%s; %s", strerror(error),
                 advice_for(error));
    redis_log(server, &shared->redis.log,
              refusal != NULL ? "rejected a connection"
                              : "cannot be connected to",
              view_of(reason), now);
    if (scarce)
        atomic_store(&shared->redis.until, now + REDIS_SCARCE);
    if (refusal != NULL)
        redis_report_answer(server, now); /* its own message shows that */
}
