/* SPDX-License-Identifier: MIT */
/*
 * Limits for the memory of large responses: of all processes together, and of
 * each process.
 *
 * A client that does not read keeps its response in our memory.  Without a
 * limit, a crowd of such clients takes all memory that the machine or the
 * control group grants, and the kernel kills the server.
 *
 * Only responses of more than LARGE_RESPONSE bytes count, so small ones cost
 * nothing here and are served while the budget is exhausted.
 */
#ifndef APP_BUDGET_H
#define APP_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* All zero: no limit. */
struct budget {
    size_t limit;     /* bytes, for all processes together */
    size_t own_limit; /* bytes, for each process */
    /* One counter for each process, in memory that all processes share: when a
       child is killed, its parent can return what it had taken. */
    _Atomic size_t *taken;
    size_t slots; /* the number of counters */
    size_t slot;  /* the counter of this process */
};

/* Takes the bytes; returns false, and takes nothing, if a limit forbids it. */
bool budget_take(const struct budget *budget, size_t bytes);
void budget_return(const struct budget *budget, size_t bytes);

/* The process of this slot has ended: returns all that it had taken. */
void budget_reset(const struct budget *budget, size_t slot);

#endif
