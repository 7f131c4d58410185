/* SPDX-License-Identifier: MIT */
#include "start.h"

#include "limits.h"
#include "ops.h"
#include "process/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The limit; read once, because that costs a system call. */
static size_t descriptors;

/* Any descriptor will do.  One with O_PATH can neither be read nor written
   (EBADF), and "/" exists also if a container has no /dev/null. */
void descriptors_open_standard(void) {
    int descriptor;

    do {
        descriptor = open("/", O_PATH);
    } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor < 0)
        server_fatal("cannot open a descriptor (%s); allow more (ulimit -n)",
                     strerror(errno));
    close(descriptor);
}

void descriptors_raise_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        server_fatal("cannot read the limit of descriptors: %s",
                     strerror(errno));
    if (limit.rlim_max < DESCRIPTORS_MINIMUM)
        server_fatal("%ju descriptors are too few; allow it %d (ulimit -n)",
                     (uintmax_t)limit.rlim_max, DESCRIPTORS_MINIMUM);
    limit.rlim_cur =
        limit.rlim_max < DESCRIPTORS_LIMIT ? limit.rlim_max : DESCRIPTORS_LIMIT;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* if it fails: fewer clients */
    descriptors = (size_t)sysconf(_SC_OPEN_MAX);
}

size_t server_room_for_clients(size_t served, size_t more) {
    size_t reserved = RESERVED_DESCRIPTORS < descriptors / 2
                          ? RESERVED_DESCRIPTORS
                          : descriptors / 2;
    size_t room = descriptors - reserved;

    room =
        room > served * (1 + more) ? room - served * more : room / (1 + more);
    return room > 0 ? room : 1;
}
