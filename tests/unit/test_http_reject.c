/* SPDX-License-Identifier: MIT */
/*
 * Invalid requests: lib/proto/http.c.
 *
 * Two programs, for example a proxy and this server, could read most of these
 * bytes as different requests.
 */
#include "harness.h"
#include "proto/http.h"

#include <string.h>

struct row {
    const char *name;
    struct view input;
    int status;
};
#define HOST       "Host: a\r\n"
#define HEAD       "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST       "POST / HTTP/1.1\r\nHost: a\r\n"
#define LINE(line) V(line "\r\n" HOST "\r\n")

/* RFC 9112, section 3; versions: RFC 9110, section 2.5. */
static const struct row lines[] = {
    {"HTTP/0.9, a simple request", V("GET /\r\n\r\n"), 400},
    {"no target", LINE("GET HTTP/1.1"), 400},
    {"no method", LINE(" / HTTP/1.1"), 400},
    {"only a method", LINE("GET"), 400},
    {"an empty target", LINE("GET  HTTP/1.1"), 400},
    {"two spaces before the target", LINE("GET  / HTTP/1.1"), 400},
    {"two spaces before the version", LINE("GET /  HTTP/1.1"), 400},
    {"a space after the version", LINE("GET / HTTP/1.1 "), 400},
    {"a space in front", LINE(" GET / HTTP/1.1"), 400},
    {"a space in the target", LINE("GET /a b HTTP/1.1"), 400},
    {"HTAB for a space", LINE("GET\t/ HTTP/1.1"), 400},
    {"HTAB in the target", LINE("GET /\t HTTP/1.1"), 400},
    {"HTAB after the version", LINE("GET / HTTP/1.1\t"), 400},
    {"a method with a colon", LINE("GET: / HTTP/1.1"), 400},
    {"a method with a slash", LINE("G/T / HTTP/1.1"), 400},
    {"a method that is not ASCII", LINE("G\xc3\x89T / HTTP/1.1"), 400},
    {"a method with NUL", LINE("GE\0T / HTTP/1.1"), 400},
    {"a target with NUL", LINE("GET /\0 HTTP/1.1"), 400},
    {"a target with DEL", LINE("GET /\x7f HTTP/1.1"), 400},
    {"a target with ESC", LINE("GET /\x1b HTTP/1.1"), 400},
    {"a target that is not ASCII", LINE("GET /\xc3\xa9 HTTP/1.1"), 400},
    {"a target with a fragment", LINE("GET /#a HTTP/1.1"), 400},
    {"a query with a fragment", LINE("GET /?a#b HTTP/1.1"), 400},
    {"a version without name", LINE("GET / 1.1"), 400},
    {"a version in lower case", LINE("GET / http/1.1"), 400},
    {"a version of another protocol", LINE("GET / HTTQ/1.1"), 400},
    {"a version without minor", LINE("GET / HTTP/1"), 400},
    {"a version with an empty minor", LINE("GET / HTTP/1."), 400},
    {"a version of two digits", LINE("GET / HTTP/1.10"), 400},
    {"a major of two digits", LINE("GET / HTTP/11.1"), 400},
    {"a version with a comma", LINE("GET / HTTP/1,1"), 400},
    {"a version of letters", LINE("GET / HTTP/a.b"), 400},
    {"a negative version", LINE("GET / HTTP/-1.1"), 400},
    {"HTTP/0.9", LINE("GET / HTTP/0.9"), 505},
    {"HTTP/2.0", LINE("GET / HTTP/2.0"), 505},
    {"HTTP/3.0", LINE("GET / HTTP/3.0"), 505},
    {"HTTP/9.9", LINE("GET / HTTP/9.9"), 505},
    {"the preface of HTTP/2", V("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {"TLS", V("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400},
    {"NUL first", V("\0GET / HTTP/1.1\r\n" HOST "\r\n"), 400},
    {"a bare LF before", V("\n" HEAD "\r\n"), 400},
    {"a line with a space before", V(" \r\n" HEAD "\r\n"), 400},
    {"CR before", V("\r" HEAD "\r\n"), 400},
};

/* RFC 9112, section 3.2. */
static const struct row targets[] = {
    {"no slash", LINE("GET a HTTP/1.1"), 400},
    {"only a query", LINE("GET ?a HTTP/1.1"), 400},
    {"asterisk, GET", LINE("GET * HTTP/1.1"), 400},
    {"asterisk, POST", LINE("POST * HTTP/1.1"), 400},
    {"asterisk and a query, OPTIONS", LINE("OPTIONS *? HTTP/1.1"), 400},
    {"two asterisks, OPTIONS", LINE("OPTIONS ** HTTP/1.1"), 400},
    {"authority, CONNECT", LINE("CONNECT b:443 HTTP/1.1"), 501},
    {"authority of IPv6, CONNECT", LINE("CONNECT [::1]:443 HTTP/1.1"), 501},
    {"authority, no port, CONNECT", LINE("CONNECT b HTTP/1.1"), 400},
    {"authority of IPv6, no port, CONNECT", LINE("CONNECT [::1] HTTP/1.1"),
     400},
    {"authority, an empty port, CONNECT", LINE("CONNECT b: HTTP/1.1"), 400},
    {"authority, no host, CONNECT", LINE("CONNECT :443 HTTP/1.1"), 400},
    {"authority and a query, CONNECT", LINE("CONNECT b:443?a HTTP/1.1"), 400},
    {"path, CONNECT", LINE("CONNECT / HTTP/1.1"), 400},
    {"absolute, CONNECT", LINE("CONNECT http://b:443/ HTTP/1.1"), 400},
    {"authority, GET", LINE("GET b:443 HTTP/1.1"), 400},
    {"absolute, no host", LINE("GET http:// HTTP/1.1"), 400},
    {"absolute, no host but a path", LINE("GET http:///a HTTP/1.1"), 400},
    {"absolute, no host but a query", LINE("GET http://?a HTTP/1.1"), 400},
    {"absolute, no host but a port", LINE("GET http://:80/ HTTP/1.1"), 400},
    {"absolute, one slash", LINE("GET http:/b/ HTTP/1.1"), 400},
    {"absolute, no scheme", LINE("GET ://b/ HTTP/1.1"), 400},
    {"absolute, ftp", LINE("GET ftp://b/ HTTP/1.1"), 400},
    {"absolute, a user", LINE("GET http://user:password@b/ HTTP/1.1"), 400},
    {"absolute, a bad host", LINE("GET http://b\\c/ HTTP/1.1"), 400},
    {"absolute, no Host", V("GET http://b/ HTTP/1.1\r\n\r\n"), 400},
    {"absolute, a bad port", LINE("GET http://b:http/ HTTP/1.1"), 400},
};

/* RFC 9112, sections 2.2 and 5. */
static const struct row fields[] = {
    {"bare LF after the request line", V("GET / HTTP/1.1\nHost: a\r\n\r\n"),
     400},
    {"bare LF after a field", V("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400},
    {"bare LF as the blank line", V(HEAD "\n"), 400},
    {"bare LF at each line end", V("GET / HTTP/1.1\nHost: a\n\n"), 400},
    {"bare LF in a value", V(HEAD "X: a\nb\r\n\r\n"), 400},
    {"bare CR after the request line", V("GET / HTTP/1.1\rHost: a\r\n\r\n"),
     400},
    {"bare CR in the target", LINE("GET /\r HTTP/1.1"), 400},
    {"bare CR in the method", LINE("GE\rT / HTTP/1.1"), 400},
    {"bare CR in a name", V(HEAD "X\rY: b\r\n\r\n"), 400},
    {"bare CR in a value", V(HEAD "X: a\rb\r\n\r\n"), 400},
    {"bare CR in front of a value", V(HEAD "X:\ra\r\n\r\n"), 400},
    {"CR CR LF", V(HEAD "X: a\r\r\n\r\n"), 400},
    {"CR CR LF after the request line", V("GET / HTTP/1.1\r\r\n" HOST "\r\n"),
     400},
    {"CR alone in a line", V(HEAD "\r\r\n\r\n"), 400},
    {"obs-fold with a space", V(HEAD "X: a\r\n b\r\n\r\n"), 400},
    {"obs-fold with HTAB", V(HEAD "X: a\r\n\tb\r\n\r\n"), 400},
    {"obs-fold of Host", V("GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n"), 400},
    {"a line with only a space", V(HEAD " \r\n\r\n"), 400},
    {"a blank before the first field",
     V("GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n"), 400},
    {"a space before the colon", V(HEAD "X : a\r\n\r\n"), 400},
    {"HTAB before the colon", V(HEAD "X\t: a\r\n\r\n"), 400},
    {"a space before the colon of a length",
     V(POST "Content-Length : 5\r\n\r\n"), 400},
    {"a space in a name", V(HEAD "X Y: a\r\n\r\n"), 400},
    {"no colon", V(HEAD "X\r\n\r\n"), 400},
    {"no name", V(HEAD ": a\r\n\r\n"), 400},
    {"only a colon", V(HEAD ":\r\n\r\n"), 400},
    {"a name with brackets", V(HEAD "X(Y): a\r\n\r\n"), 400},
    {"a name that is not ASCII", V(HEAD "X\xc3\xa9: a\r\n\r\n"), 400},
    {"a name with NUL", V(HEAD "X\0: a\r\n\r\n"), 400},
    {"a name with DEL", V(HEAD "X\x7f: a\r\n\r\n"), 400},
    {"a value with NUL", V(HEAD "X: a\0b\r\n\r\n"), 400},
    {"a value with ESC", V(HEAD "X: \x1b[1m\r\n\r\n"), 400},
    {"a value with VT", V(HEAD "X: a\vb\r\n\r\n"), 400},
    {"a value with DEL", V(HEAD "X: a\x7f\r\n\r\n"), 400},
    {"a request in a field", V(HEAD "GET / HTTP/1.1\r\n\r\n"), 400},
};

/* RFC 9112, section 3.2: 400 for no Host, for two, or for an invalid Host. */
#define HOST_IS(host) V("GET / HTTP/1.1\r\nHost: " host "\r\n\r\n")
static const struct row hosts[] = {
    {"no Host", V("GET / HTTP/1.1\r\n\r\n"), 400},
    {"no Host but a field", V("GET / HTTP/1.1\r\nX: a\r\n\r\n"), 400},
    {"no Host in HTTP/1.2", V("GET / HTTP/1.2\r\n\r\n"), 400},
    {"Host twice", V(HEAD "Host: b\r\n\r\n"), 400},
    {"Host twice, the same", V(HEAD "Host: a\r\n\r\n"), 400},
    {"Host twice, mixed case", V(HEAD "hOST: a\r\n\r\n"), 400},
    {"Host twice, one empty", V(HEAD "Host:\r\n\r\n"), 400},
    {"Host twice, the first empty",
     V("GET / HTTP/1.1\r\nHost:\r\n" HOST "\r\n"), 400},
    {"Host twice in HTTP/1.0", V("GET / HTTP/1.0\r\n" HOST HOST "\r\n"), 400},
    {"Host with a space", HOST_IS("a b"), 400},
    {"Host with a slash", HOST_IS("a/b"), 400},
    {"Host with a user", HOST_IS("user@a"), 400},
    {"Host of a URL", HOST_IS("http://a/"), 400},
    {"Host with a query", HOST_IS("a?b"), 400},
    {"Host with a fragment", HOST_IS("a#b"), 400},
    {"Host with markup", HOST_IS("<a>"), 400},
    {"Host with a quote", HOST_IS("a\"b"), 400},
    {"Host with a backslash", HOST_IS("a\\b"), 400},
    {"Host that is not ASCII", HOST_IS("\xc3\xa9"), 400},
    {"Host invalid in HTTP/1.0", V("GET / HTTP/1.0\r\nHost: a/b\r\n\r\n"), 400},
    {"Host with two colons", HOST_IS("a:b:c"), 400},
    {"Host with a port of letters", HOST_IS("a:http"), 400},
    {"Host with a port too high", HOST_IS("a:65536"), 400},
    {"Host with a bracketed colon", HOST_IS("[:]"), 400},
    {"Host with an open bracket", HOST_IS("[::1"), 400},
    {"Host with a closing bracket", HOST_IS("a]"), 400},
    {"Host with text after a bracket", HOST_IS("[::1]a"), 400},
    {"Host with a bad escape", HOST_IS("%zz"), 400},
    {"Host with half an escape", HOST_IS("a%4"), 400},
};

/* RFC 9112, sections 6.1 to 6.3: a body has one length, given in one way. */
#define LENGTH(value)   V(POST "Content-Length:" value "\r\n\r\n")
#define ENCODING(value) V(POST "Transfer-Encoding:" value "\r\n\r\n")
#define CHUNKED         "Transfer-Encoding: chunked\r\n"
static const struct row bodies[] = {
    {"length twice", V(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
     400},
    {"length twice, the same",
     V(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400},
    {"length twice, zero",
     V(POST "Content-Length: 0\r\ncontent-length: 0\r\n\r\n"), 400},
    {"length as a list", LENGTH(" 5, 5"), 400},
    {"length empty", LENGTH(""), 400},
    {"length of blanks", LENGTH(" \t"), 400},
    {"length with a plus", LENGTH(" +5"), 400},
    {"length negative", LENGTH(" -5"), 400},
    {"length hexadecimal", LENGTH(" 0x5"), 400},
    {"length with a letter", LENGTH(" 5a"), 400},
    {"length in two words", LENGTH(" 5 6"), 400},
    {"length with a fraction", LENGTH(" 5.0"), 400},
    {"length with an underscore", LENGTH(" 5_0"), 400},
    {"length in quotes", LENGTH(" \"5\""), 400},
    {"length INT64_MAX + 1", LENGTH(" 9223372036854775808"), 400},
    {"length UINT64_MAX + 6", LENGTH(" 18446744073709551621"), 400},
    {"length of 40 digits", LENGTH(" 1000000000000000000000000000000000000005"),
     400},
    {"length and chunked", V(POST "Content-Length: 5\r\n" CHUNKED "\r\n"), 400},
    {"chunked and length", V(POST CHUNKED "Content-Length: 5\r\n\r\n"), 400},
    {"chunked and length 0", V(POST CHUNKED "Content-Length: 0\r\n\r\n"), 400},
    {"chunked in HTTP/1.0", V("POST / HTTP/1.0\r\n" CHUNKED "\r\n"), 400},
    {"chunked twice, two fields", V(POST CHUNKED CHUNKED "\r\n"), 400},
    {"chunked twice, a list", ENCODING(" chunked, chunked"), 400},
    {"gzip, chunked", ENCODING(" gzip, chunked"), 501},
    {"gzip, then chunked, two fields",
     V(POST "Transfer-Encoding: gzip\r\n" CHUNKED "\r\n"), 501},
    {"chunked, then gzip, two fields",
     V(POST CHUNKED "Transfer-Encoding: gzip\r\n\r\n"), 400},
    {"chunked, gzip", ENCODING(" chunked, gzip"), 400},
    {"chunked, gzip, chunked", ENCODING(" chunked, gzip, chunked"), 400},
    {"gzip", ENCODING(" gzip"), 400},
    {"identity", ENCODING(" identity"), 400},
    {"identity, chunked", ENCODING(" identity, chunked"), 501},
    {"chunked, identity", ENCODING(" chunked, identity"), 400},
    {"encoding empty", ENCODING(""), 400},
    {"xchunked", ENCODING(" xchunked"), 400},
    {"chunkedx", ENCODING(" chunkedx"), 400},
    {"chunked with a comma", ENCODING(" chunked,"), 400},
    {"chunked after a comma", ENCODING(" ,chunked"), 501},
    {"chunked in quotes", ENCODING(" \"chunked\""), 400},
    {"chunked with a parameter", ENCODING(" chunked;q=1"), 400},
    {"gzip and length",
     V(POST "Transfer-Encoding: gzip, chunked\r\n"
            "Content-Length: 5\r\n\r\n"),
     400},
    {"gzip, chunked in HTTP/1.0",
     V("POST / HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), 400},
    {"chunked after VT", ENCODING("\vchunked"), 400},
    {"chunked before FF", ENCODING("chunked\f"), 400},
    {"chunked before NUL", ENCODING("chunked\0"), 400},
    {"chunked, a space before the colon",
     V(POST "Transfer-Encoding : chunked\r\n\r\n"), 400},
    {"chunked, folded", V(POST "Transfer-Encoding:\r\n chunked\r\n\r\n"), 400},
    /* RFC 9110, section 10.1.1. */
    {"expects something else", V(POST "Expect: 200-ok\r\n\r\n"), 417},
    {"expects more", V(POST "Expect: 100-continue, b\r\n\r\n"), 417},
};

static ssize_t parse(struct view input, size_t seen, const void *row) {
    struct http_request request;
    ssize_t result = http_parse_head(input, seen, &request);
    (void)row;

    if (result < 0) { /* the complaint is a sentence for the error page */
        assert_non_null(request.complaint);
        size_t length = strlen(request.complaint);
        assert_true(length > 10 && request.complaint[length - 1] == '.');
    }
    return result;
}

static void reject(void **state) {
    const struct row *row = *state;
    feed(parse, row, row->input, -row->status);
}

/* A control byte other than HTAB makes the head invalid, at any place. */
TEST(control_bytes_anywhere) {
    static const struct view head = V("GET /a?b HTTP/1.1\r\nHost: a\r\n"
                                      "X-Y: cd\r\n\r\n");
    char bytes[64];

    for (int byte = 0; byte <= 0x7f; byte++) {
        if ((byte >= 0x20 && byte != 0x7f) || byte == '\t')
            continue;
        for (size_t at = 0; at + 4 < head.length; at++) {
            if (head.data[at] == '\r' || head.data[at] == '\n')
                continue;
            memcpy(bytes, head.data, head.length);
            bytes[at] = (char)byte;
            struct view bad = {bytes, head.length};
            assert_int_equal(parse(guarded(bad, GUARD_AFTER), 0, NULL), -400);
        }
    }
}

TEST_TABLE(reject, lines)
TEST_TABLE(reject, targets)
TEST_TABLE(reject, fields)
TEST_TABLE(reject, hosts)
TEST_TABLE(reject, bodies)
