/* SPDX-License-Identifier: MIT */
/*
 * Valid requests: lib/proto/http.c.  Invalid requests are in
 * test_http_reject.c, and requests that are too long in test_http_limits.c.
 *
 * Most tests build a head, and the request that the parser must return for it.
 * Then feed() passes the head to the parser in every way.
 */
#include "harness.h"
#include "proto/http.h"

#include <string.h>

/* RFC 9112, section 2.1: the request line, the fields and a blank line. */
static void compose(struct buffer *head, struct view line, struct view fields) {
    buffer_append(head, line);
    buffer_append(head, VIEW("\r\n"));
    buffer_append(head, fields);
    buffer_append(head, VIEW("\r\n"));
}

/* Returns the parsed head of a GET / HTTP/1.1 with only the field Host: a. */
static struct http_request plain_request(void) {
    return (struct http_request){
        .method = HTTP_GET,
        .line = VIEW("GET / HTTP/1.1"),
        .path = VIEW("/"),
        .query = VIEW(""),
        .minor_version = 1,
        .keep_alive = true,
        .body = HTTP_NO_BODY,
        .host = VIEW("a"),
    };
}

/* The data of a field are NULL only if the field was not sent. */
static void assert_field_equal(struct view got, struct view expected) {
    assert_int_equal(got.data == NULL, expected.data == NULL);
    assert_view_equal(got, expected);
}

static ssize_t parse(struct view input, size_t seen, const void *row) {
    const struct http_request *expected = row;
    struct http_request got;
    ssize_t result;

    memset(&got, 0x5a, sizeof got); /* the parser must set every member */
    result = http_parse_head(input, seen, &got);
    if (result < 0)
        print_error("complaint: %s\n", got.complaint);
    assert_null(got.complaint);
    if (result <= 0)
        return result;
    assert_int_equal(got.method, expected->method);
    assert_view_equal(got.line, expected->line);
    assert_view_equal(got.path, expected->path);
    assert_view_equal(got.query, expected->query);
    assert_int_equal(got.minor_version, expected->minor_version);
    assert_int_equal(got.keep_alive, expected->keep_alive);
    assert_int_equal(got.expects_continue, expected->expects_continue);
    assert_int_equal(got.body, expected->body);
    assert_int_equal(got.content_length, expected->content_length);
    assert_field_equal(got.host, expected->host);
    assert_field_equal(got.content_type, expected->content_type);
    assert_field_equal(got.if_none_match, expected->if_none_match);
    assert_field_equal(got.if_modified_since, expected->if_modified_since);
    assert_field_equal(got.if_range, expected->if_range);
    assert_field_equal(got.range, expected->range);
    return result;
}

static void feed_head(struct view fields, const struct http_request *expected) {
    struct buffer head = {0};

    compose(&head, expected->line, fields);
    feed(parse, expected, buffer_view(&head), (ssize_t)head.length);
    buffer_free(&head);
}

/* ---- The request line: RFC 9112, section 3 ---- */

struct line_row {
    const char *name;
    struct view line;
    enum http_method method;
    struct view path, query;
};
#define PATH(path) V(path), V("")
#define ROOT       PATH("/")
static const struct line_row lines[] = {
    {"method GET", V("GET / HTTP/1.1"), HTTP_GET, ROOT},
    {"method HEAD", V("HEAD / HTTP/1.1"), HTTP_HEAD, ROOT},
    {"method POST", V("POST / HTTP/1.1"), HTTP_POST, ROOT},
    {"method PUT", V("PUT / HTTP/1.1"), HTTP_OTHER, ROOT},
    {"method DELETE", V("DELETE / HTTP/1.1"), HTTP_OTHER, ROOT},
    {"method PATCH", V("PATCH / HTTP/1.1"), HTTP_OTHER, ROOT},
    {"method OPTIONS", V("OPTIONS / HTTP/1.1"), HTTP_OPTIONS, ROOT},
    {"OPTIONS of the server", V("OPTIONS * HTTP/1.1"), HTTP_OPTIONS, PATH("*")},
    {"method TRACE", V("TRACE / HTTP/1.1"), HTTP_OTHER, ROOT},
    {"unknown method", V("BREW / HTTP/1.1"), HTTP_UNKNOWN, ROOT},
    {"methods are case-sensitive", V("get / HTTP/1.1"), HTTP_UNKNOWN, ROOT},
    {"longer than GET", V("GETS / HTTP/1.1"), HTTP_UNKNOWN, ROOT},
    {"shorter than GET", V("GE / HTTP/1.1"), HTTP_UNKNOWN, ROOT},
    {"all marks of a token", V("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1"),
     HTTP_UNKNOWN, ROOT},
    {"a path", V("GET /a/b.html HTTP/1.1"), HTTP_GET, PATH("/a/b.html")},
    {"a query", V("GET /a?b=c&d HTTP/1.1"), HTTP_GET, V("/a"), V("b=c&d")},
    {"an empty query", V("GET /a? HTTP/1.1"), HTTP_GET, PATH("/a")},
    {"two question marks", V("GET /?a?b HTTP/1.1"), HTTP_GET, V("/"), V("a?b")},
    {"a query with a path", V("GET /?/../x HTTP/1.1"), HTTP_GET, V("/"),
     V("/../x")},
    {"escapes are left alone", V("GET /%2e%2E/%00?%41 HTTP/1.1"), HTTP_GET,
     V("/%2e%2E/%00"), V("%41")},
    {"two slashes, a path", V("GET //b/c HTTP/1.1"), HTTP_GET, PATH("//b/c")},
    {"a URL in the path", V("GET /http://b/ HTTP/1.1"), HTTP_GET,
     PATH("/http://b/")},
    {"all marks of a path", V("GET /-._~!$&'()*+,;=:@ HTTP/1.1"), HTTP_GET,
     PATH("/-._~!$&'()*+,;=:@")},
    /* RFC 9112, section 3.2.2: absolute-form MUST be accepted. */
    {"absolute", V("GET http://b/c?d HTTP/1.1"), HTTP_GET, V("/c"), V("d")},
    {"absolute, no path", V("GET http://b HTTP/1.1"), HTTP_GET, ROOT},
    {"absolute, root", V("GET http://b/ HTTP/1.1"), HTTP_GET, ROOT},
    {"absolute, a port", V("GET http://b:8000/c HTTP/1.1"), HTTP_GET,
     PATH("/c")},
    {"absolute, empty port", V("GET http://b:/c HTTP/1.1"), HTTP_GET,
     PATH("/c")},
    {"absolute, IPv6", V("GET http://[::1]:80/c HTTP/1.1"), HTTP_GET,
     PATH("/c")},
    {"absolute, no path but a query", V("GET http://b?c/d HTTP/1.1"), HTTP_GET,
     V("/"), V("c/d")},
    {"absolute, mixed case", V("GET HtTp://B/c HTTP/1.1"), HTTP_GET,
     PATH("/c")},
    {"absolute, another URL in it", V("GET http://b/http://c HTTP/1.1"),
     HTTP_GET, PATH("/http://c")},
    {"absolute, POST", V("POST http://b/c HTTP/1.1"), HTTP_POST, PATH("/c")},
    {"absolute, OPTIONS", V("OPTIONS http://b/c HTTP/1.1"), HTTP_OPTIONS,
     PATH("/c")},
    /* RFC 9112, section 3.2.4: by this target a client asks a proxy for "*". */
    {"absolute OPTIONS, no path", V("OPTIONS http://b HTTP/1.1"), HTTP_OPTIONS,
     PATH("*")},
    {"absolute, OPTIONS, only a query", V("OPTIONS http://b?c HTTP/1.1"),
     HTTP_OPTIONS, V("/"), V("c")},
    /* RFC 9110, section 2.5: unknown minor versions are read as 1.1. */
    {"HTTP/1.2 is read as 1.1", V("GET / HTTP/1.2"), HTTP_GET, ROOT},
    {"HTTP/1.9 is read as 1.1", V("GET / HTTP/1.9"), HTTP_GET, ROOT},
};

static void request_line(void **state) {
    const struct line_row *row = *state;
    struct http_request expected = plain_request();

    expected.line = row->line;
    expected.method = row->method;
    expected.path = row->path;
    expected.query = row->query;
    feed_head(VIEW("Host: a\r\n"), &expected);
}

/* RFC 9112, section 2.2: servers SHOULD ignore empty lines before a request. */
TEST(empty_lines_before) {
    assert_int_equal(http_empty_lines(VIEW("")), 0);
    assert_int_equal(http_empty_lines(VIEW("\r")), 0);
    assert_int_equal(http_empty_lines(VIEW("\nG")), 0);
    assert_int_equal(http_empty_lines(VIEW("\r\n")), 2);
    assert_int_equal(http_empty_lines(VIEW("\r\n\r\n\rGET /")), 4);
}

/* ---- Fields: RFC 9112, section 5 ---- */

struct field_row {
    const char *name;
    struct view fields;
    size_t member; /* the offset of the view that should hold the value */
    struct view value;
};
#define IN(member) offsetof(struct http_request, member)
#define HOST       "Host: a\r\n"
static const struct field_row fields[] = {
    {"Host", V("Host: example.org:8000\r\n"), IN(host), V("example.org:8000")},
    {"Host, mixed case", V("hOsT: b\r\n"), IN(host), V("b")},
    {"Host, empty", V("Host:\r\n"), IN(host), V("")},
    {"Host, empty after blanks", V("Host: \t \r\n"), IN(host), V("")},
    {"Host, IPv6", V("Host: [::1]:80\r\n"), IN(host), V("[::1]:80")},
    {"Host, an empty port", V("Host: b:\r\n"), IN(host), V("b:")},
    {"Host, escapes and marks", V("Host: %41-._~!$&'()*+,;=\r\n"), IN(host),
     V("%41-._~!$&'()*+,;=")},
    {"no blank after the colon", V("Host:b\r\n"), IN(host), V("b")},
    {"blanks around a value", V("Host: \t b\t \r\n"), IN(host), V("b")},
    {"Content-Type", V(HOST "Content-Type: text/plain\r\n"), IN(content_type),
     V("text/plain")},
    {"Content-Type, mixed case", V(HOST "cONTENT-tYPE: A/b\r\n"),
     IN(content_type), V("A/b")},
    {"Content-Type, empty", V(HOST "Content-Type:\r\n"), IN(content_type),
     V("")},
    {"If-None-Match", V(HOST "If-None-Match: \"x\", W/\"y\"\r\n"),
     IN(if_none_match), V("\"x\", W/\"y\"")},
    {"If-Modified-Since",
     V(HOST "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
     IN(if_modified_since), V("Sun, 06 Nov 1994 08:49:37 GMT")},
    {"If-Range", V(HOST "If-Range: \"x\"\r\n"), IN(if_range), V("\"x\"")},
    {"Range", V(HOST "Range: bytes=0-1\r\n"), IN(range), V("bytes=0-1")},
    /* These fields are not lists: a field that occurs twice is ignored.  RFC
       9110, section 5.3. */
    {"Range twice", V(HOST "Range: bytes=0-1\r\nRange: bytes=2-3\r\n"),
     IN(range), V("")},
    {"Range twice, the first empty", V(HOST "Range:\r\nrange: bytes=2-3\r\n"),
     IN(range), V("")},
    {"If-Range twice, the same",
     V(HOST "If-Range: \"x\"\r\nIf-Range: \"x\"\r\n"), IN(if_range), V("")},
    {"Content-Type thrice",
     V(HOST "Content-Type: a/b\r\nContent-Type: a/b\r\nContent-Type: a/b\r\n"),
     IN(content_type), V("")},
    {"a value with HTAB, colon and obs-text", V(HOST "Range: a\tb: \xe9\r\n"),
     IN(range), V("a\tb: \xe9")},
    {"fields before Host", V("Range: x\r\nHost: a\r\n"), IN(range), V("x")},
    {"unknown fields", V(HOST "X: 1\r\nX: 2\r\nHosts: b\r\nHos: c\r\n"),
     IN(host), V("a")},
    {"a name of all marks", V(HOST "!#$%&'*+-.^_`|~09azAZ: b\r\n"), IN(host),
     V("a")},
};

static void field(void **state) {
    const struct field_row *row = *state;
    struct http_request expected = plain_request();

    memcpy((char *)&expected + row->member, &row->value, sizeof row->value);
    feed_head(row->fields, &expected);
}

/* ---- Persistence: RFC 9112, section 9.3 ---- */

struct persistence_row {
    const char *name;
    struct view line, fields;
    bool keep_alive;
};
#define LINE_1_0 V("GET / HTTP/1.0")
#define LINE_1_1 V("GET / HTTP/1.1")
static const struct persistence_row persistences[] = {
    {"1.1 persists", LINE_1_1, V(HOST), true},
    {"1.1, keep-alive", LINE_1_1, V(HOST "Connection: keep-alive\r\n"), true},
    {"1.1, close", LINE_1_1, V(HOST "Connection: close\r\n"), false},
    {"1.1, CLOSE", LINE_1_1, V(HOST "CONNECTION:CLOSE\r\n"), false},
    {"1.1, close in a list", LINE_1_1,
     V(HOST "Connection: Upgrade ,\tclose\t, TE\r\n"), false},
    {"1.1, close overrides keep-alive", LINE_1_1,
     V(HOST "Connection: close, keep-alive\r\n"), false},
    {"1.1, close in the second field", LINE_1_1,
     V(HOST "Connection: keep-alive\r\nConnection: close\r\n"), false},
    {"1.1, close in the first field", LINE_1_1,
     V(HOST "Connection: close\r\nConnection: keep-alive\r\n"), false},
    {"1.1, another option", LINE_1_1, V(HOST "Connection: closed\r\n"), true},
    {"1.1, an empty list", LINE_1_1, V(HOST "Connection: ,, ,\r\n"), true},
    {"1.1, nothing", LINE_1_1, V(HOST "Connection:\r\n"), true},
    {"1.1, the old Proxy-Connection", LINE_1_1,
     V(HOST "Proxy-Connection: close\r\n"), true},
    {"1.0 closes", LINE_1_0, V(HOST), false},
    {"1.0, keep-alive", LINE_1_0, V(HOST "Connection: Keep-Alive\r\n"), true},
    {"1.0, keep-alive in a list", LINE_1_0,
     V(HOST "Connection: TE,keep-alive\r\n"), true},
    {"1.0, close", LINE_1_0, V(HOST "Connection: close\r\n"), false},
    {"1.0, close overrides keep-alive", LINE_1_0,
     V(HOST "Connection: keep-alive, close\r\n"), false},
    {"1.0, a field Keep-Alive", LINE_1_0, V(HOST "Keep-Alive: timeout=5\r\n"),
     false},
};

static void persistence(void **state) {
    const struct persistence_row *row = *state;
    struct http_request expected = plain_request();

    expected.line = row->line;
    expected.minor_version = row->line.data[row->line.length - 1] - '0';
    expected.keep_alive = row->keep_alive;
    feed_head(row->fields, &expected);
}

TEST(http_1_0_needs_no_host) {
    struct http_request expected = plain_request();

    expected.line = VIEW("GET / HTTP/1.0");
    expected.minor_version = 0;
    expected.keep_alive = false;
    expected.host = (struct view){NULL, 0};
    feed_head(VIEW(""), &expected);
}

/* ---- Bodies: RFC 9112, section 6.3; Expect: RFC 9110, section 10.1.1 ---- */

struct body_row {
    const char *name;
    struct view fields;
    enum http_body body;
    uint64_t length;
    bool expects_continue, expects_in_1_0;
};
static const struct body_row bodies[] = {
    {"no body", V(HOST), HTTP_NO_BODY, 0, false, false},
    {"length 0", V(HOST "Content-Length: 0\r\n"), HTTP_NO_BODY, 0, false,
     false},
    {"length 1", V(HOST "Content-Length: 1\r\n"), HTTP_LENGTH_BODY, 1, false,
     false},
    {"length, lower case, blanks", V(HOST "content-length:\t42 \r\n"),
     HTTP_LENGTH_BODY, 42, false, false},
    {"length with zeros in front", V(HOST "Content-Length: 0042\r\n"),
     HTTP_LENGTH_BODY, 42, false, false},
    {"length INT64_MAX", V(HOST "Content-Length: 9223372036854775807\r\n"),
     HTTP_LENGTH_BODY, INT64_MAX, false, false},
    {"chunked", V(HOST "Transfer-Encoding: chunked\r\n"), HTTP_CHUNKED_BODY, 0,
     false, false},
    {"chunked, mixed case, blanks", V(HOST "TRANSFER-ENCODING: \tChunKed \r\n"),
     HTTP_CHUNKED_BODY, 0, false, false},
    {"expects 100-continue",
     V(HOST "Content-Length: 5\r\nExpect: 100-continue\r\n"), HTTP_LENGTH_BODY,
     5, true, false},
    {"expects 100-Continue", V(HOST "EXPECT: 100-Continue\r\n"), HTTP_NO_BODY,
     0, true, false},
    {"expects twice", V(HOST "Expect: 100-continue\r\nExpect:100-continue\r\n"),
     HTTP_NO_BODY, 0, true, false},
    /* RFC 9110, section 5.6.1.2: empty elements of a list are ignored. */
    {"expects nothing", V(HOST "Expect:\r\n"), HTTP_NO_BODY, 0, false, false},
    {"expects an empty list", V(HOST "Expect: , ,\r\n"), HTTP_NO_BODY, 0, false,
     false},
    {"expects, empty elements", V(HOST "Expect: ,100-continue,\r\n"),
     HTTP_NO_BODY, 0, true, false},
    {"TE is another field", V(HOST "TE: trailers\r\n"), HTTP_NO_BODY, 0, false,
     false},
};

static void body(void **state) {
    const struct body_row *row = *state;
    struct http_request expected = plain_request();

    expected.method = HTTP_POST;
    expected.line = VIEW("POST / HTTP/1.1");
    expected.body = row->body;
    expected.content_length = row->length;
    expected.expects_continue = row->expects_continue;
    feed_head(row->fields, &expected);

    if (row->body == HTTP_CHUNKED_BODY)
        return; /* HTTP/1.0 has no chunked body */
    expected.line = VIEW("POST / HTTP/1.0");
    expected.minor_version = 0;
    expected.keep_alive = false;
    expected.expects_continue = row->expects_in_1_0;
    feed_head(row->fields, &expected);
}

/* ---- Lists over several lines: RFC 9110, section 5.3 ---- */

struct lines_row {
    const char *name;
    struct view fields;
    struct view values; /* of all If-Match lines, each in brackets */
};
static const struct lines_row several[] = {
    {"lines: none", V(HOST), V("")},
    {"lines: one", V(HOST "If-Match: \"x\"\r\n"), V("[\"x\"]")},
    {"lines: one, empty", V("If-Match:\r\n" HOST), V("[]")},
    {"lines: three, with others between",
     V("If-Match: \"x\"\r\n" HOST "if-match:\t\"y\" ,\"z\" \r\n"
       "If-None-Match: \"q\"\r\nIF-MATCH:*\r\n"),
     V("[\"x\"][\"y\" ,\"z\"][*]")},
    {"lines: longer and shorter names",
     V("If-Matches: a\r\nIf-Matc: b\r\n" HOST "X: If-Match: c\r\n"), V("")},
};

static void lines_of_a_list(void **state) {
    const struct lines_row *row = *state;
    struct buffer head = {0}, got = {0};
    struct http_request request;
    struct view value;

    compose(&head, VIEW("GET / HTTP/1.1"), row->fields);
    struct view input = guarded(buffer_view(&head), GUARD_AFTER);
    assert_int_equal(http_parse_head(input, 0, &request), head.length);
    struct view rest = request.fields;
    while (http_next_field_line(&rest, VIEW("If-Match"), &value)) {
        buffer_append(&got, VIEW("["));
        buffer_append(&got, value);
        buffer_append(&got, VIEW("]"));
    }
    assert_view_equal(buffer_view(&got), row->values);
    assert_int_equal(request.if_match.data != NULL, got.length > 0);
    buffer_free(&head);
    buffer_free(&got);
}

/* ---- The method of an invalid or incomplete head ---- */

struct method_row {
    const char *name;
    struct view input;
    enum http_method method;
};
static const struct method_row methods[] = {
    {"HEAD, no blank yet", V("HEAD"), HTTP_UNKNOWN},
    {"HEAD, no more", V("HEAD "), HTTP_HEAD},
    {"HEAD, a fragment", V("HEAD /#a HTTP/1.1\r\n\r\n"), HTTP_HEAD},
    {"HEAD, HTTP/2.0", V("HEAD / HTTP/2.0\r\n\r\n"), HTTP_HEAD},
    {"HEAD, no Host", V("HEAD / HTTP/1.1\r\n\r\n"), HTTP_HEAD},
    {"HEAD, bare LF", V("HEAD / HTTP/1.1\n"), HTTP_HEAD},
    {"HEADS", V("HEADS / HTTP/1.1\r\n\r\n"), HTTP_UNKNOWN},
};

static void method_is_known(void **state) {
    const struct method_row *row = *state;
    struct http_request request;

    assert_true(
        http_parse_head(guarded(row->input, GUARD_AFTER), 0, &request) <= 0);
    assert_int_equal(request.method, row->method);
}

/* ---- Incomplete heads ---- */

TEST(unfinished_heads_need_more) {
    static const struct view heads[] = {
        V(""),
        V("\r"),
        V("G"),
        V("GET / HTTP/1.1"),
        V("GET / HTTP/1.1\r\n"),
        V("GET / HTTP/1.1\r\nHost: a\r\n"),
        V("GET / HTTP/1.1\r\nHost: a\r\n\r"),
    };

    for (size_t i = 0; i < ROWS(heads); i++)
        feed(parse, NULL, heads[i], 0);
}

TEST_TABLE(request_line, lines)
TEST_TABLE(field, fields)
TEST_TABLE(persistence, persistences)
TEST_TABLE(body, bodies)
TEST_TABLE(lines_of_a_list, several)
TEST_TABLE(method_is_known, methods)
