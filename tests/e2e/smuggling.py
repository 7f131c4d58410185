# SPDX-License-Identifier: MIT
"""Requests that two readers might read in two ways: bodies, lengths, chunks.

RFC 9112, sections 6 and 7. After each a second request follows that must not be answered: if a
request is refused for its length, the beginning of the next one is unknown.
"""

from __future__ import annotations

from .cases import Case

BODY = b"guest-name=smuggler&guest-remarks=smuggled"
SECOND = b"GET /t/digits.txt HTTP/1.1\r\nHost: test\r\n\r\n"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
TE = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(BODY)


def _post(*lines: bytes, body: bytes = BODY, version: bytes = b"HTTP/1.1") -> bytes:
    head = (
        b"POST /guestbook " + version,
        b"Host: test",
        b"Content-Type: application/x-www-form-urlencoded",
        *lines,
    )
    return b"\r\n".join(head) + b"\r\n\r\n" + body + SECOND


def _refused(name: str, raw: bytes, *statuses: int) -> Case:
    return Case(name, raw, statuses or (400,), closes=True)


def _chunks(name: str, body: bytes, *statuses: int) -> Case:
    return _refused(name, _post(TE, body=body), *statuses)


HEX = b"%x" % len(BODY)
LENGTHS = [
    _refused("length and chunked", _post(LENGTH, TE, body=CHUNKED)),
    _refused("chunked and length", _post(TE, LENGTH, body=CHUNKED)),
    _refused("length 0 and chunked", _post(b"Content-Length: 0", TE, body=CHUNKED)),
    _refused("length and identity", _post(LENGTH, b"Transfer-Encoding: identity")),
    _refused("two lengths", _post(LENGTH, b"Content-Length: 3")),
    _refused("two equal lengths", _post(LENGTH, LENGTH)),
    _refused("list of lengths", _post(LENGTH + b", 3")),
    _refused("list of equal lengths", _post(LENGTH + LENGTH.replace(b"Content-Length:", b","))),
    _refused("length with plus", _post(LENGTH.replace(b": ", b": +"))),
    _refused("length with minus", _post(b"Content-Length: -1")),
    _refused("length in hexadecimal", _post(b"Content-Length: 0x2a")),
    _refused("length with letter", _post(LENGTH + b"a")),
    _refused("length with inner space", _post(b"Content-Length: 4 2")),
    _refused("length with point", _post(LENGTH + b".0")),
    _refused("length in quotes", _post(b'Content-Length: "42"')),
    _refused("length empty", _post(b"Content-Length:")),
    _refused("length with NUL", _post(LENGTH + b"\0")),
    _refused("length with vertical tab", _post(b"Content-Length: \x0b42")),
    _refused("length of 2**64 + 42", _post(b"Content-Length: 18446744073709551658"), 400, 413),
    _refused("length of 2**32 + 42", _post(b"Content-Length: 4294967338"), 413),
    _refused("length of 60 digits", _post(b"Content-Length: 1" + b"0" * 59), 400, 413),
    _refused("length, space before colon", _post(LENGTH.replace(b":", b" :"))),
    _refused("length folded", _post(LENGTH.replace(b": ", b":\r\n "))),
    _refused("length above the limit", _post(b"Content-Length: 65537"), 413),
]
CODINGS = [
    _refused("chunked in 1.0", _post(TE, body=CHUNKED, version=b"HTTP/1.0")),
    _refused("gzip", _post(b"Transfer-Encoding: gzip")),
    _refused("gzip, chunked", _post(b"Transfer-Encoding: gzip, chunked", body=CHUNKED), 501),
    _refused("chunked, gzip", _post(b"Transfer-Encoding: chunked, gzip", body=CHUNKED)),
    _refused("identity", _post(b"Transfer-Encoding: identity")),
    _refused("xchunked", _post(b"Transfer-Encoding: xchunked", body=CHUNKED)),
    _refused("chunkedx", _post(TE + b"x", body=CHUNKED)),
    _refused("chunked with parameter", _post(TE + b";q=1", body=CHUNKED)),
    _refused("chunked in quotes", _post(b'Transfer-Encoding: "chunked"', body=CHUNKED)),
    _refused("chunked twice", _post(TE + b", chunked", body=CHUNKED)),
    _refused("chunked in two lines", _post(TE, TE, body=CHUNKED)),
    _refused("chunked, then identity", _post(TE, TE[:19] + b"identity", body=CHUNKED)),
    _refused("identity, then chunked", _post(TE[:19] + b"identity", TE, body=CHUNKED), 501),
    _refused("empty coding", _post(b"Transfer-Encoding:", body=CHUNKED)),
    _refused("vertical tab", _post(b"Transfer-Encoding: \x0bchunked", body=CHUNKED), 400, 501),
    _refused("space before colon", _post(b"Transfer-Encoding : chunked", body=CHUNKED)),
    _refused("folded", _post(b"Transfer-Encoding:\r\n chunked", body=CHUNKED), 400, 501),
    _refused("bare LF before it", _post(b"X: 1\n" + TE, body=CHUNKED)),
    _refused("bare CR before it", _post(b"X: 1\r" + TE, body=CHUNKED)),
    _refused("NUL after it", _post(TE + b"\0", body=CHUNKED), 400, 501),
]
CHUNKS = [
    _chunks("no size", b"\r\n" + CHUNKED),
    _chunks("size with 0x", b"0x" + CHUNKED),
    _chunks("size with plus", b"+" + CHUNKED),
    _chunks("size with minus", b"-" + CHUNKED),
    _chunks("size after space", b" " + CHUNKED),
    _chunks("size before space", HEX + b" \r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("size with letter g", b"g" + CHUNKED),
    _chunks("size with underscore", b"2_a\r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("size of 2**64 + 42", b"1000000000000002a\r\n" + BODY + b"\r\n0\r\n\r\n", 400, 413),
    _chunks("size of 2**32 + 42", b"10000002a\r\n" + BODY + b"\r\n0\r\n\r\n", 400, 413),
    _chunks("size of 40 digits", b"f" * 40 + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400, 413),
    _chunks("bare LF after size", HEX + b"\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("bare CR after size", HEX + b"\r" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("bare LF after data", HEX + b"\r\n" + BODY + b"\n0\r\n\r\n"),
    _chunks("no line end after data", HEX + b"\r\n" + BODY + b"0\r\n\r\n"),
    _chunks("data longer than said", b"5\r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("bare LF after last size", HEX + b"\r\n" + BODY + b"\r\n0\n\r\n"),
    _chunks("bare LF as end", HEX + b"\r\n" + BODY + b"\r\n0\r\n\n"),
    _chunks("bare LF in extension", HEX + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("bare CR in extension", HEX + b";a\rb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("NUL in extension", HEX + b";a\0b\r\n" + BODY + b"\r\n0\r\n\r\n"),
    _chunks("bad trailer", CHUNKED[:-2] + b"no colon\r\n\r\n"),
    _chunks("trailer with space before colon", CHUNKED[:-2] + b"X : 1\r\n\r\n"),
    _chunks("folded trailer", CHUNKED[:-2] + b"X: 1\r\n 2\r\n\r\n"),
    _chunks("bare LF in trailer", CHUNKED[:-2] + b"X: 1\nY: 2\r\n\r\n"),
    _chunks(
        "extension of 20,000",
        HEX + b";" + b"a" * 20000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
        400,
        413,
        431,
    ),
    _chunks("trailers of 20,000", CHUNKED[:-2] + b"X: 1\r\n" * 4000 + b"\r\n", 400, 413, 431),
    _chunks("chunks above the limit", b"8000\r\n%s\r\n" % (b"x" * 0x8000) * 3, 413),
    _chunks("one chunk above the limit", b"10001\r\n" + b"x" * 0x10001, 413),
]
SMUGGLING = LENGTHS + CODINGS + CHUNKS
