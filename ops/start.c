/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "budget.h"
#include "limits.h"
#include "memory.h"
#include "ops.h"
#include "process/log.h"

#include <stdint.h>
#include <sys/resource.h>

/* A program whose stack is too small crashes without a message.  So this runs
   before main(), whose variables alone may be too much.  The process may raise
   a soft limit itself. */
__attribute__((constructor)) static void need_stack(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_LEAST)
        return;
    if (limit.rlim_max < STACK_LEAST)
        server_fatal("%ju bytes of stack are too few; allow it %d (ulimit "
                     "-s)",
                     (uintmax_t)limit.rlim_max, STACK_LEAST);
    limit.rlim_cur = STACK_LEAST;
    (void)setrlimit(RLIMIT_STACK, &limit);
}

void ops_start(void) {
    descriptors_open_standard();
    output_open();
    descriptors_raise_limit();
}

void ops_share(size_t workers) {
    size_t granted = memory_init();

    budget_init(granted / MEMORY_SHARE, memory_of_process() / MEMORY_SHARE,
                server_share(workers * sizeof(_Atomic size_t)), workers);
    shortage_init();
    redis_shortage_init();
}

void ops_end(void) {
    output_close();
}
