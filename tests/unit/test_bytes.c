/* SPDX-License-Identifier: MIT */
/* Views and buffers: lib/proto/bytes.c. */
#include "harness.h"

#include <ctype.h>
#include <string.h>

static const struct view nothing = {NULL, 0};

/* ---- Views ---- */

TEST(views_of_literals_and_strings) {
    static const struct view constant = V("a\0b");

    assert_int_equal(VIEW("").length, 0);
    assert_int_equal(VIEW("a\0b").length, 3);
    assert_view_equal(constant, VIEW("a\0b"));
    assert_view_equal(view_of("a\0b"), VIEW("a"));
    assert_view_equal(view_of(""), nothing);
}

TEST(parts_of_a_view) {
    struct view view = guarded(VIEW("abcdef"), GUARD_AFTER);

    assert_view_equal(view_skip(view, 0), VIEW("abcdef"));
    assert_view_equal(view_skip(view, 4), VIEW("ef"));
    assert_view_equal(view_skip(view, 6), nothing);
    assert_view_equal(view_slice(view, 0, 0), nothing);
    assert_view_equal(view_slice(view, 1, 3), VIEW("bcd"));
    assert_view_equal(view_slice(view, 6, 0), nothing);
    assert_ptr_equal(view_slice(view, 2, 1).data, view.data + 2);
    assert_null(view_skip(nothing, 0).data);
    assert_null(view_slice(nothing, 0, 0).data);
}

struct trim_row {
    const char *name;
    struct view view, trimmed;
};
static const struct trim_row trims[] = {
    {"trim: nothing", V(""), V("")},
    {"trim: no blanks", V("a"), V("a")},
    {"trim: only blanks", V(" \t \t"), V("")},
    {"trim: both ends", V(" \ta b\t "), V("a b")},
    {"trim: front", V("  a"), V("a")},
    {"trim: back", V("a\t\t"), V("a")},
    {"trim: other white space stays", V("\r\n\v\fa\f\v\n\r"),
     V("\r\n\v\fa\f\v\n\r")},
    {"trim: NUL stays", V(" \0 "), V("\0")},
};

static void trim(void **state) {
    const struct trim_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++)
        assert_view_equal(view_trim(guarded(row->view, guard)), row->trimmed);
}

TEST(trim_of_null) {
    assert_view_equal(view_trim(nothing), nothing);
}

struct equal_row {
    const char *name;
    struct view a, b;
    bool equal, ignoring_case, starts;
};
static const struct equal_row equals[] = {
    {"equal: both empty", V(""), V(""), true, true, true},
    {"equal: one empty", V("a"), V(""), false, false, true},
    {"equal: same", V("Host"), V("Host"), true, true, true},
    {"equal: other case", V("Host"), V("hOST"), false, true, false},
    {"equal: the ends of the alphabet", V("AZaz"), V("azAZ"), false, true,
     false},
    {"equal: prefix", V("Hostile"), V("Host"), false, false, true},
    {"equal: longer prefix", V("Host"), V("Hostile"), false, false, false},
    {"equal: differ after a NUL", V("a\0b"), V("a\0c"), false, false, false},
    {"equal: same with a NUL", V("a\0b"), V("a\0b"), true, true, true},
    {"equal: bytes next to letters", V("[@`{"), V("{`@["), false, false, false},
    {"equal: not ASCII", V("\xc3\x84"), V("\xc3\xa4"), false, false, false},
};

static void equal(void **state) {
    const struct equal_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct view a = guarded(row->a, guard);
        assert_int_equal(view_equal(a, row->b), row->equal);
        assert_int_equal(view_equal(row->b, a), row->equal);
        assert_int_equal(view_equal_ignoring_case(a, row->b),
                         row->ignoring_case);
        assert_int_equal(view_equal_ignoring_case(row->b, a),
                         row->ignoring_case);
        assert_int_equal(view_starts_with(a, row->b), row->starts);
    }
}

TEST(equal_with_null) {
    assert_true(view_equal(nothing, VIEW("")));
    assert_true(view_equal_ignoring_case(VIEW(""), nothing));
    assert_true(view_starts_with(nothing, nothing));
    assert_true(view_starts_with(VIEW("a"), nothing));
    assert_true(view_starts_with_ignoring_case(VIEW("Ab"), VIEW("aB")));
    assert_true(view_starts_with_ignoring_case(nothing, nothing));
    assert_false(view_starts_with_ignoring_case(VIEW("A"), VIEW("ab")));
    assert_false(view_starts_with_ignoring_case(VIEW("cab"), VIEW("ab")));
    assert_false(view_equal(nothing, VIEW("a")));
}

TEST(find) {
    struct view view = guarded(VIEW("ab\0c\xff"), GUARD_AFTER);

    assert_int_equal(view_find(view, 'a'), 0);
    assert_int_equal(view_find(view, '\0'), 2);
    assert_int_equal(view_find(view, '\xff'), 4);
    assert_int_equal(view_find(view, 'x'), 5);
    assert_int_equal(view_find(nothing, 'x'), 0);
    assert_int_equal(view_find(view_slice(view, 0, 2), 'c'), 2);
    assert_int_equal(view_find(guarded(VIEW(""), GUARD_BEFORE), '4'), 0);
}

struct cut_row {
    const char *name;
    struct view view, first, rest;
};
static const struct cut_row cuts[] = {
    {"cut: nothing", V(""), V(""), V("")},
    {"cut: no separator", V("abc"), V("abc"), V("")},
    {"cut: only the separator", V(","), V(""), V("")},
    {"cut: at the front", V(",a"), V(""), V("a")},
    {"cut: at the back", V("a,"), V("a"), V("")},
    {"cut: at the first of two", V("a,b,c"), V("a"), V("b,c")},
    {"cut: separators in a row", V("a,,b"), V("a"), V(",b")},
};

static void cut(void **state) {
    const struct cut_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        struct view rest = guarded(row->view, guard);
        assert_view_equal(view_cut(&rest, ','), row->first);
        assert_view_equal(rest, row->rest);
    }
}

TEST(cut_of_null) {
    struct view rest = nothing;

    assert_view_equal(view_cut(&rest, ','), nothing);
    assert_view_equal(rest, nothing);
}

/* ---- Numbers ---- */

struct number_row {
    const char *name;
    struct view digits;
    uint64_t limit;
    bool valid;
    uint64_t number;
};
static const struct number_row numbers[] = {
    {"number: zero", V("0"), 9, true, 0},
    {"number: zero, limit zero", V("000"), 0, true, 0},
    {"number: one, limit zero", V("1"), 0, false, 0},
    {"number: ten, limit zero", V("10"), 0, false, 0},
    {"number: leading zeros", V("00000000000000000000000042"), 42, true, 42},
    {"number: the limit", V("65536"), 65536, true, 65536},
    {"number: beyond the limit", V("65537"), 65536, false, 0},
    {"number: a digit more", V("655360"), 65536, false, 0},
    {"number: beyond a limit of one digit", V("6"), 5, false, 0},
    {"number: two digits, limit 5", V("10"), 5, false, 0},
    {"number: INT64_MAX", V("9223372036854775807"), INT64_MAX, true, INT64_MAX},
    {"number: INT64_MAX + 1", V("9223372036854775808"), INT64_MAX, false, 0},
    {"number: UINT64_MAX", V("18446744073709551615"), UINT64_MAX, true,
     UINT64_MAX},
    {"number: UINT64_MAX + 1", V("18446744073709551616"), UINT64_MAX, false, 0},
    {"number: overflows to 1", V("18446744073709551617"), UINT64_MAX, false, 0},
    {"number: 21 digits", V("100000000000000000000"), UINT64_MAX, false, 0},
    {"number: nothing", V(""), 9, false, 0},
    {"number: plus", V("+1"), 9, false, 0},
    {"number: minus", V("-1"), 9, false, 0},
    {"number: minus zero", V("-0"), 9, false, 0},
    {"number: blank before", V(" 1"), 9, false, 0},
    {"number: blank after", V("1 "), 9, false, 0},
    {"number: NUL after", V("1\0"), 9, false, 0},
    {"number: hexadecimal", V("0x1"), 99, false, 0},
    {"number: fraction", V("1.0"), 99, false, 0},
    {"number: byte below '0'", V("/"), 99, false, 0},
    {"number: byte above '9'", V(":"), 99, false, 0},
    {"number: not ASCII", V("\xb2"), 99, false, 0},
};

static void number(void **state) {
    const struct number_row *row = *state;

    for (enum guard guard = 0; guard < GUARDS; guard++) {
        uint64_t got = 77;
        assert_int_equal(
            view_number(guarded(row->digits, guard), row->limit, &got),
            row->valid);
        assert_int_equal(got, row->valid ? row->number : 77);
    }
}

TEST(number_of_null) {
    uint64_t got = 77;

    assert_false(view_number(nothing, UINT64_MAX, &got));
    assert_int_equal(got, 77);
}

TEST(hex_digits) {
    for (int byte = 0; byte < 256; byte++) {
        int expected = -1;
        if (byte < 128 && isdigit(byte))
            expected = byte - '0';
        else if (byte < 128 && isxdigit(byte))
            expected = tolower(byte) - 'a' + 10;
        assert_int_equal(hex_digit((char)byte), expected);
    }
}

struct digits_row {
    const char *name;
    int64_t number;
    struct view digits;
};
static const struct digits_row digits[] = {
    {"append number: zero", 0, V("0")},
    {"append number: one digit", 7, V("7")},
    {"append number: zeros at the end", 1000, V("1000")},
    {"append number: minus one", -1, V("-1")},
    {"append number: INT64_MAX", INT64_MAX, V("9223372036854775807")},
    {"append number: INT64_MIN", INT64_MIN, V("-9223372036854775808")},
    {"append number: INT64_MIN + 1", INT64_MIN + 1, V("-9223372036854775807")},
    {"append number: beyond 32 bits", 4294967296, V("4294967296")},
};

static void append_number(void **state) {
    const struct digits_row *row = *state;
    struct buffer buffer = {0};

    buffer_append(&buffer, VIEW("x"));
    buffer_append_number(&buffer, row->number);
    assert_false(buffer.failed);
    assert_view_equal(view_skip(buffer_view(&buffer), 1), row->digits);
    buffer_free(&buffer);
}

/* ---- Buffers ---- */

static void assert_empty(const struct buffer *buffer) {
    assert_null(buffer->data);
    assert_int_equal(buffer->length, 0);
    assert_int_equal(buffer->capacity, 0);
    assert_false(buffer->failed);
}

TEST(buffer_of_zeros_is_empty) {
    struct buffer buffer = {0};

    assert_view_equal(buffer_view(&buffer), nothing);
    buffer_append(&buffer, nothing);
    buffer_append(&buffer, VIEW(""));
    buffer_consume(&buffer, 0);
    buffer_clear(&buffer);
    assert_empty(&buffer);
    buffer_free(&buffer);
    assert_empty(&buffer);
    buffer_free(&buffer);
}

TEST(buffer_keeps_every_byte_while_it_grows) {
    struct buffer buffer = {0};
    size_t moves = 0;
    size_t capacity = 0;

    for (size_t i = 0; i < 300000; i++) {
        char byte = (char)(i * 7 % 251);
        buffer_append(&buffer, (struct view){&byte, 1});
        assert_true(buffer.length <= buffer.capacity);
        moves += buffer.capacity != capacity;
        capacity = buffer.capacity;
    }
    assert_false(buffer.failed);
    assert_int_equal(buffer.length, 300000);
    for (size_t i = 0; i < buffer.length; i++)
        assert_int_equal(buffer.data[i], (char)(i * 7 % 251));
    assert_true(moves < 40); /* the size grows by a factor */
    buffer_free(&buffer);
    assert_empty(&buffer);
}

TEST(reserve_makes_room_and_no_more) {
    struct buffer buffer = {0};

    assert_non_null(
        buffer_reserve(&buffer, 0)); /* not NULL, even for 0 bytes */
    buffer_append(&buffer, VIEW("head"));
    for (size_t more = 1; more < 70000; more = more * 3 + 1) {
        char *room = buffer_reserve(&buffer, more);
        assert_non_null(room);
        assert_ptr_equal(room, buffer.data + 4);
        assert_true(buffer.capacity - buffer.length >= more);
        memset(room, 'x', more);
        assert_view_equal(buffer_view(&buffer), VIEW("head"));
    }
    char *first = buffer_reserve(&buffer, 10);
    assert_ptr_equal(buffer_reserve(&buffer, 10), first);
    buffer_free(&buffer);
}

TEST(consume_drops_the_first_bytes) {
    struct buffer buffer = {0};

    buffer_append(&buffer, VIEW("0123456789"));
    buffer_consume(&buffer, 0);
    assert_view_equal(buffer_view(&buffer), VIEW("0123456789"));
    buffer_consume(&buffer, 3);
    assert_view_equal(buffer_view(&buffer), VIEW("3456789"));
    buffer_append(&buffer, VIEW("ab"));
    buffer_consume(&buffer, 7);
    assert_view_equal(buffer_view(&buffer), VIEW("ab"));
    buffer_consume(&buffer, 2);
    assert_int_equal(buffer.length, 0);
    buffer_append(&buffer, VIEW("again"));
    assert_view_equal(buffer_view(&buffer), VIEW("again"));
    buffer_free(&buffer);
}

TEST(clear_keeps_the_memory) {
    struct buffer buffer = {0};

    append_times(&buffer, VIEW("0123456789"), 100);
    const char *data = buffer.data;
    size_t capacity = buffer.capacity;
    buffer_clear(&buffer);
    assert_int_equal(buffer.length, 0);
    append_times(&buffer, VIEW("x"), capacity);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(buffer.capacity, capacity);
    buffer_free(&buffer);
}

TEST(failure_is_sticky_until_cleared) {
    struct buffer buffer = {0};

    buffer_append(&buffer, VIEW("before"));
    assert_null(buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    assert_null(buffer_reserve(&buffer, 1));
    buffer_append(&buffer, VIEW("after"));
    buffer_append_number(&buffer, 1);
    assert_view_equal(buffer_view(&buffer), VIEW("before"));
    buffer_clear(&buffer);
    assert_false(buffer.failed);
    buffer_append(&buffer, VIEW("new"));
    assert_view_equal(buffer_view(&buffer), VIEW("new"));
    assert_null(buffer_reserve(&buffer, SIZE_MAX / 2 + 1));
    buffer_free(&buffer);
    assert_empty(&buffer);
}

TEST_TABLE(trim, trims)
TEST_TABLE(equal, equals)
TEST_TABLE(cut, cuts)
TEST_TABLE(number, numbers)
TEST_TABLE(append_number, digits)
