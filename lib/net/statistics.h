/* SPDX-License-Identifier: MIT */
/*
 * The statistics of a server: counted in memory that all its processes share,
 * printed when it ends.
 */
#ifndef NET_STATISTICS_H
#define NET_STATISTICS_H

#include "app/exchange.h"

#include <stdatomic.h>
#include <stdio.h>

/* One worker's counters, in a cache line of their own: cores that write to the
   same line take it away from each other. */
struct counters {
    _Alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t responses[6]; /* by the first digit of their status */
    _Atomic uint64_t bytes;        /* sent to clients */
};

/* Returns the counters of this number of workers, shared with every process
   forked later; NULL with errno set if memory is short. */
struct counters *statistics_create(size_t workers);

/* Counts an exchange that is done. */
void statistics_count(struct counters *counters,
                      const struct exchange *exchange);

/* What is printed about the workers: nothing; the least, median and most
   requests, and how many workers had none; that, and the requests of each. */
enum statistics_workers { NO_WORKERS, WORKERS_SUMMARY, EACH_WORKER };

/* Prints the sums, and the CPU time of this process and of its ended children.
 */
void statistics_print(const struct counters *counters, size_t workers,
                      enum statistics_workers detail, FILE *stream);

#endif
