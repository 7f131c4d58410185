/* SPDX-License-Identifier: MIT */
#ifndef PROCESS_CLOCK_H
#define PROCESS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds that only grow, from some unknown start; exact to a few of
   them, which makes it cheap: clock_gettime(2) without a system call. */
static inline int64_t clock_milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

#endif
