/* SPDX-License-Identifier: MIT */
/* Heads at and beyond the limits of config.h: lib/proto/http.c. */
#include "config.h"
#include "harness.h"
#include "proto/http.h"

static ssize_t parse(struct view input, size_t seen, const void *row) {
    struct http_request request;
    ssize_t result = http_parse_head(input, seen, &request);
    const struct view *path = row;

    assert_int_equal(request.complaint != NULL, result < 0);
    if (result > 0 && path != NULL)
        assert_view_equal(request.path, *path);
    return result;
}

/* Feeds the buffer to the parser, and frees it. */
static void feed_buffer(struct buffer *head, ssize_t expected) {
    assert_false(head->failed);
    feed(parse, NULL, buffer_view(head), expected);
    buffer_free(head);
}

static void append_request_line(struct buffer *head, size_t length) {
    size_t around = sizeof "GET / HTTP/1.1" - 1;

    buffer_append(head, VIEW("GET /"));
    append_times(head, VIEW("a"), length - around);
    buffer_append(head, VIEW(" HTTP/1.1"));
}

/* ---- The request line: RFC 9112, section 3, recommends 8,000 bytes ---- */

struct limited {
    const char *name;
    size_t length;
    bool good;
};

static const struct limited lines[] = {
    {"line one below", REQUEST_LINE_LIMIT - 1, true},
    {"line as long as the limit", REQUEST_LINE_LIMIT, true},
    {"line one beyond", REQUEST_LINE_LIMIT + 1, false},
    {"line far beyond", HEAD_LIMIT + 1000, false},
};

static void line(void **state) {
    const struct limited *row = *state;
    struct buffer head = {0};

    append_request_line(&head, row->length);
    buffer_append(&head, VIEW("\r\nHost: a\r\n\r\n"));
    feed_buffer(&head, row->good ? (ssize_t)head.length : -414);
}
TEST_TABLE(line, lines)

TEST(line_without_end) {
    struct buffer head = {0};

    append_times(&head, VIEW("a"), REQUEST_LINE_LIMIT);
    feed_buffer(&head, 0);
    append_times(&head, VIEW("a"), REQUEST_LINE_LIMIT + 2);
    feed_buffer(&head, -414);
}

/* ---- The whole head ---- */

static const struct limited heads[] = {
    {"head as long as the limit", HEAD_LIMIT, true},
    {"head one beyond", HEAD_LIMIT + 1, false},
    {"head far beyond", 4 * HEAD_LIMIT, false},
};

static void whole_head(void **state) {
    const struct limited *row = *state;
    struct buffer head = {0};

    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nHost: a\r\nX:"));
    append_times(&head, VIEW("b"), row->length - head.length - 4);
    buffer_append(&head, VIEW("\r\n\r\n"));
    assert_int_equal(head.length, row->length);
    feed_buffer(&head, row->good ? (ssize_t)head.length : -431);
}
TEST_TABLE(whole_head, heads)

/* A head is rejected as soon as it exceeds the limit, before its end. */
TEST(head_without_end) {
    struct buffer head = {0};

    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nX:"));
    append_times(&head, VIEW("b"), HEAD_LIMIT - 1 - head.length);
    feed_buffer(&head, 0);
    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nX:"));
    append_times(&head, VIEW("b"), HEAD_LIMIT + 1 - head.length);
    feed_buffer(&head, -431);
}

/* ---- The number of fields ---- */

static void head_with_fields(size_t fields, bool good) {
    struct buffer head = {0};

    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nHost: a\r\n"));
    append_times(&head, VIEW("X: b\r\n"), fields - 1);
    buffer_append(&head, VIEW("\r\n"));
    feed_buffer(&head, good ? (ssize_t)head.length : -431);
}

TEST(fields_at_the_limit) {
    head_with_fields(HEAD_FIELDS_LIMIT, true);
}

TEST(fields_one_beyond) {
    head_with_fields(HEAD_FIELDS_LIMIT + 1, false);
}

/* ---- The resulting view ---- */

TEST(longest_path_comes_out_whole) {
    struct buffer head = {0};

    append_request_line(&head, REQUEST_LINE_LIMIT - 1);
    buffer_append(&head, VIEW("\r\nHost: a\r\n\r\n"));
    struct buffer path = {0};
    buffer_append(&path, VIEW("/"));
    append_times(&path, VIEW("a"),
                 REQUEST_LINE_LIMIT - 1 - (sizeof "GET / HTTP/1.1" - 1));
    struct view expected = buffer_view(&path);
    feed(parse, &expected, buffer_view(&head), (ssize_t)head.length);
    buffer_free(&path);
    buffer_free(&head);
}
