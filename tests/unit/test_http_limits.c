/* SPDX-License-Identifier: MIT */
/* Heads at the limits of config.h, and one beyond: lib/proto/http.c. */
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

/* Feeds the buffer and ends it. */
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

/* ---- The request line: RFC 9112, section 3, wants 8,000 bytes ---- */

static void line_of(struct view before, size_t length, bool good) {
    struct buffer head = {0};

    buffer_append(&head, before);
    append_request_line(&head, length);
    buffer_append(&head, VIEW("\r\nHost: a\r\n\r\n"));
    feed_buffer(&head, good ? (ssize_t)head.length : -414);
}

static void line_one_below(void **state) {
    (void)state;
    line_of(VIEW(""), REQUEST_LINE_LIMIT - 1, true);
}

static void line_at_the_limit(void **state) {
    (void)state;
    line_of(VIEW(""), REQUEST_LINE_LIMIT, true);
}

static void line_one_beyond(void **state) {
    (void)state;
    line_of(VIEW(""), REQUEST_LINE_LIMIT + 1, false);
}

static void line_far_beyond(void **state) {
    (void)state;
    line_of(VIEW(""), HEAD_LIMIT + 1000, false);
}

static void blank_lines_do_not_count(void **state) {
    (void)state;
    line_of(VIEW("\r\n\r\n"), REQUEST_LINE_LIMIT - 1, true);
    line_of(VIEW("\r\n\r\n"), REQUEST_LINE_LIMIT + 1, false);
}

static void line_without_end(void **state) {
    struct buffer head = {0};
    (void)state;

    append_times(&head, VIEW("a"), REQUEST_LINE_LIMIT);
    feed_buffer(&head, 0);
    append_times(&head, VIEW("a"), REQUEST_LINE_LIMIT + 2);
    feed_buffer(&head, -414);
}

/* ---- The whole head ---- */

static void head_of(struct view before, size_t length, bool good) {
    struct buffer head = {0};

    buffer_append(&head, before);
    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nHost: a\r\nX:"));
    append_times(&head, VIEW("b"), length - head.length - 4);
    buffer_append(&head, VIEW("\r\n\r\n"));
    assert_int_equal(head.length, length);
    feed_buffer(&head, good ? (ssize_t)length : -431);
}

static void head_at_the_limit(void **state) {
    (void)state;
    head_of(VIEW(""), HEAD_LIMIT, true);
}

static void head_one_beyond(void **state) {
    (void)state;
    head_of(VIEW(""), HEAD_LIMIT + 1, false);
}

static void head_far_beyond(void **state) {
    (void)state;
    head_of(VIEW(""), 4 * HEAD_LIMIT, false);
}

static void head_with_blank_lines(void **state) {
    (void)state;
    head_of(VIEW("\r\n\r\n"), HEAD_LIMIT, true);
    head_of(VIEW("\r\n\r\n"), HEAD_LIMIT + 1, false);
}

/* A head that cannot be whole within the limit is rejected before it ends. */
static void head_without_end(void **state) {
    struct buffer head = {0};
    (void)state;

    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nX:"));
    append_times(&head, VIEW("b"), HEAD_LIMIT - 1 - head.length);
    feed_buffer(&head, 0);
    buffer_append(&head, VIEW("GET / HTTP/1.1\r\nX:"));
    append_times(&head, VIEW("b"), HEAD_LIMIT + 1 - head.length);
    feed_buffer(&head, -431);
}

static void blank_lines_without_end(void **state) {
    struct buffer head = {0};
    (void)state;

    append_times(&head, VIEW("\r\n"), HEAD_LIMIT / 2 - 1);
    feed_buffer(&head, 0);
    append_times(&head, VIEW("\r\n"), HEAD_LIMIT / 2 + 1);
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

static void fields_at_the_limit(void **state) {
    (void)state;
    head_with_fields(HEAD_FIELDS_LIMIT, true);
}

static void fields_one_beyond(void **state) {
    (void)state;
    head_with_fields(HEAD_FIELDS_LIMIT + 1, false);
}

/* ---- The view that comes out ---- */

static void longest_path_comes_out_whole(void **state) {
    struct buffer head = {0};
    (void)state;

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

int main(void) {
    suite_add("request line one below the limit", line_one_below, NULL);
    suite_add("request line of the limit", line_at_the_limit, NULL);
    suite_add("request line one beyond", line_one_beyond, NULL);
    suite_add("request line far beyond", line_far_beyond, NULL);
    suite_add("request line, blank lines before", blank_lines_do_not_count,
              NULL);
    suite_add("request line without end", line_without_end, NULL);
    suite_add("head of the limit", head_at_the_limit, NULL);
    suite_add("head one beyond", head_one_beyond, NULL);
    suite_add("head far beyond", head_far_beyond, NULL);
    suite_add("head, blank lines before", head_with_blank_lines, NULL);
    suite_add("head without end", head_without_end, NULL);
    suite_add("blank lines without end", blank_lines_without_end, NULL);
    suite_add("fields at the limit", fields_at_the_limit, NULL);
    suite_add("fields one beyond", fields_one_beyond, NULL);
    suite_add("longest path", longest_path_comes_out_whole, NULL);
    return suite_run("http_limits");
}
