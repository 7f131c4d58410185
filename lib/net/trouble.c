/* SPDX-License-Identifier: MIT */
#include "net/trouble.h"

#include "net/children.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic bool *ran_out; /* it has been said */

void trouble_init(void) {
    ran_out = server_share(sizeof *ran_out);
}

void server_give_up(const char *format, ...) {
    va_list arguments;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

void server_is_out_of(const char *what) {
    int error = errno;

    if (!atomic_exchange(ran_out, true))
        dprintf(STDERR_FILENO,
                "%s: out of %s (%s); clients wait, allow it more\n",
                program_invocation_short_name, what, strerror(error));
    errno = error;
}
