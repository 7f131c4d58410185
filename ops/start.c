/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "limits.h"
#include "ops.h"
#include "process/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <unistd.h>

/* The limit of descriptors, read once: reading it costs a system call. */
static size_t descriptors;

/* Sets the soft limit to the hard limit, but to `most` at most.  Exits if the
   hard limit is below `least`. */
static void raise_limit(struct rlimit *limit, rlim_t least, rlim_t most,
                        const char *what) {
    if (limit->rlim_max < least)
        server_fatal("%ju %s; %ju are needed", (uintmax_t)limit->rlim_max, what,
                     (uintmax_t)least);
    limit->rlim_cur = MIN(limit->rlim_max, most);
}

/* A program whose stack is too small crashes without a message.  So this check
   runs before main(), whose variables and calls may not fit. */
__attribute__((constructor)) static void require_stack(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_MINIMUM)
        return;
    raise_limit(&limit, STACK_MINIMUM, STACK_MINIMUM,
                "bytes of stack (ulimit -s) are too few");
    (void)setrlimit(RLIMIT_STACK, &limit);
}

/* Opens the first three descriptors if they are closed (`>&-`).  Otherwise a
   line of the log could be sent to a client or to Redis.  With O_PATH they can
   neither be read nor written (EBADF).  A container may have no /dev/null. */
static void open_standard_descriptors(void) {
    int descriptor;

    do {
        descriptor = open("/", O_PATH);
    } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor < 0)
        server_fatal("cannot open a descriptor (%s); allow more (ulimit -n)",
                     strerror(errno));
    close(descriptor);
}

void ops_start(size_t workers, bool log) {
    struct rlimit limit;

    open_standard_descriptors();
    output_open(log);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        server_fatal("cannot read the limit of descriptors: %s",
                     strerror(errno));
    raise_limit(&limit, DESCRIPTORS_MINIMUM, DESCRIPTORS_LIMIT,
                "descriptors (ulimit -n) are too few");
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* if it fails: fewer clients */
    descriptors = (size_t)sysconf(_SC_OPEN_MAX);
    memory_init(workers);
    shortage_init();
}

size_t limit_by_descriptors(size_t served, size_t more) {
    size_t room = descriptors - MIN(RESERVED_DESCRIPTORS, descriptors / 2);

    room =
        room > served * (1 + more) ? room - served * more : room / (1 + more);
    return room > 0 ? room : 1;
}
