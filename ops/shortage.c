/* SPDX-License-Identifier: MIT */
/* Shortages, and messages that may repeat: logged at once, then rarely. */
#include "limits.h"
#include "ops.h"
#include "process/clock.h"
#include "process/log.h"
#include "start.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What all processes know. */
struct shortage {
    struct log_limit log;
    _Atomic int64_t until;
};
static struct shortage *shortage;

void shortage_init(void) {
    shortage = server_share(sizeof *shortage);
}

bool log_limit_claim(struct log_limit *limit, int64_t now, int pause) {
    int64_t next_at = atomic_load(&limit->next_at);

    return now >= next_at && atomic_compare_exchange_strong(
                                 &limit->next_at, &next_at, now + pause);
}

void log_limited(struct log_limit *limit, const char *format, ...) {
    unsigned times = atomic_exchange(&limit->untold, 0);
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

    atomic_store(&shortage->until, now + SHORTAGE);
    atomic_fetch_add(&shortage->log.untold, 1);
    if (log_limit_claim(&shortage->log, now, LOG_INTERVAL))
        log_limited(
            &shortage->log,
            "out of %s (%s); clients wait or are turned away, allow it more",
            what, strerror(error));
    errno = error;
}

bool server_is_under_pressure(void) {
    int64_t until =
        atomic_load_explicit(&shortage->until, memory_order_relaxed);
    return until != 0 && clock_milliseconds() < until;
}
