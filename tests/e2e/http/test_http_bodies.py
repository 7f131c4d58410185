# SPDX-License-Identifier: MIT
"""Request bodies: Content-Length, chunked, Expect: 100-continue."""

from __future__ import annotations

import pytest

from ..client import FORM, Client, Fields, form, request, send
from ..harness import Server
from ..redisbox import RedisClient

pytestmark = pytest.mark.shared_code

BODY = form(guest_name="Ann", guest_remarks="a remark in a body")
STORED = [b"a remark in a body - Ann"]
CHUNKED = ("Transfer-Encoding", "chunked")


def _chunk(data: bytes, extension: bytes = b"", size: bytes | None = None) -> bytes:
    shown = b"%x" % len(data) if size is None else size
    return shown + extension + b"\r\n" + data + b"\r\n"


def _post(*fields: tuple[str, str]) -> bytes:
    """Return the head of a POST to the guestbook."""
    return request("POST", "/guestbook", (FORM, *fields))


A, B = BODY[:7], BODY[7:]
END = b"0\r\n\r\n"
BODIES = {
    "one chunk": _chunk(BODY) + END,
    "two chunks": _chunk(A) + _chunk(B) + END,
    "chunks of one byte": b"".join(_chunk(BODY[i : i + 1]) for i in range(len(BODY))) + END,
    "upper case size": _chunk(BODY, size=b"%X" % len(BODY)) + END,
    "zeros before the size": _chunk(BODY, size=b"000%x" % len(BODY)) + b"0000\r\n\r\n",
    "extension": _chunk(A, b";name=value") + _chunk(B, b";flag") + b"0;last\r\n\r\n",
    "quoted extension": _chunk(BODY, b';name="a;b, c"') + END,
    "spaces in extension": _chunk(BODY, b" ; name = value") + END,
    "trailers": _chunk(BODY) + b"0\r\nX-Sum: 12\r\nX-Other: \r\n\r\n",
    "trailer that looks like framing": _chunk(BODY) + b"0\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("piece", [1, 5, 100000])
def test_chunked(server: Server, store: RedisClient, name: str, piece: int) -> None:
    """A chunked body, with any chunks and in any segments, gives the same form."""
    with Client(server) as client:
        client.send_slowly(_post(CHUNKED) + BODIES[name], piece)
        assert client.read().status == 303
    assert store.remarks() == STORED


@pytest.mark.parametrize("name", BODIES)
def test_request_after_chunked(server: Server, store: RedisClient, name: str) -> None:
    """The next request begins directly after a chunked body."""
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    with Client(server) as client:
        client.send((_post(CHUNKED) + BODIES[name] + request("GET", "/t/digits.txt")) * 3)
        statuses = [client.read().status for _ in range(6)]
    assert statuses == [303, 200] * 3
    assert store.remarks() == STORED * 3


@pytest.mark.parametrize("value", ["chunked", "Chunked", "CHUNKED", "\tchunked "])
def test_chunked_in_any_case(server: Server, store: RedisClient, value: str) -> None:
    """The name of the transfer coding is not case-sensitive (RFC 9112, section 7)."""
    assert send(server, _post(("Transfer-Encoding", value)) + BODIES["two chunks"]).status == 303
    assert store.remarks() == STORED


def test_length_byte_by_byte(server: Server, store: RedisClient) -> None:
    """A body with Content-Length may arrive in single bytes."""
    with Client(server) as client:
        client.send_slowly(_post(("Content-Length", str(len(BODY)))) + BODY)
        assert client.read().status == 303
    assert store.remarks() == STORED


def test_body_at_the_limit(server: Server, store: RedisClient) -> None:
    """A body of 65,536 bytes is accepted (its remark is far too long), one byte more is refused."""
    start = b"guest-name=Ann&guest-remarks="
    for chunked in (False, True):
        for size, status in ((65536, 400), (65537, 413)):
            body = start + b"x" * (size - len(start))
            field = CHUNKED if chunked else ("Content-Length", str(size))
            data = b"".join(_chunk(body[i : i + 8000]) for i in range(0, size, 8000)) + END
            response = send(server, _post(field) + (data if chunked else body))
            assert response.status == status, f"{size} bytes, chunked: {chunked}"
            assert ("body is too long" in response.text) == (status == 413)
    assert store.remarks() == []


def test_body_too_large_is_not_awaited(server: Server) -> None:
    """A Content-Length above the limit is refused at once, although the client may still send the
    body."""
    with Client(server) as client:
        client.send(_post(("Content-Length", "500000")))
        response = client.read()
        assert response.status == 413
        assert response.closes
    with Client(server) as client:
        client.send(_post(("Content-Length", "500000")))
        client.send_if_open(b"x" * 500000)
        assert client.read().status == 413, "reset before the response was read"
        assert client.read_to_end() == b""


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_body_that_means_nothing(server: Server, method: str) -> None:
    """The body of a GET or HEAD is read and ignored (RFC 9110, section 9.3.1)."""
    with Client(server) as client:
        client.send_if_open(request(method, "/t/digits.txt", (), b"GET /none HTTP/1.1\r\n\r\n"))
        client.send_if_open(request("GET", "/t/sub/"))
        first = client.read(method)
        assert first.status == 200
        if not first.closes:
            assert client.read().body == b"<!DOCTYPE html><title>sub</title>"


def test_no_length_is_no_body(server: Server) -> None:
    """A POST without Content-Length or Transfer-Encoding is an empty form."""
    assert send(server, _post()).status == 400


CONTINUE = ("Expect", "100-continue")


@pytest.mark.parametrize("value", ["100-continue", "100-Continue"])
@pytest.mark.parametrize("chunked", [False, True])
def test_expect_continue(server: Server, store: RedisClient, value: str, chunked: bool) -> None:
    """The server sends 100 before the client has sent a byte of the body."""
    fields: Fields = (("Expect", value),)
    fields += (CHUNKED,) if chunked else (("Content-Length", str(len(BODY))),)
    with Client(server) as client:
        interim = client.exchange(_post(*fields))
        assert interim.head == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(BODIES["two chunks"] if chunked else BODY)
        assert client.read().status == 303
    assert store.remarks() == STORED


def test_expect_continue_with_body_at_once(server: Server, store: RedisClient) -> None:
    """A client that does not wait for the 100 may still get it, and gets one final response."""
    with Client(server) as client:
        client.send(_post(CONTINUE, ("Content-Length", str(len(BODY)))) + BODY)
        response = client.read()
        if response.status == 100:
            response = client.read()
        assert response.status == 303
    assert store.remarks() == STORED


def test_expect_continue_in_1_0(server: Server, store: RedisClient) -> None:
    """A client of HTTP/1.0 gets no 100 (RFC 9110, section 10.1.1)."""
    head = _post(CONTINUE, ("Content-Length", str(len(BODY)))).replace(b"HTTP/1.1", b"HTTP/1.0")
    with Client(server) as client:
        client.send(head)
        assert client.is_quiet(0.3)
        client.send(BODY)
        assert client.read().status == 303
    assert store.remarks() == STORED


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/guestbook", (CONTINUE, ("Content-Length", "70000")), 413),
        ("/guestbook", (("Expect", "tea"), ("Content-Length", "10")), 417),
        ("/t/digits.txt", (CONTINUE, ("Content-Length", "10")), 405),
        ("/guestbook", (CONTINUE, ("Content-Length", "ten")), 400),
        ("/guestbook", (CONTINUE, ("Transfer-Encoding", "gzip")), 400),
        ("/guestbook", (CONTINUE, ("Transfer-Encoding", "gzip, chunked")), 501),
    ],
)
def test_expectation_refused(server: Server, target: str, fields: Fields, status: int) -> None:
    """The final response comes instead of the 100, and the server does not wait for the body."""
    with Client(server) as client:
        response = client.exchange(request("POST", target, (FORM, *fields)))
        assert response.status == status
        assert response.closes
        assert client.read_to_end() == b""
