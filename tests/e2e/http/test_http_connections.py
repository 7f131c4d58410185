# SPDX-License-Identifier: MIT
"""Connections: pipelining, keep-alive, interim responses, half-closes and resets."""

import time

import pytest

from ..claims import KEPT, of_kind
from ..client import FORM, Client, Fields, fetch, form, request, sign
from ..harness import Server
from ..markup import remarks
from ..redisbox import RedisClient
from ..timing import wait_until
from .cases import BODY, CASES, CHUNKS

REMARK = b"smuggled - smuggler"


@of_kind("keeps_alive")
def test_pipelined_in_one_segment(server: Server, store: RedisClient) -> None:
    """Many requests in one segment are answered in order, although some need more time."""
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


@of_kind("keeps_alive")
def test_1_0_keep_alive(server: Server) -> None:
    """HTTP/1.0 with keep-alive stays open, and the response says so (ab -k needs it)."""
    with Client(server) as client:
        for word in (b"keep-alive", b"Keep-Alive", b"keep-alive"):
            raw = b"GET /t/digits.txt HTTP/1.0\r\nConnection: " + word + b"\r\n\r\n"
            response = client.exchange(raw)
            assert response.body == b"0123456789"
            assert (response.field("Connection") or "").lower() == "keep-alive"


@of_kind("not keeps_alive")
def test_closes_after_each_response(server: Server) -> None:
    """A server without keep-alive sends close in each response and then closes."""
    for raw in (KEPT, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
        with Client(server) as client:
            client.send_if_open(raw * 3)
            response = client.read()
            assert response.status == 200
            assert response.closes
            assert client.read_to_end() == b""


@of_kind("keeps_alive")
def test_limit_of_requests_per_connection(server: Server) -> None:
    """The thousandth response has close, and the connection ends with it."""
    with Client(server) as client:
        for _ in range(10):
            client.send(KEPT * 100)
            last = [client.read() for _ in range(100)]
        assert [r.closes for r in last] == [False] * 99 + [True]
        client.send_if_open(KEPT)
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
    for raw in (b"", b"GET /t/di", post[:-5], KEPT, request("GET", "/t/big.bin"), KEPT * 50):
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


def test_date_moves_on(server: Server) -> None:
    """The Date of the responses advances."""
    first = fetch(server, "/t/digits.txt").field("Date")
    wait_until(lambda: fetch(server, "/t/digits.txt").field("Date") != first, "the Date changes")


@of_kind("keeps_alive")
@pytest.mark.shared_code
def test_pipelined_after_a_body(server: Server, store: RedisClient) -> None:
    """The next request begins directly after a body, also after a body of a GET, which means
    nothing (RFC 9110, section 9.3.1)."""
    posts = [case.raw for case in CASES["bodies"] if case.statuses == (303,)]
    raws = [*posts, request("GET", "/t/digits.txt", (), b"GET /none HTTP/1.1\r\n\r\n")]
    with Client(server) as client:
        client.send(b"".join(raw + KEPT for raw in raws))
        statuses = [client.read().status for _ in range(2 * len(raws))]
    assert statuses == [303, 200] * len(posts) + [200, 200]
    assert store.remarks() == [REMARK] * len(posts)


LENGTH, CHUNKED = ("Content-Length", str(len(BODY))), ("Transfer-Encoding", "chunked")


@pytest.mark.shared_code
@pytest.mark.parametrize("value", ["100-continue", "100-Continue"])
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("how", [LENGTH, CHUNKED])
def test_expect_continue(
    server: Server, store: RedisClient, value: str, at_once: bool, how: tuple[str, str]
) -> None:
    """The server sends 100 before the client has sent a byte of the body. A client that does not
    wait for it may still get it, and gets one final response."""
    fields: Fields = (FORM, ("Expect", value), how)
    body = CHUNKS if how == CHUNKED else BODY
    with Client(server) as client:
        client.send(request("POST", "/guestbook", fields) + (body if at_once else b""))
        response = client.read()
        if not at_once:
            assert response.head == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(body)
        assert (client.read() if response.status == 100 else response).status == 303
    assert store.remarks() == [REMARK]


@pytest.mark.shared_code
def test_expect_continue_in_1_0(server: Server, store: RedisClient) -> None:
    """A client of HTTP/1.0 gets no 100 (RFC 9110, section 10.1.1)."""
    head = request("POST", "/guestbook", (FORM, ("Expect", "100-continue"), LENGTH))
    with Client(server) as client:
        client.send(head.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert client.is_quiet(0.3)
        client.send(BODY)
        assert client.read().status == 303
    assert store.remarks() == [REMARK]
