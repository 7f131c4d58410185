/* SPDX-License-Identifier: MIT */
/* must(): aborts if a condition is false.  assert(3) might be compiled away. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define must(holds) ((holds) ? (void)0 : must_fail(__FILE__, __LINE__, #holds))

__attribute__((noreturn)) static inline void
must_fail(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: must hold: %s\n", file, line, what);
    abort();
}
