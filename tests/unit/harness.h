/* SPDX-License-Identifier: MIT */
/*
 * Shared code of all unit tests.
 *
 *   - A suite: each function TEST and each row of a TEST_TABLE is a test of its
 *     own, with a name.  main() runs all of them.
 *   - Guarded bytes: a vector is copied next to a page without access rights,
 *     so that reading one byte too many ends the program at that instruction.
 *   - feed(): the ways in which a parser gets its bytes from a network: all at
 *     once, in two pieces cut anywhere, byte by byte, and with bytes of another
 *     message after them.
 */
#ifndef UNIT_HARNESS_H
#define UNIT_HARNESS_H

#include "proto/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <cmocka.h> /* needs the standard headers before it */

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* Views for tables of vectors; a byte string is never just a C string here. */
#define V(literal) VIEW_INITIALIZER(literal)

/* Begins a test with the name of its function, which is added before main. */
#define TEST(function)                                                         \
    static void function(void **state);                                        \
    __attribute__((constructor)) static void add_##function(void) {            \
        suite_add(#function, function, NULL);                                  \
    }                                                                          \
    static void function(__attribute__((unused)) void **state)

/* Adds a test for each row of a table; a row's first member is its name.  The
   row reaches the function as *state. */
#define TEST_TABLE(function, table)                                            \
    __attribute__((constructor)) static void add_##function##_##table(void) {  \
        for (size_t i = 0; i < ROWS(table); i++)                               \
            suite_add((table)[i].name, function, &(table)[i]);                 \
    }

void suite_add(const char *name, CMUnitTestFunction function, const void *row);

/* The most that can be guarded, bytes. */
#define GUARDED_LIMIT ((size_t)4 * 1024 * 1024)

enum guard {
    GUARD_BEHIND, /* the last byte is the last of its page */
    GUARD_BEFORE, /* the first byte is the first; "4141..." follows */
    GUARDS,       /* how many there are */
};

/* Copies the vector to where the guard is.  Valid until the next call; the
   bytes may be written to. */
struct view guarded(struct view vector, enum guard guard);

/*
 * A parser that returns "consumed" (> 0), "need more" (0) or "bad" (< 0), and
 * the row with the expected values: the function asserts all of them each time
 * it returns "consumed".  `seen` bytes were there before.
 */
typedef ssize_t (*parser)(struct view input, size_t seen, const void *row);

/*
 * Feeds the vector in every way and expects:
 *
 *     > 0   this answer, once so many bytes are there; "need more" before that
 *     0     "need more", always
 *     < 0   this answer at the last byte; before it, "need more" or this one
 */
void feed(parser parse, const void *row, struct view vector, ssize_t expected);

/* Fails, showing both, if the views differ. */
void assert_view_equal(struct view got, struct view expected);

/* Appends a view to the buffer this many times. */
void append_times(struct buffer *buffer, struct view view, size_t times);

#endif
