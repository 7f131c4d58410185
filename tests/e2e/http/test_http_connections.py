# SPDX-License-Identifier: MIT
"""Connections: arrival in any segments, pipelining, keep-alive, half-closes and resets."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime

import pytest

from ..client import FORM, Client, Response, fetch, form, request, sign
from ..harness import Server
from ..markup import remarks
from ..redisbox import RedisClient
from ..timing import wait_until

DIGITS = request("GET", "/t/digits.txt")


def _keep_alive_only(server: Server) -> None:
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response; see test_closes_after_each_response")


@pytest.mark.parametrize("target", ["/t/digits.txt", "/guestbook", "/t/nothing"])
def test_one_byte_at_a_time(server: Server, target: str) -> None:
    """A request that arrives in single bytes gets the response of the whole request."""
    whole = fetch(server, target)
    with Client(server) as client:
        client.send_slowly(request("GET", target))
        response = client.read()
    assert response.status == whole.status
    assert len(response.fields) == len(whole.fields)


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_pipelined_in_pieces(server: Server, piece: int) -> None:
    """Segments that do not end where requests end make no difference."""
    _keep_alive_only(server)
    with Client(server) as client:
        client.send_slowly(request("GET", "/t/digits.txt") + request("GET", "/t/none"), piece)
        assert [client.read().status for _ in range(2)] == [200, 404]


def test_pipelined_in_one_segment(server: Server, store: RedisClient) -> None:
    """Many requests in one segment are answered in order, although some need more time."""
    _keep_alive_only(server)
    store.do("SET", "link:there", "/t/a.txt")
    body = form(guest_name="Ann", guest_remarks="in between")
    targets = ["/t/digits.txt", "/guestbook", "/go/there", "/t/none", "/t/plain", "/sorted"]
    post = request("POST", "/guestbook", (FORM,), body)
    with Client(server) as client:
        client.send((b"".join(request("GET", t) for t in targets) + post) * 10)
        statuses = [client.read().status for _ in range(70)]
        assert statuses == [200, 200, 302, 404, 302, 200, 303] * 10
        assert client.is_quiet(0.1)
    assert store.remarks() == [b"in between - Ann"] * 10
    assert store.number("visitor_count") == 10


def test_pipelined_hundreds(server: Server) -> None:
    """More pipelined requests than any buffer holds are all answered."""
    _keep_alive_only(server)
    with Client(server) as client:
        client.send(b"".join(request("GET", f"/t/none-{i}") for i in range(999)))
        assert {client.read().status for _ in range(999)} == {404}


def test_pipelined_head_and_body(server: Server) -> None:
    """The response to HEAD has no body, so the next response begins directly after its head."""
    _keep_alive_only(server)
    with Client(server) as client:
        client.send(request("HEAD", "/t/digits.txt") * 3 + DIGITS)
        heads = [client.read("HEAD") for _ in range(3)]
        assert client.read().body == b"0123456789"
    assert [h.field("Content-Length") for h in heads] == ["10"] * 3


def test_keep_alive_1_1(server: Server) -> None:
    """HTTP/1.1 connections stay open unless the client sends close."""
    _keep_alive_only(server)
    with Client(server) as client:
        for _ in range(5):
            response = client.exchange(DIGITS)
            assert response.status == 200
            assert not response.closes
        last = client.exchange(request("GET", "/t/digits.txt", (("Connection", "close"),)))
        assert last.closes
        assert client.read_to_end() == b""


@pytest.mark.parametrize("value", ["close", "Close", "x, close", "close, x", "keep-alive, close"])
def test_connection_close(server: Server, value: str) -> None:
    """The option close is found in any case and anywhere in the list (RFC 9110, section 7.6.1)."""
    with Client(server) as client:
        response = client.exchange(request("GET", "/t/digits.txt", (("Connection", value),)))
        assert response.status == 200
        assert response.closes
        assert client.read_to_end() == b""


def test_close_ends_a_pipeline(server: Server) -> None:
    """Requests after one with Connection: close are not answered (RFC 9112, section 9.6)."""
    with Client(server) as client:
        client.send_if_open(request("GET", "/t/digits.txt", (("Connection", "close"),)) + DIGITS)
        assert client.read().body == b"0123456789"
        assert client.read_to_end() == b""


def test_1_0_closes(server: Server) -> None:
    """HTTP/1.0 connections close, and the response is still HTTP/1.1."""
    with Client(server) as client:
        response = client.exchange(b"GET /t/digits.txt HTTP/1.0\r\n\r\n")
        assert response.status == 200
        assert client.read_to_end() == b""


def test_1_0_keep_alive(server: Server) -> None:
    """HTTP/1.0 with Connection: keep-alive stays open, and the response says so (ab -k needs
    it)."""
    _keep_alive_only(server)
    with Client(server) as client:
        for word in (b"keep-alive", b"Keep-Alive", b"keep-alive"):
            raw = b"GET /t/digits.txt HTTP/1.0\r\nConnection: " + word + b"\r\n\r\n"
            response = client.exchange(raw)
            assert response.body == b"0123456789"
            assert (response.field("Connection") or "").lower() == "keep-alive"


def test_closes_after_each_response(server: Server) -> None:
    """A server without keep-alive sends close in each response and then closes."""
    if server.kind.keeps_alive:
        pytest.skip("it keeps connections open")
    for raw in (DIGITS, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
        with Client(server) as client:
            client.send_if_open(raw * 3)
            response = client.read()
            assert response.status == 200
            assert response.closes
            assert client.read_to_end() == b""


def test_limit_of_requests_per_connection(server: Server) -> None:
    """The thousandth response has close, and the connection ends with it."""
    _keep_alive_only(server)
    with Client(server) as client:
        for _ in range(10):
            client.send(DIGITS * 100)
            last = [client.read() for _ in range(100)]
        assert [r.closes for r in last] == [False] * 99 + [True]
        client.send_if_open(DIGITS)
        assert client.read_to_end() == b""


def test_half_close(server: Server, store: RedisClient) -> None:
    """A client that closes its sending side after the request still gets its response."""
    store.do("SET", "link:there", "/t/a.txt")
    for target, status in (("/t/80k.bin", 200), ("/guestbook", 200), ("/go/there", 302)):
        with Client(server) as client:
            client.send(request("GET", target))
            client.half_close()
            assert client.read().status == status
            assert client.read_to_end() == b""


def test_half_close_in_mid_request(server: Server) -> None:
    """A request cut short by a half-close has no effect, and the connection ends."""
    for raw in (
        b"GET /t/dig",
        b"POST /guestbook HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    ):
        with Client(server) as client:
            client.send(raw)
            client.half_close()
            assert not client.read_to_end().startswith(b"HTTP/1.1 2")


def test_resets(server: Server, store: RedisClient) -> None:
    """Clients that reset at any point of an exchange disturb no other client."""
    post = request("POST", "/guestbook", (FORM,), b"guest-name=a&guest-remarks=b")
    for raw in (b"", b"GET /t/di", post[:-5], DIGITS, request("GET", "/t/big.bin"), DIGITS * 50):
        for pause in (0.0, 0.02):
            client = Client(server)
            client.send(raw)
            time.sleep(pause)
            client.reset()
            assert fetch(server, "/t/digits.txt").body == b"0123456789"
    for _ in range(20):
        client = Client(server)
        client.send(request("GET", "/guestbook"))
        client.reset()
    assert sign(server, "Ann", "still here").status == 303
    assert "still here - Ann" in remarks(fetch(server, "/guestbook").text)


def test_reset_in_mid_download(server: Server) -> None:
    """A client that resets during a large download disturbs no other client."""
    for _ in range(3):
        client = Client(server, receive_buffer=4096)
        client.send(request("GET", "/t/big.bin"))
        client.read_exactly(1000)
        client.reset()
    assert fetch(server, "/t/digits.txt").status == 200


def test_goodbye_in_mid_download(server: Server) -> None:
    """A client that half-closes and resets during a large download disturbs no other client. After
    the half-close the kernel reports EPIPE with a signal, not ECONNRESET."""
    for _ in range(3):
        client = Client(server, receive_buffer=4096)
        client.send(request("GET", "/t/big.bin"))
        client.read_exactly(1000)
        client.half_close()
        client.reset()
        assert fetch(server, "/t/digits.txt").status == 200


def test_date_and_server(server: Server) -> None:
    """Each final response has the fields Date and Server."""
    for target in ("/t/digits.txt", "/guestbook", "/t/plain", "/t/none", "/t/sub", "/sorted"):
        response = fetch(server, target)
        assert response.field("Server") == "ZeroHTTPd-Seven"
        date = response.field("Date") or ""
        assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", date)
        assert abs(parsedate_to_datetime(date).timestamp() - time.time()) < 120


def test_date_moves_on(server: Server) -> None:
    """The Date of the responses advances."""
    first = fetch(server, "/t/digits.txt").field("Date")
    wait_until(lambda: fetch(server, "/t/digits.txt").field("Date") != first, "the Date changes")


def test_head_is_get_without_body(server: Server, store: RedisClient) -> None:
    """HEAD gives the same status and fields as GET (RFC 9110, section 9.3.2)."""
    store.do("SET", "visitor_count", 500)
    store.do("SET", "link:there", "/t/a.txt")
    targets = ("/", "/t/80k.bin", "/t/big.bin", "/t/empty.txt", "/guestbook", "/sorted", "/t/sub")
    for target in (*targets, "/t/plain", "/go/there", "/go/nowhere", "/t/none", "/t/%zz"):
        close = (("Connection", "close"),)
        with Client(server) as client:
            client.send(request("HEAD", target, close))
            head = client.read("HEAD")
            assert client.read_to_end() == b"", target
        with Client(server) as client:
            client.send(request("GET", target, close))
            response = Response(client.read_head(), b"")
            same = [(k, v) for k, v in response.fields if k != "Date"]
        assert [(k, v) for k, v in head.fields if k != "Date"] == same, target


def test_nothing_sent(server: Server) -> None:
    """A client that connects and leaves without a request gets nothing."""
    with Client(server) as client:
        client.half_close()
        assert client.read_to_end() == b""
