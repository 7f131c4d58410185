/* SPDX-License-Identifier: MIT */
#include "app/budget.h"

bool budget_take(const struct budget *budget, size_t bytes) {
    size_t taken = 0;

    if (budget->taken == NULL)
        return true;
    /* First our own part, then the sum: so if two processes call this at once,
       at least one sees both parts, and the limit holds. */
    size_t own = atomic_fetch_add(&budget->taken[budget->slot], bytes) + bytes;
    for (size_t i = 0; i < budget->slots; i++)
        taken += atomic_load(&budget->taken[i]);
    if (own <= budget->own_limit && taken <= budget->limit)
        return true;
    budget_return(budget, bytes);
    return false;
}

void budget_return(const struct budget *budget, size_t bytes) {
    if (budget->taken != NULL)
        atomic_fetch_sub(&budget->taken[budget->slot], bytes);
}

void budget_reset(const struct budget *budget, size_t slot) {
    if (budget->taken != NULL)
        atomic_store(&budget->taken[slot], 0);
}
