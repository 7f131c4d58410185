/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <errno.h> /* program_invocation_short_name */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The suite ---- */

static struct {
    struct CMUnitTest *tests;
    size_t count;
    size_t capacity;
} suite;

void suite_add(const char *name, CMUnitTestFunction function, const void *row) {
    if (suite.count == suite.capacity) {
        suite.capacity = suite.capacity == 0 ? 64 : 2 * suite.capacity;
        suite.tests =
            realloc(suite.tests, suite.capacity * sizeof suite.tests[0]);
        if (suite.tests == NULL)
            abort();
    }
    suite.tests[suite.count++] = (struct CMUnitTest){
        .name = name,
        .test_func = function,
        .initial_state = (void *)row, /* no test writes to its row */
    };
}

int main(void) {
    /* The macro of cmocka requires an array, not a pointer. */
    int failed = _cmocka_run_group_tests(program_invocation_short_name,
                                         suite.tests, suite.count, NULL, NULL);
    free(suite.tests);
    return failed > 0 || suite.count == 0 ? 1 : 0;
}

/* ---- Guarded bytes ---- */

/* [forbidden page][GUARDED_LIMIT bytes][forbidden page] */
static char *guarded_area(void) {
    static char *area;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (area != NULL)
        return area;
    char *all = mmap(NULL, GUARDED_LIMIT + 2 * page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all, page, PROT_NONE) != 0 ||
        mprotect(all + page + GUARDED_LIMIT, page, PROT_NONE) != 0) {
        perror("guard pages");
        abort();
    }
    area = all + page;
    return area;
}

struct view guarded(struct view vector, enum guard guard) {
    char *area = guarded_area();
    size_t after = GUARDED_LIMIT - vector.length;

    if (vector.length > GUARDED_LIMIT)
        abort();
    char *start = guard == GUARD_AFTER ? area + after : area;
    if (vector.length > 0)
        memmove(start, vector.data, vector.length);
    /* Digits reveal a parser that reads a number past the end. */
    if (guard == GUARD_BEFORE)
        for (size_t i = 0; i < 64 && i < after; i++)
            start[vector.length + i] = i % 2 == 0 ? '4' : '1';
    return (struct view){start, vector.length};
}

/* ---- Feeding ---- */

static void expect(ssize_t got, ssize_t expected, const char *how,
                   size_t length) {
    if (got == expected)
        return;
    print_error("%s, %zu bytes: expected %zd, got %zd\n", how, length, expected,
                got);
    fail();
}

static void feed_whole(parser parse, const void *row, struct view vector,
                       ssize_t expected) {
    expect(parse(guarded(vector, GUARD_AFTER), 0, row), expected, "whole",
           vector.length);
    expect(parse(guarded(vector, GUARD_BEFORE), 0, row), expected,
           "whole, guard before it", vector.length);
}

/* Feeds one byte more at each call, like a real caller. */
static void feed_bytes(parser parse, const void *row, struct view vector,
                       ssize_t expected) {
    size_t until = expected > 0 ? (size_t)expected : vector.length;

    for (size_t length = 0; length < until; length++) {
        struct view prefix = view_slice(vector, 0, length);
        ssize_t got = parse(guarded(prefix, GUARD_AFTER),
                            length > 0 ? length - 1 : 0, row);
        if (got < 0 && got == expected)
            return;
        expect(got, 0, "byte by byte", length);
    }
    struct view all = view_slice(vector, 0, until);
    expect(parse(guarded(all, GUARD_AFTER), until > 0 ? until - 1 : 0, row),
           expected, "byte by byte", until);
}

/* Feeds two pieces, cut at each offset, or at up to 500 of a long vector. */
static void feed_pieces(parser parse, const void *row, struct view vector,
                        ssize_t expected) {
    size_t step = vector.length / 500 + 1;

    for (size_t cut = 1; cut < vector.length; cut += step) {
        struct view piece = view_slice(vector, 0, cut);
        if (parse(guarded(piece, GUARD_AFTER), 0, row) != 0)
            return; /* feed_bytes has checked early results */
        expect(parse(guarded(vector, GUARD_AFTER), cut, row), expected,
               "in two pieces, the first of", cut);
    }
}

/* Feeds more bytes after the vector, which must not change the result. */
static void feed_with_tail(parser parse, const void *row, struct view vector,
                           ssize_t expected) {
    static const struct view tails[] = {
        V("\r\n"),      V("\r\n\r\n"),   V("GET / HTTP/1.1\r\n\r\n"),
        V(":1\r\n"),    V("0\r\n\r\n"),  V("\x00\xff"),
        V(" a: b\r\n"), V("aaaaaaaaaa"),
    };
    struct buffer all = {0};

    for (size_t i = 0; i < ROWS(tails); i++) {
        buffer_clear(&all);
        buffer_append(&all, vector);
        buffer_append(&all, tails[i]);
        ssize_t got = parse(guarded(buffer_view(&all), GUARD_AFTER), 0, row);
        if (expected > 0 || got >= 0) /* any error is accepted */
            expect(got, expected, "with trailing bytes", all.length);
    }
    buffer_free(&all);
}

void feed(parser parse, const void *row, struct view vector, ssize_t expected) {
    feed_whole(parse, row, vector, expected);
    feed_bytes(parse, row, vector, expected);
    feed_pieces(parse, row, vector, expected);
    if (expected != 0)
        feed_with_tail(parse, row, vector, expected);
}

/* ---- Assertions ---- */

void assert_view_equal(struct view got, struct view expected) {
    if (view_equal(got, expected))
        return;
    print_error("expected \"%.*s\", got \"%.*s\"\n", (int)expected.length,
                expected.length > 0 ? expected.data : "", (int)got.length,
                got.length > 0 ? got.data : "");
    fail();
}

void append_times(struct buffer *buffer, struct view view, size_t times) {
    for (size_t i = 0; i < times; i++)
        buffer_append(buffer, view);
}
