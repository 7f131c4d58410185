/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

/* Returns the milliseconds since an arbitrary start; the value never decreases.
   The coarse clock is the time of the kernel's last tick, exact to a few
   milliseconds, and is read from memory, without a system call (vdso(7)). */
static inline int64_t clock_milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Returns true to at most one of all callers in `pause` milliseconds. */
static inline bool clock_claim(_Atomic int64_t *next_at, int64_t now,
                               int pause) {
    int64_t expected = atomic_load(next_at);
    return now >= expected &&
           atomic_compare_exchange_strong(next_at, &expected, now + pause);
}

/* Converts milliseconds to the structure of setsockopt(2) and setitimer(2). */
static inline struct timeval timeval_of(int64_t milliseconds) {
    return (struct timeval){.tv_sec = milliseconds / 1000,
                            .tv_usec = milliseconds % 1000 * 1000};
}
