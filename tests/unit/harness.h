/* SPDX-License-Identifier: MIT */
/*
 * Shared code of all unit tests.
 *
 *   - A suite: each TEST function and each row of a TEST_TABLE is a separate
 *     test with a name.  main() runs all tests.
 *   - Guarded bytes: a vector is copied next to a page without access rights,
 *     so that a read in this page ends the program at that instruction.
 *   - feed() passes bytes to a parser as a network may deliver them: all at
 *     once, in two pieces cut anywhere, byte by byte, and with more bytes after
 *     the message.
 */
#pragma once

#include "proto/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <cmocka.h> /* needs the standard headers before it */

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* A view of a literal, for tables of vectors. */
#define V(literal) VIEW_INITIALIZER(literal)

/* Begins a test that is named after its function, and adds it to the suite. */
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

/* The largest number of bytes that can be guarded. */
#define GUARDED_LIMIT ((size_t)4 * 1024 * 1024)

enum guard {
    GUARD_AFTER,  /* the vector ends at the end of a page */
    GUARD_BEFORE, /* the vector begins a page, and "4141..." follows it */
    GUARDS,       /* the number of guards */
};

/* Copies the vector to a place next to the guard.  The copy is valid until the
   next call, and may be changed. */
struct view guarded(struct view vector, enum guard guard);

/*
 * A parser that returns "consumed" (> 0), "need more" (0) or "bad" (< 0).  It
 * asserts the expected values in `row` before it returns "consumed".  The first
 * `seen` bytes were there at the previous call.
 */
typedef ssize_t (*parser)(struct view input, size_t seen, const void *row);

/*
 * Feeds the vector in every way.  `expected` is what the parser must return:
 *
 *     > 0   for this number of bytes or more: this number; for fewer: 0
 *     0     always 0
 *     < 0   for the whole vector: this number; for fewer bytes: this number or
 *           0; with trailing bytes: any error
 */
void feed(parser parse, const void *row, struct view vector, ssize_t expected);

/* Fails, and prints both views, if they differ. */
void assert_view_equal(struct view got, struct view expected);

/* Appends a view to the buffer this many times. */
void append_times(struct buffer *buffer, struct view view, size_t times);
