/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "limits.h"
#include "memory.h"
#include "ops.h"
#include "process/log.h"
#include "process/shared.h"

#include <stdint.h>
#include <sys/resource.h>

/* A program whose stack is too small crashes without a message.  So this runs
   before main(), whose variables alone may not fit.  The process may raise a
   soft limit itself. */
__attribute__((constructor)) static void need_stack(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_MINIMUM)
        return;
    if (limit.rlim_max < STACK_MINIMUM)
        server_fatal("%ju bytes of stack are too few; allow it %d (ulimit "
                     "-s)",
                     (uintmax_t)limit.rlim_max, STACK_MINIMUM);
    limit.rlim_cur = STACK_MINIMUM;
    (void)setrlimit(RLIMIT_STACK, &limit);
}

void ops_start(size_t workers) {
    descriptors_open_standard();
    output_open();
    descriptors_raise_limit();
    size_t granted = memory_init();
    budget_init(granted / MEMORY_SHARE, memory_of_process() / MEMORY_SHARE,
                server_share(workers * sizeof(_Atomic size_t)), workers);
    shortage_init();
}

void ops_end(void) {
    output_close();
}
