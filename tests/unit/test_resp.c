/* SPDX-License-Identifier: MIT */
/*
 * The Redis protocol: lib/proto/resp.c.
 *
 * The tests write a reply in one line, such as [+OK :1 "text" null].  So a row
 * of the table has the whole content of a reply.
 */
#include "config.h"
#include "harness.h"
#include "proto/resp.h"

#include <string.h>

struct row {
    const char *name;
    struct view input;
    ssize_t result; /* 0: the whole input is one reply */
    struct view found;
};

#define MALFORMED (-1)
#define TOO_LARGE (-2)

/* Returns the number of bytes of a whole reply, 0 if more bytes are needed, or
   an error. */
static ssize_t read_reply(struct resp_scan *scan, struct view input,
                          struct resp_reply *reply) {
    size_t used;
    int result = resp_read(scan, input, &used, reply);

    if (result < 0)
        return MALFORMED;
    if (scan->skips || (result > 0 && reply->type == RESP_ERROR &&
                        view_starts_with(reply->text, VIEW("the reply is"))))
        return TOO_LARGE;
    return result > 0 ? (ssize_t)used : 0;
}

static ssize_t read_whole(struct view input, struct resp_reply *reply) {
    struct resp_scan scan = {0};

    return read_reply(&scan, input, reply);
}

static void describe(struct buffer *text, const struct resp_reply *reply) {
    struct view items = reply->items;
    struct resp_reply item;
    size_t count = 0;
    bool all_strings = true;

    switch (reply->type) {
    case RESP_STATUS:
    case RESP_ERROR:
        buffer_append(text, reply->type == RESP_STATUS ? VIEW("+") : VIEW("-"));
        buffer_append(text, reply->text);
        return;
    case RESP_INTEGER:
        buffer_append(text, VIEW(":"));
        buffer_append_number(text, reply->integer);
        return;
    case RESP_STRING:
        buffer_append(text, VIEW("\""));
        buffer_append(text, reply->text);
        buffer_append(text, VIEW("\""));
        return;
    case RESP_NULL:
        buffer_append(text, VIEW("null"));
        return;
    case RESP_ARRAY:
        buffer_append(text, VIEW("["));
        for (; resp_next(&items, &item); count++) {
            buffer_append(text, count > 0 ? VIEW(" ") : VIEW(""));
            describe(text, &item);
            all_strings = all_strings && item.type == RESP_STRING;
        }
        assert_int_equal(all_strings, reply->all_strings);
        assert_int_equal(items.length, 0);
        assert_int_equal(count, reply->count);
        buffer_append(text, VIEW("]"));
        return;
    }
    fail();
}

static ssize_t parse(struct view input, size_t seen, const void *vector) {
    const struct row *row = vector;
    struct resp_reply reply;
    struct buffer text = {0};
    (void)seen;

    memset(&reply, 0x5a, sizeof reply);
    ssize_t used = read_whole(input, &reply);
    if (used > 0) {
        describe(&text, &reply);
        assert_view_equal(buffer_view(&text), row->found);
        buffer_free(&text);
    }
    return used;
}

#define GOOD(input, found)        {"reply " found, V(input), 0, V(found)}
#define NAMED(name, input, found) {name, V(input), 0, V(found)}
#define BAD(name, input)          {name, V(input), MALFORMED, V("")}
#define NEST(input)               "*1\r\n" input

static const struct row rows[] = {
    GOOD("+OK\r\n", "+OK"),
    GOOD("+\r\n", "+"),
    GOOD("+a b $5 *\r\n", "+a b $5 *"),
    GOOD("-ERR unknown command\r\n", "-ERR unknown command"),
    GOOD("-\r\n", "-"),
    GOOD("-LOADING Redis is loading\r\n", "-LOADING Redis is loading"),
    GOOD(":0\r\n", ":0"),
    GOOD(":42\r\n", ":42"),
    GOOD(":-42\r\n", ":-42"),
    NAMED("integer with a plus", ":+42\r\n", ":42"),
    NAMED("integer minus zero", ":-0\r\n", ":0"),
    NAMED("integer with zeros", ":0042\r\n", ":42"),
    NAMED("integer INT64_MAX", ":9223372036854775807\r\n",
          ":9223372036854775807"),
    NAMED("integer INT64_MIN", ":-9223372036854775808\r\n",
          ":-9223372036854775808"),
    GOOD("$5\r\nhello\r\n", "\"hello\""),
    NAMED("string, empty", "$0\r\n\r\n", "\"\""),
    NAMED("string of line ends", "$4\r\n\r\n\r\n\r\n", "\"\r\n\r\n\""),
    NAMED("string with NUL", "$3\r\na\0b\r\n", "\"a\0b\""),
    NAMED("string not of UTF-8", "$2\r\n\xff\xfe\r\n", "\"\xff\xfe\""),
    NAMED("string like a reply", "$5\r\n+OK\r\n\r\n", "\"+OK\r\n\""),
    NAMED("string of ten bytes", "$10\r\n0123456789\r\n", "\"0123456789\""),
    NAMED("null string", "$-1\r\n", "null"),
    NAMED("null array", "*-1\r\n", "null"),
    NAMED("array, empty", "*0\r\n", "[]"),
    GOOD("*1\r\n:1\r\n", "[:1]"),
    GOOD("*3\r\n$3\r\none\r\n$3\r\ntwo\r\n$5\r\nthree\r\n",
         "[\"one\" \"two\" \"three\"]"),
    GOOD("*2\r\n:1\r\n$1\r\na\r\n", "[:1 \"a\"]"),
    GOOD("*6\r\n+OK\r\n-ERR\r\n:-7\r\n$1\r\na\r\n$-1\r\n*-1\r\n",
         "[+OK -ERR :-7 \"a\" null null]"),
    GOOD("*3\r\n*0\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n+x\r\n",
         "[[] [:1 [\"\"]] +x]"),
    NAMED("arrays eight deep",
          NEST(NEST(NEST(NEST(NEST(NEST(NEST(NEST(":1\r\n")))))))),
          "[[[[[[[[:1]]]]]]]]"),

    BAD("empty line", "\r\n"),
    BAD("no type", "OK\r\n"),
    BAD("an inline command", "PING\r\n"),
    BAD("an HTTP response", "HTTP/1.1 400 Bad Request\r\n\r\n"),
    BAD("RESP3: null", "_\r\n"),
    BAD("RESP3: boolean", "#t\r\n"),
    BAD("RESP3: double", ",1.5\r\n"),
    BAD("RESP3: map", "%1\r\n+a\r\n:1\r\n"),
    BAD("NUL", "\0"),
    BAD("not ASCII", "\xff"),
    BAD("status before LF", "+OK\n"),
    BAD("status with LF", "+a\nb\r\n"),
    BAD("status with CR", "+a\rb\r\n"),
    BAD("status before CR CR LF", "+a\r\r\n"),
    BAD("only LF", "+\n"),
    BAD("integer, empty", ":\r\n"),
    BAD("integer, only a sign", ":-\r\n"),
    BAD("integer, only a plus", ":+\r\n"),
    BAD("integer, two signs", ":--1\r\n"),
    BAD("integer, both signs", ":+-1\r\n"),
    BAD("integer of letters", ":abc\r\n"),
    BAD("integer, a letter after", ":1a\r\n"),
    BAD("integer, a blank before", ": 1\r\n"),
    BAD("integer, a blank after", ":1 \r\n"),
    BAD("integer with a fraction", ":1.5\r\n"),
    BAD("integer with NUL", ":1\0\r\n"),
    BAD("integer before LF", ":1\n"),
    BAD("integer INT64_MAX + 1", ":9223372036854775808\r\n"),
    BAD("integer INT64_MIN - 1", ":-9223372036854775809\r\n"),
    BAD("integer UINT64_MAX + 2", ":18446744073709551617\r\n"),
    BAD("string, length -2", "$-2\r\n"),
    BAD("string, no length", "$\r\n\r\n"),
    BAD("string, letters as length", "$five\r\nhello\r\n"),
    BAD("string, length INT64_MAX", "$9223372036854775807\r\n"),
    BAD("string, length INT64_MIN", "$-9223372036854775808\r\n"),
    BAD("string too long", "$4\r\nhello\r\n"),
    BAD("string too short", "$6\r\nhello\r\n+O"),
    BAD("string before LF", "$5\r\nhello\n\n"),
    BAD("string before CR", "$5\r\nhello\r+"),
    BAD("array, length -2", "*-2\r\n"),
    BAD("array, no length", "*\r\n"),
    BAD("array, length INT64_MAX", "*9223372036854775807\r\n"),
    BAD("array, length 10^9", "*1000000000\r\n"),
    BAD("array, bad element", "*2\r\n:1\r\nx\r\n"),
    BAD("array, bad nested element", "*1\r\n*1\r\n:x\r\n"),
    BAD("array, empty line for an element", "*1\r\n\r\n"),
    BAD("integer of 31 digits", ":0000000000000000000000000000001\r\n"),
};

static void reply(void **state) {
    const struct row *row = *state;
    feed(parse, row, row->input,
         row->result == 0 ? (ssize_t)row->input.length : row->result);
}

/* ---- In pieces ---- */

static void append_string(struct buffer *input, size_t length) {
    buffer_append(input, VIEW("$"));
    buffer_append_number(input, (int64_t)length);
    buffer_append(input, VIEW("\r\n"));
    append_times(input, VIEW("x"), length);
    buffer_append(input, VIEW("\r\n"));
}

/* Reads in pieces of `size` bytes: the scan must store the whole state. */
static ssize_t read_in_pieces(struct view input, size_t size) {
    struct resp_scan scan = {0};
    struct resp_reply reply_read;
    ssize_t result = 0;

    for (size_t end = 0; result == 0 && end < input.length;) {
        end = end + size < input.length ? end + size : input.length;
        result = read_reply(&scan, view_slice(input, 0, end), &reply_read);
    }
    return result;
}

/* Reading in pieces finds the same end, and rejects the same bytes. */
static ssize_t pieces(struct view input, size_t seen, const void *size) {
    struct resp_reply reply_read;
    ssize_t result = read_in_pieces(input, *(const size_t *)size);
    (void)seen;

    assert_int_equal(result, read_whole(input, &reply_read));
    return result;
}

static void in_pieces(void **state) {
    static const size_t sizes[] = {1, 2, 3, 7, 1000};
    const struct row *row = *state;

    for (size_t i = 0; i < ROWS(sizes); i++)
        feed(pieces, &sizes[i], row->input,
             row->result == MALFORMED ? MALFORMED : (ssize_t)row->input.length);
}

TEST(numbers_without_end_are_rejected) {
    struct buffer input = {0};

    buffer_append(&input, VIEW("$"));
    append_times(&input, VIEW("0"), 100);
    assert_int_equal(read_in_pieces(buffer_view(&input), 1), MALFORMED);
    buffer_free(&input);
}

/* Reads the input in packets of 4096 bytes.  The input has a reply that is too
   large, and then :7.  The reader stores at most the limit and a packet. */
static void expect_large_and_seven(struct buffer *all) {
    struct buffer input = {0};
    struct resp_scan state = {0};
    struct resp_reply got[3];
    size_t replies = 0, used;

    assert_false(all->failed);
    for (size_t at = 0; at < all->length; at += 4096) {
        size_t rest = all->length - at;
        buffer_append(&input, view_slice(buffer_view(all), at,
                                         rest < 4096 ? rest : 4096));
        int result = 1;
        while (result > 0) {
            result =
                resp_read(&state, buffer_view(&input), &used, &got[replies]);
            assert_true(result >= 0);
            replies += (size_t)result;
            assert_true(replies < ROWS(got));
            buffer_consume(&input, used);
        }
        assert_true(input.length <= REDIS_REPLY_LIMIT + 4096);
    }
    assert_int_equal(replies, 2);
    assert_int_equal(got[0].type, RESP_ERROR);
    assert_int_equal(got[1].integer, 7);
    assert_int_equal(input.length, 0);
    buffer_free(&input);
    buffer_free(all);
}

TEST(read_after_large_replies) {
    static const struct view after = V("$2\r\nab\r\n:7\r\n");
    struct buffer all = {0};

    append_string(&all, 3 * REDIS_REPLY_LIMIT);
    buffer_append(&all, VIEW(":7\r\n"));
    expect_large_and_seven(&all);
    append_times(&all, VIEW("*1\r\n"), 600000); /* nested */
    buffer_append(&all, after);
    expect_large_and_seven(&all);
    buffer_append(&all, VIEW("*300001\r\n")); /* many */
    append_times(&all, VIEW("$2\r\nab\r\n"), 300000);
    buffer_append(&all, after);
    expect_large_and_seven(&all);
    append_times(&all, VIEW("+"), 2 * REDIS_REPLY_LIMIT); /* long */
    buffer_append(&all, VIEW("\r\n:7\r\n"));
    expect_large_and_seven(&all);
}

/* ---- Commands ---- */

TEST(commands) {
    static const struct view words[] = {V("RPUSH"), V("guestbook_remarks"),
                                        V("a\r\n\0b"), V("")};
    struct buffer command = {0};

    resp_append_command(&command, words, ROWS(words));
    assert_view_equal(buffer_view(&command),
                      VIEW("*4\r\n$5\r\nRPUSH\r\n$17\r\nguestbook_remarks\r\n"
                           "$5\r\na\r\n\0b\r\n$0\r\n\r\n"));
    resp_append_command(&command, words, 1); /* after the existing command */
    struct view all = buffer_view(&command);
    assert_view_equal(view_skip(all, all.length - 15),
                      VIEW("*1\r\n$5\r\nRPUSH\r\n"));
    buffer_free(&command);
}

/* A command with any text becomes an array of the same words. */
TEST(commands_come_back_as_arrays) {
    char bytes[256];
    struct buffer command = {0};
    struct resp_reply reply_read;
    struct resp_reply item;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t length = 0; length <= sizeof bytes; length++) {
        struct view words[] = {{bytes, length},
                               {bytes + length, sizeof bytes - length}};
        buffer_clear(&command);
        resp_append_command(&command, words, 2);
        struct view input = guarded(buffer_view(&command), GUARD_AFTER);
        assert_int_equal(read_whole(input, &reply_read), input.length);
        assert_int_equal(reply_read.type, RESP_ARRAY);
        for (size_t i = 0; i < 2; i++) {
            assert_true(resp_next(&reply_read.items, &item));
            assert_int_equal(item.type, RESP_STRING);
            assert_view_equal(item.text, words[i]);
        }
        assert_false(resp_next(&reply_read.items, &item));
    }
    buffer_free(&command);
}

/* ---- Limits ---- */

/* Parses prefixes of the input: none may give a wrong result.  Of a long input
   only some prefixes are parsed, because all would take too long. */
static void expect_at_every_length(struct buffer *input, ssize_t expected) {
    struct resp_reply reply_read;

    assert_false(input->failed);
    struct view all = guarded(buffer_view(input), GUARD_AFTER);
    assert_int_equal(read_whole(all, &reply_read), expected);
    for (size_t length = 0; length < all.length;
         length += length + 200 < all.length && length > 200 ? 49999 : 1) {
        ssize_t got = read_whole(view_slice(all, 0, length), &reply_read);
        if (got != 0)
            assert_int_equal(got, expected);
        if (got < 0)
            break;
    }
    buffer_free(input);
}

TEST(replies_at_the_limit) {
    size_t around = sizeof "*1\r\n$1000000\r\n\r\n" - 1;
    struct buffer input = {0};

    for (size_t more = 0; more < 2; more++) {
        buffer_append(&input, VIEW("*1\r\n"));
        append_string(&input, REDIS_REPLY_LIMIT - around + more);
        assert_int_equal(input.length, REDIS_REPLY_LIMIT + more);
        expect_at_every_length(&input, more ? TOO_LARGE : REDIS_REPLY_LIMIT);
    }
}

TEST(strings_at_the_limit) {
    size_t around = sizeof "$1000\r\n\r\n" - 1;
    struct buffer input = {0};

    for (size_t more = 0; more < 2; more++) {
        append_string(&input, REDIS_STRING_LIMIT - around + more);
        assert_int_equal(input.length, REDIS_STRING_LIMIT + more);
        expect_at_every_length(&input, more ? TOO_LARGE : REDIS_STRING_LIMIT);
    }
}

TEST(lines_without_end) {
    struct buffer input = {0};

    buffer_append(&input, VIEW("+"));
    append_times(&input, VIEW("x"), REDIS_REPLY_LIMIT - 1);
    expect_at_every_length(&input, 0);
    buffer_append(&input, VIEW("+"));
    append_times(&input, VIEW("x"), REDIS_REPLY_LIMIT);
    expect_at_every_length(&input, TOO_LARGE);
}

/* The parser notices a huge length at the end of its line, before the data.  A
   length that Redis never sends is malformed, and its data is not skipped. */
TEST(huge_lengths_are_found_at_once) {
    struct buffer input = {0};
    struct resp_reply reply_read;

    for (int array = 0; array < 2; array++) {
        buffer_clear(&input);
        buffer_append(&input, array ? VIEW("*") : VIEW("$"));
        buffer_append_number(&input, REDIS_REPLY_LIMIT / (array ? 3 : 1) + 1);
        buffer_append(&input, VIEW("\r\n"));
        assert_int_equal(read_whole(buffer_view(&input), &reply_read),
                         TOO_LARGE);
        buffer_clear(&input);
        buffer_append(&input, array ? VIEW("*") : VIEW("$"));
        buffer_append_number(&input, REDIS_SKIP_LIMIT / (array ? 3 : 1) + 1);
        buffer_append(&input, VIEW("\r\n"));
        assert_int_equal(read_whole(buffer_view(&input), &reply_read),
                         MALFORMED);
        assert_int_equal(read_in_pieces(buffer_view(&input), 1), MALFORMED);
    }
    buffer_free(&input);
}

/* Nested arrays need no recursion, so they cannot overflow the stack. */
TEST(towers_do_not_reach_the_stack) {
    struct buffer input = {0};
    struct resp_reply reply_read;

    append_times(&input, VIEW("*1\r\n"), 200000);
    assert_int_equal(read_whole(buffer_view(&input), &reply_read), 0);
    buffer_append(&input, VIEW(":1\r\n"));
    assert_int_equal(read_whole(buffer_view(&input), &reply_read),
                     input.length);
    assert_int_equal(reply_read.count, 1);
    assert_false(reply_read.all_strings);
    buffer_free(&input);
}

TEST_TABLE(reply, rows)
TEST_TABLE(in_pieces, rows)
