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
#ifndef OPS_BUDGET_H
#define OPS_BUDGET_H

#include <stdatomic.h>
#include <stddef.h>

/* Sets the limits, in bytes: for all processes together, and for each. `taken`:
   a counter for each process, in memory that all processes share.  When a child
   is killed, its parent can return what it had taken.  Until then, and with
   NULL, there is no limit. */
void budget_init(size_t limit, size_t own_limit, _Atomic size_t *taken,
                 size_t slots);

#endif
