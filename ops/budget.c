/* SPDX-License-Identifier: MIT */
#include "budget.h"

#include "ops.h"

static struct {
    size_t limit, own_limit;
    _Atomic size_t *taken;
    size_t slots; /* the number of counters */
    size_t slot;  /* the counter of this process */
} budget;

void budget_init(size_t limit, size_t own_limit, _Atomic size_t *taken,
                 size_t slots) {
    budget.limit = limit;
    budget.own_limit = own_limit;
    budget.taken = taken;
    budget.slots = slots;
    budget.slot = 0;
}

void budget_own(size_t slot) {
    budget.slot = slot;
}

bool budget_take(size_t bytes) {
    size_t taken = 0;

    if (budget.taken == NULL)
        return true;
    /* First our own part, then the sum: so if two processes call this at once,
       at least one sees both parts, and the limit holds. */
    size_t own = atomic_fetch_add(&budget.taken[budget.slot], bytes) + bytes;
    for (size_t i = 0; i < budget.slots; i++)
        taken += atomic_load(&budget.taken[i]);
    if (own <= budget.own_limit && taken <= budget.limit)
        return true;
    budget_return(bytes);
    return false;
}

void budget_return(size_t bytes) {
    if (budget.taken != NULL)
        atomic_fetch_sub(&budget.taken[budget.slot], bytes);
}

void budget_reset(size_t slot) {
    if (budget.taken != NULL)
        atomic_store(&budget.taken[slot], 0);
}
