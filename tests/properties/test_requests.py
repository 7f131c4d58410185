# SPDX-License-Identifier: MIT
"""Our parser and h11 interpret requests in the same way. h11 is more lenient: it must accept each
request that the servers accept, and read the same request. In addition, the servers must accept
each request that is valid by the grammar.
"""

import re
import string
from dataclasses import dataclass, replace

import h11
from hypothesis import assume, example, given
from hypothesis import strategies as st

from .conftest import Parsers

TOKEN = string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"
tokens = st.text(TOKEN, min_size=1, max_size=12).map(str.encode)
# RFC 9112, section 3.2.1; RFC 3986, section 3.3.
segments = st.text(string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@", max_size=8)
targets = st.lists(segments, max_size=4).map(lambda parts: ("/" + "/".join(parts)).encode())
queries = st.one_of(
    st.just(b""),
    st.text(TOKEN.replace("#", "") + "/?=", max_size=9).map(
        lambda text: b"?" + "".join(c for c in text if c not in "^`|").encode()
    ),
)
blanks = st.sampled_from([b"", b" ", b"\t", b" \t "])
# RFC 9110, section 5.5: visible characters and obs-text, with blanks only between them.
visible = st.binary(max_size=10).map(lambda data: bytes(b for b in data if b > 0x20 and b != 0x7F))
values = st.lists(visible, max_size=3).map(lambda words: b" ".join(words).strip())
SPECIAL = (b"host", b"content-length", b"transfer-encoding", b"expect", b"connection", b"upgrade")
others = st.tuples(tokens.filter(lambda name: name.lower() not in SPECIAL), values)


@dataclass(frozen=True)
class Body:
    """A body: the header lines that announce the body, its sent bytes, and its decoded content."""

    fields: tuple[tuple[bytes, bytes], ...]
    raw: bytes
    content: bytes


def _length_body(content: bytes) -> Body:
    return Body(((b"Content-Length", b"%d" % len(content)),), content, content)


@st.composite
def chunked_bodies(draw: st.DrawFn) -> Body:
    """Return a body in chunks, with extensions and trailers: RFC 9112, section 7.1."""
    raw, content = b"", b""
    extension = st.sampled_from([b"", b";a", b";a=b", b";a = b", b';a="b;c"'])
    size = st.sampled_from(["%x", "%X", "00%x"])
    for chunk in draw(st.lists(st.binary(min_size=1, max_size=40), max_size=4)):
        line = (draw(size) % len(chunk)).encode() + draw(extension)
        raw += line + b"\r\n" + chunk + b"\r\n"
        content += chunk
    trailers = draw(st.lists(others, max_size=2))
    raw += b"0\r\n" + b"".join(b"%s: %s\r\n" % pair for pair in trailers) + b"\r\n"
    coding = draw(st.sampled_from([b"chunked", b"Chunked", b"CHUNKED"]))
    return Body(((b"Transfer-Encoding", coding),), raw, content)


bodies = st.one_of(
    st.just(Body((), b"", b"")), st.binary(max_size=60).map(_length_body), chunked_bodies()
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Body]:
    """Return a whole request, valid by the grammar, and its body."""
    body = draw(bodies)
    host = draw(st.sampled_from([b"a", b"a.example:80", b"[::1]:8000", b"127.0.0.1", b""]))
    fields = [(b"Host", host), *body.fields, *draw(st.lists(others, max_size=4))]
    if draw(st.booleans()):
        options = st.sampled_from([b"close", b"keep-alive", b"TE", b"te, close", b"Keep-Alive,x"])
        fields.append((b"Connection", draw(options)))
    if draw(st.booleans()):
        fields.append((b"Expect", b"100-continue"))
    lines = [
        b"%s:%s%s%s" % (name, draw(blanks), value, draw(blanks))
        for name, value in draw(st.permutations(fields))
    ]
    method = draw(st.one_of(st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS"]), tokens))
    assume(method != b"CONNECT")
    line = b"%s %s%s HTTP/1.1" % (method, draw(targets), draw(queries))
    return b"\r\n".join([line, *lines]) + b"\r\n\r\n" + body.raw, body


@dataclass(frozen=True)
class Seen:
    line: tuple[bytes, bytes, bytes]
    host: bytes
    body: bytes
    keep_alive: bool
    expects: bool
    rest: bytes
    """The bytes after the request."""


def read_with_h11(data: bytes) -> Seen | str:
    """Return the request that h11 reads, or a text if h11 rejects it or needs more bytes."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    request, body, expects = None, b"", False
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                return "it wants more"
            if isinstance(event, h11.Request):
                request, expects = event, connection.they_are_waiting_for_100_continue
            if isinstance(event, h11.Data):
                body += bytes(event.data)
    except h11.RemoteProtocolError as error:
        return str(error)
    assert request is not None
    hosts = [bytes(value) for name, value in request.headers if name == b"host"]
    return Seen(
        (bytes(request.method), bytes(request.target), b"HTTP/" + bytes(request.http_version)),
        hosts[0] if hosts else b"",
        body,
        connection.their_state is not h11.MUST_CLOSE,
        expects,
        connection.trailing_data[0],
    )


def read_with_ours(parsers: Parsers, data: bytes) -> Seen | str:
    """Return the request that our parsers read, or a text if they reject it or need more bytes."""
    got = parsers.call("request", data)
    if got["head"] <= 0:
        return f"the head is {got['head']}"
    body = data[got["head"] : got["head"] + got["length"]]
    rest = data[got["head"] + got["length"] :]
    if got["chunked"]:
        if got["chunks"] <= 0:
            return f"the chunks are {got['chunks']}"
        body = bytes.fromhex(got["body"])
        rest = data[got["head"] + got["chunks"] :]
    if len(body) < got["length"]:
        return "it wants more"
    line = bytes.fromhex(got["line"]).split(b" ")
    host = bytes.fromhex(got["host"])
    return Seen((*line,), host, body, got["keep_alive"], got["continue"], rest)


@given(requests(), st.binary(max_size=10))
def test_what_is_right_is_read_alike(
    parsers: Parsers, request_: tuple[bytes, Body], behind: bytes
) -> None:
    """Both parsers read a valid request exactly to its end, with the same result."""
    data, body = request_
    ours = read_with_ours(parsers, data + behind)
    assert isinstance(ours, Seen), ours
    assert ours.body == body.content
    assert ours.rest == behind
    assert ours == read_with_h11(data + behind)


EDITS = [
    *(bytes([byte]) for byte in (0, 9, 10, 11, 12, 13, 32, 44, 58, 59, 127, 133, 160, 255)),
    *(b"\r\n", b"\r\n ", b" \r\n", b"\n\n", b"HTTP/1.0", b"HTTP/1.2", b"chunked", b", chunked"),
    *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"0", b"-1"),
    *(b"+1", b"0x1", b"http://a", b"*", b"\r\n\r\n", b"0\r\n\r\n", b"Expect: 100-continue\r\n"),
]


@st.composite
def spoiled_requests(draw: st.DrawFn) -> bytes:
    """Return a request with a few bytes inserted, deleted or overwritten."""
    data, _ = draw(requests())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 0, 1, 2, 8]))
        data = data[:at] + draw(st.sampled_from([*EDITS, b""])) + data[at + length :]
    return data


# RFC 9112, section 7.1.1, allows this blank, and h11 does not.
BLANK_BEFORE_EXTENSION = re.compile(rb"[0-9A-Fa-f][ \t]+;")
# RFC 9112, section 2.2: a server should skip empty lines, and h11 does not.
EMPTY_LINES = re.compile(rb"\A(?:\r\n)+")


@given(st.one_of(spoiled_requests(), st.binary(max_size=80)))
@example(b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;a\r\n\r\n")
@example(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
def test_what_is_accepted_is_read_alike(parsers: Parsers, data: bytes) -> None:
    """h11, like a proxy in front of a server, reads the same request as our parsers."""
    ours = read_with_ours(parsers, data)
    if isinstance(ours, str):
        return
    theirs = read_with_h11(EMPTY_LINES.sub(b"", data))
    if BLANK_BEFORE_EXTENSION.search(data) and "illegal chunk header" in str(theirs):
        return
    assert isinstance(theirs, Seen), theirs
    if ours.line[2] == b"HTTP/1.0":  # h11 has no keep-alive in HTTP/1.0
        theirs = replace(theirs, keep_alive=ours.keep_alive)
    assert ours == theirs
