/* SPDX-License-Identifier: MIT */
/* Chunked bodies: lib/proto/http_chunks.c; RFC 9112, section 7.1. */
#include "config.h"
#include "harness.h"
#include "proto/http.h"

#include <string.h>

struct row {
    const char *name;
    struct view input;
    int status; /* 0: the whole input is a valid chunked body */
    struct view body;
};
#define GOOD(name, input, body) {name, V(input), 0, V(body)}
#define BAD(name, input)        {name, V(input), 400, V("")}
#define LAST                    "0\r\n\r\n"

static const struct row rows[] = {
    GOOD("no chunk but the last", LAST, ""),
    GOOD("last chunk of many zeros", "0000\r\n\r\n", ""),
    GOOD("one chunk", "5\r\nhello\r\n" LAST, "hello"),
    GOOD("three chunks", "1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n" LAST, "abcdef"),
    GOOD("size in lower case", "a\r\n0123456789\r\n" LAST, "0123456789"),
    GOOD("size in upper case", "A\r\n0123456789\r\n" LAST, "0123456789"),
    GOOD("size of two digits", "10\r\n0123456789abcdef\r\n" LAST,
         "0123456789abcdef"),
    GOOD("size with zeros in front", "005\r\nhello\r\n" LAST, "hello"),
    GOOD("size of forty digits",
         "0000000000000000000000000000000000000005\r\nhello\r\n" LAST, "hello"),
    GOOD("data with line ends", "6\r\n\r\n\r\n\r\n\r\n" LAST, "\r\n\r\n\r\n"),
    GOOD("data like a last chunk", "5\r\n0\r\n\r\n\r\n" LAST, "0\r\n\r\n"),
    GOOD("data of any bytes", "5\r\n\0\xff\n\r;\r\n" LAST, "\0\xff\n\r;"),
    /* Section 7.1.1: extensions MUST be ignored. */
    GOOD("extension", "5;a=b\r\nhello\r\n" LAST, "hello"),
    GOOD("extension without value", "5;a\r\nhello\r\n" LAST, "hello"),
    GOOD("extensions", "5;a=b;c;d=\"e f\"\r\nhello\r\n0;g\r\n\r\n", "hello"),
    GOOD("extension with blanks", "5 \t; \ta = b\r\nhello\r\n" LAST, "hello"),
    GOOD("extension after a blank", "5 ;a\r\nhello\r\n" LAST, "hello"),
    GOOD("extension after HTAB", "5\t;a\r\nhello\r\n" LAST, "hello"),
    GOOD("extension not in ASCII", "5;a=\"\xc3\xa9\"\r\nhello\r\n" LAST,
         "hello"),
    /* Section 7.1.2: trailers are dropped. */
    GOOD("trailer", "1\r\na\r\n0\r\nX: b\r\n\r\n", "a"),
    GOOD("trailers", "1\r\na\r\n0\r\nX: b\r\nContent-Length: 9\r\n\r\n", "a"),
    GOOD("trailer without value", "0\r\nX:\r\n\r\n", ""),
    GOOD("trailer with HTAB", "0\r\nX:\tb\r\n\r\n", ""),
    GOOD("trailer like a chunk", "0\r\n5: hello\r\n\r\n", ""),

    BAD("size missing", "\r\nhello\r\n" LAST),
    BAD("size missing, extension", ";a\r\nhello\r\n" LAST),
    BAD("size missing after a chunk", "5\r\nhello\r\n\r\n\r\n"),
    BAD("size negative", "-5\r\nhello\r\n" LAST),
    BAD("size with a plus", "+5\r\nhello\r\n" LAST),
    BAD("size with 0x", "0x5\r\nhello\r\n" LAST),
    BAD("size with another letter", "5g\r\nhello\r\n" LAST),
    BAD("size after a blank", " 5\r\nhello\r\n" LAST),
    BAD("size after HTAB", "\t5\r\nhello\r\n" LAST),
    BAD("size, a blank, no extension", "5 hello\r\nhello\r\n" LAST),
    BAD("size, two blanks, no extension", "5  hello\r\nhello\r\n" LAST),
    BAD("size, a blank, a line end", "5 \r\nhello\r\n" LAST),
    BAD("size of two words", "5 5\r\nhello\r\n" LAST),
    BAD("size with an underscore", "0_5\r\nhello\r\n" LAST),
    BAD("size before NUL", "5\0\r\nhello\r\n" LAST),
    BAD("size before LF", "5\nhello\r\n" LAST),
    BAD("size before CR", "5\rhello\r\n" LAST),
    BAD("size before CR CR LF", "5\r\r\nhello\r\n" LAST),
    BAD("extension before LF", "5;a\nhello\r\n" LAST),
    BAD("extension before CR", "5;a\rhello\r\n" LAST),
    BAD("extension with LF in quotes", "5;a=\"\n\"\r\nhello\r\n" LAST),
    BAD("extension with NUL", "5;a\0\r\nhello\r\n" LAST),
    BAD("extension with DEL", "5;a\x7f\r\nhello\r\n" LAST),
    BAD("data too long", "4\r\nhello\r\n" LAST),
    BAD("data too short", "6\r\nhello\r\n" LAST),
    BAD("data before LF", "5\r\nhello\n" LAST),
    BAD("data before CR", "5\r\nhello\r5\r\n"),
    BAD("data before the next size", "5\r\nhello" LAST),
    BAD("last chunk before LF", "0\n\r\n"),
    BAD("last chunk, LF", "0\r\n\n"),
    BAD("last chunk, CR CR LF", "0\r\n\r\r\n"),
    BAD("trailer before LF", "0\r\nX: b\n\r\n"),
    BAD("trailer before CR", "0\r\nX: b\rY: c\r\n\r\n"),
    BAD("trailer with NUL", "0\r\nX: b\0\r\n\r\n"),
    BAD("trailers before LF", "0\r\nX: b\r\n\n"),
};

/* Decodes the input in pieces of `size` bytes, the first of `first` bytes.
   Stores the body in the buffer.  Returns the length of the encoded body, 0 if
   the input is incomplete, or an error. */
static ssize_t decode_pieces(struct view input, size_t first, size_t size,
                             struct buffer *body) {
    struct http_chunks chunks = {0};
    size_t used = 0, end = 0;

    buffer_clear(body);
    for (size_t next = first; used < input.length; next = size) {
        size_t count = next < input.length - used ? next : input.length - used;
        buffer_append(body, view_slice(input, used, count));
        used += count;
        int result = http_decode_chunks(&chunks, body, &end);
        assert_true(end <= body->length);
        if (result != 0) {
            used -= body->length - end;
            body->length = end;
            return result < 0 ? result : (ssize_t)used;
        }
    }
    body->length = end;
    return 0;
}

/* A parser for feed(), which decodes the guarded input from its beginning at
   each call. */
static ssize_t decode_whole(struct view input, size_t seen,
                            const void *vector) {
    const struct row *row = vector;
    struct http_chunks chunks = {0};
    struct buffer buffer = {.data = (char *)input.data,
                            .length = input.length,
                            .capacity = input.length};
    size_t end = 0;
    (void)seen;

    int result = http_decode_chunks(&chunks, &buffer, &end);
    assert_true(end <= buffer.length && buffer.length <= input.length);
    struct view body = view_slice(input, 0, end);
    assert_true(row->status != 0 || view_starts_with(row->body, body));
    if (result <= 0)
        return result;
    assert_view_equal(body, row->body);
    return (ssize_t)(input.length - (buffer.length - end));
}

static void decode(void **state) {
    const struct row *row = *state;
    ssize_t expected = row->status ? -row->status : (ssize_t)row->input.length;
    struct buffer body = {0};

    feed(decode_whole, row, row->input, expected);
    for (size_t first = 1; first <= row->input.length; first++)
        for (size_t size = 1; size <= row->input.length; size++) {
            ssize_t got = decode_pieces(row->input, first, size, &body);
            assert_int_equal(got, expected);
            if (got > 0)
                assert_view_equal(buffer_view(&body), row->body);
        }
    buffer_free(&body);
}

TEST(empty_pieces_change_nothing) {
    struct http_chunks chunks = {0};
    struct buffer body = {0};
    struct view input = VIEW("5\r\nhello\r\n0\r\nX: b\r\n\r\n");
    size_t end = 0;

    for (size_t i = 0; i < input.length; i++) {
        assert_int_equal(http_decode_chunks(&chunks, &body, &end), 0);
        buffer_append(&body, view_slice(input, i, 1));
        assert_int_equal(http_decode_chunks(&chunks, &body, &end),
                         i + 1 == input.length);
    }
    assert_view_equal(buffer_view(&body), VIEW("hello"));
    buffer_free(&body);
}

/* The next request may follow the body, in the same buffer. */
TEST(what_follows_is_kept) {
    struct http_chunks chunks = {0};
    struct buffer input = {0};
    size_t end = 6;

    buffer_append(&input, VIEW("before3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                               "5\r\nGET / HTTP/1.1\r\n"));
    assert_int_equal(http_decode_chunks(&chunks, &input, &end), 1);
    assert_int_equal(end, 11);
    assert_view_equal(buffer_view(&input),
                      VIEW("beforeabcde5\r\nGET / HTTP/1.1\r\n"));
    assert_int_equal(chunks.body, 5);
    assert_int_equal(chunks.overhead, 15);
    buffer_free(&input);
}

/* ---- Limits ---- */

static void append_chunk(struct buffer *input, size_t length) {
    char size[32];

    buffer_append(input,
                  (struct view){size, (size_t)snprintf(size, sizeof size,
                                                       "%zx\r\n", length)});
    append_times(input, VIEW("x"), length);
    buffer_append(input, VIEW("\r\n"));
}

/* Decodes the input whole and in pieces of several sizes; frees the input. */
static void decode_buffer(struct buffer *input, ssize_t expected, size_t body) {
    struct buffer decoded = {0};
    size_t sizes[] = {SIZE_MAX, 1, 2, 1000, 4096};

    assert_false(input->failed);
    for (size_t i = 0; i < ROWS(sizes); i++) {
        assert_int_equal(
            decode_pieces(buffer_view(input), sizes[i], sizes[i], &decoded),
            expected);
        assert_true(decoded.length <= BODY_LIMIT);
        if (expected > 0)
            assert_int_equal(decoded.length, body);
    }
    buffer_free(&decoded);
    buffer_free(input);
}

static void body_of(size_t first, size_t second, bool good) {
    struct buffer input = {0};

    append_chunk(&input, first);
    if (second > 0)
        append_chunk(&input, second);
    buffer_append(&input, VIEW(LAST));
    decode_buffer(&input, good ? (ssize_t)input.length : -413, first + second);
}

TEST(body_at_the_limit) {
    body_of(BODY_LIMIT, 0, true);
    body_of(BODY_LIMIT - 1, 1, true);
    body_of(1, BODY_LIMIT - 1, true);
}

TEST(body_one_beyond) {
    body_of(BODY_LIMIT + 1, 0, false);
    body_of(BODY_LIMIT, 1, false);
    body_of(1, BODY_LIMIT, false);
}

/* A chunk that is too large is rejected at its size, before its data comes. */
TEST(sizes_beyond_are_refused_at_once) {
    static const struct view sizes[] = {
        V("10001\r\n"),        V("ffffffff\r\n"),      V("fffffffff"),
        V("FFFFFFFFFFFFFFFF"), V("10000000000000005"), V("1\r\na\r\n10000\r\n"),
    };
    struct buffer body = {0};

    for (size_t i = 0; i < ROWS(sizes); i++) {
        assert_int_equal(decode_pieces(sizes[i], 100, 100, &body), -413);
        assert_int_equal(decode_pieces(sizes[i], 1, 1, &body), -413);
    }
    buffer_free(&body);
}

static void overhead_of(struct view before, struct view after, size_t overhead,
                        bool good) {
    struct buffer input = {0};

    buffer_append(&input, before);
    append_times(&input, VIEW("x"), overhead - before.length - after.length);
    buffer_append(&input, after);
    decode_buffer(&input, good ? (ssize_t)input.length : -413, 0);
}

TEST(extension_at_the_limit) {
    overhead_of(VIEW("0;"), VIEW("\r\n\r\n"), CHUNK_OVERHEAD_LIMIT, true);
    overhead_of(VIEW("0;"), VIEW("\r\n\r\n"), CHUNK_OVERHEAD_LIMIT + 1, false);
}

TEST(trailer_at_the_limit) {
    overhead_of(VIEW("0\r\nX:"), VIEW("\r\n\r\n"), CHUNK_OVERHEAD_LIMIT, true);
    overhead_of(VIEW("0\r\nX:"), VIEW("\r\n\r\n"), CHUNK_OVERHEAD_LIMIT + 1,
                false);
}

/* A chunk of one byte has five bytes of overhead, and so has the last chunk. */
TEST(many_small_chunks) {
    size_t most = (CHUNK_OVERHEAD_LIMIT - 5) / 5;

    for (size_t beyond = 0; beyond < 3; beyond++) {
        struct buffer input = {0};
        size_t overhead = 5 * (most + beyond) + 5;
        append_times(&input, VIEW("1\r\nx\r\n"), most + beyond);
        buffer_append(&input, VIEW(LAST));
        decode_buffer(&input,
                      overhead <= CHUNK_OVERHEAD_LIMIT ? (ssize_t)input.length
                                                       : -413,
                      most + beyond);
    }
}

TEST_TABLE(decode, rows)
