/* SPDX-License-Identifier: MIT */
/*
 * Limits the memory of large responses, long requests and long replies of
 * Redis.
 *
 * A client that does not read keeps its response in the server's memory. A
 * client that does not end its request keeps the request there.  Without
 * a limit, many such clients would take all memory, and the kernel would kill
 * the server.  Small responses and requests do not count (LARGE_RESPONSE,
 * LARGE_REQUEST), so they are served while the budget is exhausted.
 */
#include "ops.h"
#include "start.h"

/* There is no limit before budget_init(). */
static _Atomic size_t only_one;
static struct budget {
    size_t limit, process_limit;
    _Atomic size_t *taken;
    size_t slots; /* the number of counters */
    size_t slot;  /* the counter of this process */
} budget = {SIZE_MAX, SIZE_MAX, &only_one, 1, 0};

void budget_init(size_t limit, size_t process_limit, _Atomic size_t *taken,
                 size_t slots) {
    budget = (struct budget){limit, process_limit, taken, slots, 0};
}

void budget_set_slot(size_t slot) {
    budget.slot = slot;
}

bool budget_change(size_t old, size_t new) {
    size_t more = new - old; /* if negative: wraps, and adding it wraps back */
    size_t taken = 0;

    /* Changes the counter, then reads the sum: if two processes call this at
       the same time, at least one of them sees both changes. */
    size_t own = atomic_fetch_add(&budget.taken[budget.slot], more) + more;
    if (new <= old)
        return true;
    for (size_t i = 0; i < budget.slots; i++)
        taken += atomic_load(&budget.taken[i]);
    if (own <= budget.process_limit && taken <= budget.limit)
        return true;
    atomic_fetch_sub(&budget.taken[budget.slot], more);
    return false;
}

void budget_reset(size_t slot) {
    atomic_store(&budget.taken[slot], 0);
}
