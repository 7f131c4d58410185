# SPDX-License-Identifier: MIT
"""Tables of requests, byte for byte, with the status codes that may answer them.

They are sent to every server alone (test_http_errors.py, test_smuggling.py) and to all of them for
a comparison (test_equality.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A request and the status codes that may answer it.

    closes: the response must have `Connection: close`, and the connection must end.
    allow:  the value of the Allow field; None if it is not checked.
    """

    name: str
    raw: bytes
    statuses: tuple[int, ...]
    closes: bool = False
    allow: str | None = None


def _get(*lines: bytes, target: bytes = b"/t/digits.txt", version: bytes = b"HTTP/1.1") -> bytes:
    start = b"GET " + target + b" " + version
    return b"\r\n".join((start, *lines)) + b"\r\n\r\n"


def _ok(name: str, raw: bytes) -> Case:
    return Case(name, raw, (200,))


def _bad(name: str, raw: bytes, *statuses: int) -> Case:
    return Case(name, raw, statuses or (400,), closes=True)


HOST = b"Host: test"
BLANK = b"\r\n\r\n"

# RFC 9112, section 3: the request line. Section numbers below are of RFC 9112 if no other is named.
REQUEST_LINE = [
    _ok("plain", _get(HOST)),
    _ok("empty line first (2.2)", b"\r\n" + _get(HOST)),
    _ok("higher minor version (9110 6.2)", _get(HOST, version=b"HTTP/1.2")),
    _ok("1.0 without host", _get(version=b"HTTP/1.0")),
    _ok("absolute form (3.2.2)", _get(HOST, target=b"http://other/t/digits.txt")),
    _ok("absolute form, upper case scheme", _get(HOST, target=b"HTTP://other/t/digits.txt")),
    _ok("absolute form with port", _get(HOST, target=b"http://other:80/t/digits.txt")),
    _ok("absolute form without path", _get(HOST, target=b"http://other")),
    _ok("absolute form with query only", _get(HOST, target=b"http://other?x=1")),
    _ok("query", _get(HOST, target=b"/t/digits.txt?a=1&b=2?/../")),
    _ok("empty query", _get(HOST, target=b"/t/digits.txt?")),
    _ok("escaped unreserved letter (3986 2.3)", _get(HOST, target=b"/t/digits%2Etx%74")),
    _bad("no version", b"GET /" + BLANK),
    _bad("only a method", b"GET" + BLANK),
    _bad("two spaces", b"GET  / HTTP/1.1\r\n" + HOST + BLANK),
    _bad("two spaces before version", b"GET /  HTTP/1.1\r\n" + HOST + BLANK),
    _bad("leading space", b" GET / HTTP/1.1\r\n" + HOST + BLANK),
    _bad("trailing space", b"GET / HTTP/1.1 \r\n" + HOST + BLANK),
    _bad("tab as separator", b"GET\t/\tHTTP/1.1\r\n" + HOST + BLANK),
    _bad("space in target", b"GET /a b HTTP/1.1\r\n" + HOST + BLANK),
    _bad("lower case version", _get(HOST, version=b"http/1.1")),
    _bad("version without minor", _get(HOST, version=b"HTTP/1")),
    _bad("version with two digits", _get(HOST, version=b"HTTP/1.10")),
    _bad("version with tail", _get(HOST, version=b"HTTP/1.1x")),
    _bad("version without slash", _get(HOST, version=b"HTTP1.1")),
    _bad("other protocol", _get(HOST, version=b"ICY/1.1"), 400, 505),
    _bad("letter as version", _get(HOST, version=b"HTTP/x.1")),
    _bad("target without slash", _get(HOST, target=b"t/digits.txt")),
    _bad("star for GET (3.2.4)", _get(HOST, target=b"*")),
    _bad("absolute form, no host (9110 4.2.1)", _get(HOST, target=b"http:///t/digits.txt")),
    _bad("NUL in target", _get(HOST, target=b"/a\0b")),
    _bad("control byte in target", _get(HOST, target=b"/a\x07b")),
    _bad("DEL in target", _get(HOST, target=b"/a\x7fb")),
    _bad("method with bad character", b"GE(T / HTTP/1.1\r\n" + HOST + BLANK, 400, 501),
    _bad("empty method", b" / HTTP/1.1\r\n" + HOST + BLANK),
    _bad("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + BLANK),
    Case("HTTP/2.0", _get(HOST, version=b"HTTP/2.0"), (505,)),
    Case("HTTP/3.0", _get(HOST, version=b"HTTP/3.0"), (505,)),
    Case("HTTP/0.9", _get(HOST, version=b"HTTP/0.9"), (505,)),
    Case("HTTP/0.0", _get(HOST, version=b"HTTP/0.0"), (505,)),
]

# RFC 9110, section 9, and 15.5.6.
_STATIC = "GET, HEAD, OPTIONS"
_FORM = "GET, HEAD, POST, OPTIONS"


def _method(method: bytes, target: bytes, allow: str) -> Case:
    raw = method + b" " + target + b" HTTP/1.1\r\n" + HOST + BLANK
    status = 204 if method == b"OPTIONS" else 405
    return Case(f"{method.decode()} {target.decode()}", raw, (status,), allow=allow)


METHODS = [
    *(_method(m, b"/t/digits.txt", _STATIC) for m in (b"PUT", b"DELETE", b"PATCH", b"OPTIONS")),
    *(_method(m, b"/t/digits.txt", _STATIC) for m in (b"POST", b"TRACE")),
    *(_method(m, b"/guestbook", _FORM) for m in (b"PUT", b"DELETE", b"PATCH", b"OPTIONS")),
    *(_method(m, b"/go/name", _STATIC) for m in (b"POST", b"DELETE")),
    *(_method(m, b"/sorted", _STATIC) for m in (b"POST", b"PUT")),
    Case("unknown method", b"BREW / HTTP/1.1\r\nHost: test\r\n\r\n", (501,)),
    Case("lower case method", b"get / HTTP/1.1\r\nHost: test\r\n\r\n", (501,)),
    Case("longer method", b"GETS / HTTP/1.1\r\nHost: test\r\n\r\n", (501,)),
    _method(b"OPTIONS", b"*", _FORM),
    _method(b"OPTIONS", b"http://test", _FORM),
    _method(b"OPTIONS", b"http://test/t/digits.txt", _STATIC),
    _method(b"OPTIONS", b"/t/plain", _FORM),
    _method(b"OPTIONS", b"/t/nothing-here", _STATIC),
    _bad("OPTIONS **", b"OPTIONS ** HTTP/1.1\r\nHost: test\r\n\r\n"),
    Case("CONNECT", b"CONNECT test:443 HTTP/1.1\r\nHost: test:443\r\n\r\n", (501,)),
    _bad("CONNECT to a path", b"CONNECT / HTTP/1.1\r\nHost: test\r\n\r\n"),
    _bad("CONNECT without port", b"CONNECT test HTTP/1.1\r\nHost: test\r\n\r\n"),
]

# Section 3.2, and RFC 9110, section 7.2.
HOSTS = [
    _ok("with port", _get(b"Host: test:8000")),
    _ok("IPv6", _get(b"Host: [::1]:8000")),
    _ok("IPv4", _get(b"Host: 127.0.0.1")),
    _ok("field name in any case", _get(b"hOsT: test")),
    _ok("no space after colon", _get(b"Host:test")),
    _ok("white space around", _get(b"Host: \t test \t ")),
    _bad("missing", _get()),
    _bad("missing, other fields", _get(b"Accept: */*")),
    _bad("twice", _get(HOST, HOST)),
    _bad("twice, different", _get(HOST, b"Host: other")),
    _bad("twice in 1.0", _get(HOST, HOST, version=b"HTTP/1.0")),
    _bad("with space", _get(b"Host: a b")),
    _bad("with path", _get(b"Host: test/path")),
    _bad("with user", _get(b"Host: user@test")),
    _bad("with letter in port", _get(b"Host: test:80a")),
    _bad("two in one", _get(b"Host: a, b")),
    _bad("open bracket", _get(b"Host: [::1")),
    _bad("backslash", _get(b"Host: a\\b")),
    _bad("missing with absolute form (3.2.2)", _get(target=b"http://test/t/digits.txt")),
]

# Sections 2.2 and 5; RFC 9110, section 5.5.
FIELDS = [
    _ok("empty value", _get(HOST, b"X-Empty:")),
    _ok("tab in value", _get(HOST, b"X-Tab: a\tb")),
    _ok("bytes above ASCII in value", _get(HOST, b"X-High: \xc3\xa4 \xff")),
    _ok("all characters of a name", _get(HOST, b"!#$%&'*+-.^_`|~0aZ: 1")),
    _ok("same unknown field twice", _get(HOST, b"X: 1", b"X: 2")),
    _bad("space before colon (5.1)", _get(HOST, b"X-Field : 1")),
    _bad("tab before colon", _get(HOST, b"X-Field\t: 1")),
    _bad("space before colon of Host", _get(b"Host : test")),
    _bad("obs-fold (5.2)", _get(HOST, b"X-Folded: a", b" b")),
    _bad("obs-fold with tab", _get(HOST, b"X-Folded: a", b"\tb")),
    _bad("space before first field (2.2)", _get(b" " + HOST)),
    _bad("no colon", _get(HOST, b"nonsense")),
    _bad("empty name", _get(HOST, b": value")),
    _bad("space in name", _get(HOST, b"X Field: 1")),
    _bad("bracket in name", _get(HOST, b"X(Field: 1")),
    _bad("byte above ASCII in name", _get(HOST, b"X-\xe4: 1")),
    _bad("NUL in value", _get(HOST, b"X-Nul: a\0b")),
    _bad("NUL in name", _get(HOST, b"X-\0: a")),
    _bad("control byte in value", _get(HOST, b"X-Bell: a\x07b")),
    _bad("DEL in value", _get(HOST, b"X-Del: a\x7fb")),
    _bad("bare CR in value", _get(HOST, b"X-Cr: a\rb")),
    _bad("bare CR before CRLF", _get(HOST, b"X-Cr: a\r")),
    _bad("bare LF after request line", b"GET / HTTP/1.1\n" + HOST + BLANK),
    _bad("bare LF after field", b"GET / HTTP/1.1\r\n" + HOST + b"\nX: 1" + BLANK),
    _bad("bare LF as empty line", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n\n"),
    _bad("bare LF only", b"GET / HTTP/1.1\nHost: test\n\n"),
    _bad("bare CR as line end", b"GET / HTTP/1.1\rHost: test\r\r\r\n\r\n"),
]

EXPECTATIONS = [
    _bad("unknown expectation (9110 10.1.1)", _get(HOST, b"Expect: 200-ok"), 417),
    _bad("two expectations", _get(HOST, b"Expect: 100-continue, tea"), 417),
    _ok("100-continue without a body", _get(HOST, b"Expect: 100-continue")),
    _ok("an empty expectation (9110 5.6.1.2)", _get(HOST, b"Expect:")),
    _ok("a list of no expectations", _get(HOST, b"Expect: , ,")),
    _ok("100-continue in 1.0", _get(HOST, b"Expect: 100-continue", version=b"HTTP/1.0")),
]
# An unknown expectation leaves no body unread here, so the connection may stay open.
EXPECTATIONS = [Case(c.name, c.raw, c.statuses) for c in EXPECTATIONS]


def _long_line(size: int) -> bytes:
    """Return a GET whose request line has `size` bytes without its CR LF."""
    return _get(
        HOST, target=b"/t/digits.txt?" + b"x" * (size - len(b"GET /t/digits.txt? HTTP/1.1"))
    )


def _long_head(size: int, fields: int) -> bytes:
    """Return a GET whose head has `size` bytes in all, in about so many fields."""
    start = _get(HOST)[:-2]
    each = (size - len(start) - 2) // fields
    lines = [b"X-%03d: %s\r\n" % (i, b"y" * (each - 9)) for i in range(fields - 1)]
    rest = size - len(start) - 2 - sum(map(len, lines))
    return start + b"".join(lines) + b"X-999: " + b"y" * (rest - 9) + b"\r\n\r\n"


LIMITS = [
    _ok("request line of 7,990", _long_line(7990)),
    _bad("request line of 8,010", _long_line(8010), 414),
    _bad("request line of 60,000", _long_line(60000), 414),
    _bad("request line without end", b"GET /" + b"x" * 9000, 414),
    _bad("method without end", b"G" * 9000, 400, 414, 501),
    _ok("head of 16,300", _long_head(16300, 20)),
    _bad("head of 16,500", _long_head(16500, 20), 431),
    _bad("one field of 17,000", _long_head(17000, 1), 431),
    _bad("head of 200,000", _long_head(200000, 50), 431),
    _bad("head without end", _get(HOST)[:-2] + b"X-Long: " + b"y" * 17000, 431),
    _ok("100 fields", _get(HOST, *(b"X-%d: 1" % i for i in range(99)))),
    _bad("101 fields", _get(HOST, *(b"X-%d: 1" % i for i in range(100))), 431),
    _bad("3,000 empty fields", _get(HOST, *(b"a:" for _ in range(3000))), 431),
]

SYNTAX = REQUEST_LINE + METHODS + HOSTS + FIELDS + EXPECTATIONS + LIMITS
