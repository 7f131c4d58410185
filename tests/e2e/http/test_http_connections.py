# SPDX-License-Identifier: MIT
"""Connections: pipelining, keep-alive, interim responses, half-closes, resets, closing."""

import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..client import CLOSE, FORM, KEPT, REDIS_TIME, Fields, form, request
from ..faults import FaultyServer
from ..harness import Server, Start, of_kind
from ..markup import remarks
from ..redisbox import PrivateRedis, RedisClient
from ..timing import undisturbed_test, wait_until
from .cases import BODY, CASES, CHUNKS

REMARK = b"smuggled - smuggler"


@of_kind("keeps_alive")
def test_pipelined_in_one_segment(server: Server, store: RedisClient) -> None:
    """Many requests in one segment are answered in order, although some need more time."""
    store.do("SET", "link:there", "/t/a.txt")
    body = form(guest_name="Ann", guest_remarks="in between")
    targets = ["/t/digits.txt", "/guestbook", "/go/there", "/t/none", "/t/plain", "/sorted"]
    post = request("POST", "/guestbook", (FORM,), body)
    with server.client() as client:
        client.send((b"".join(request("GET", t) for t in targets) + post) * 10)
        statuses = [client.read().status for _ in range(70)]
        assert statuses == [200, 200, 302, 404, 302, 200, 303] * 10
        assert client.is_quiet(0.1)
    assert store.remarks() == [b"in between - Ann"] * 10
    assert store.number("visitor_count") == 10


@of_kind("not keeps_alive")
def test_closes_after_each_response(server: Server) -> None:
    for raw in (KEPT, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
        with server.client() as client:
            client.send_if_open(raw * 3)
            response = client.read()
            assert response.status == 200
            assert response.closes
            assert client.read_to_end() == b""


@of_kind("keeps_alive")
def test_limit_of_requests_per_connection(server: Server) -> None:
    with server.client() as client:
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
        with server.client() as client:
            client.send(raw)
            client.half_close()
            assert not client.read_to_end().startswith(b"HTTP/1.1 2")


def test_resets(server: Server, store: RedisClient) -> None:
    """Clients that reset their connection at any point of an exchange disturb no other client."""
    post = request("POST", "/guestbook", (FORM,), b"guest-name=a&guest-remarks=b")
    for raw in (b"", b"GET /t/di", post[:-5], KEPT, request("GET", "/t/big.bin"), KEPT * 50):
        for pause in (0.0, 0.02):
            client = server.client()
            client.send(raw)
            time.sleep(pause)
            client.reset()
            assert server.get("/t/digits.txt").body == b"0123456789"
    for _ in range(20):
        client = server.client()
        client.send(request("GET", "/guestbook"))
        client.reset()
    for _ in range(3):  # after a half-close the kernel reports EPIPE with a signal, not ECONNRESET
        client = server.client(receive_buffer=4096)
        client.send(request("GET", "/t/big.bin"))
        client.read_exactly(1000)
        client.half_close()
        client.reset()
        assert server.get("/t/digits.txt").status == 200
    assert server.sign("Ann", "still here").status == 303
    assert "still here - Ann" in remarks(server.get("/guestbook").text)


def test_date_moves_on(server: Server) -> None:
    first = server.get("/t/digits.txt").field("Date")
    wait_until(lambda: server.get("/t/digits.txt").field("Date") != first, "the Date changes")


@of_kind("keeps_alive")
@pytest.mark.shared_code
def test_pipelined_after_a_body(server: Server, store: RedisClient) -> None:
    """The next request begins directly after a body, also after the body of a GET, which has no
    meaning (RFC 9110, section 9.3.1)."""
    posts = [case.raw for case in CASES["bodies"] if case.statuses == (303,)]
    raws = [*posts, request("GET", "/t/digits.txt", (), b"GET /none HTTP/1.1\r\n\r\n")]
    with server.client() as client:
        client.send(b"".join(raw + KEPT for raw in raws))
        statuses = [client.read().status for _ in range(2 * len(raws))]
    assert statuses == [303, 200] * len(posts) + [200, 200]
    assert store.remarks() == [REMARK] * len(posts)


LENGTH, CHUNKED = ("Content-Length", str(len(BODY))), ("Transfer-Encoding", "chunked")


@pytest.mark.shared_code
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("how", [LENGTH, CHUNKED])
def test_expect_continue(
    server: Server, store: RedisClient, at_once: bool, how: tuple[str, str]
) -> None:
    """The server sends 100 before the client has sent a byte of the body. If a client sends the
    body without waiting, the 100 is optional. In both cases there is one final response."""
    fields: Fields = (FORM, ("Expect", "100-Continue"), how)
    body = CHUNKS if how == CHUNKED else BODY
    with server.client() as client:
        client.send(request("POST", "/guestbook", fields) + (body if at_once else b""))
        response = client.read()
        if not at_once:
            assert response.head == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(body)
        assert (client.read() if response.status == 100 else response).status == 303
    assert store.remarks() == [REMARK]


# ---- The last bytes ----
#
# The last bytes wait in the kernel between the calls that send and close. In this time a process
# can be killed or stopped, or a client can send data that the server never reads.

PIECES = {"/t/digits.txt": "send", "/t/80k.bin": "sendfile"}
"""For each target the call that sends the last bytes of the response."""
# linux/tcp.h: the offset of tcpi_segs_in in struct tcp_info.
SEGMENTS_IN = 140


def _fewest(server: Server, raw: bytes, ends: bool) -> int:
    """Return how many segments a client receives until the response, or until the FIN if `ends`. It
    is the lowest number of 30 tries, because a busy kernel acknowledges more often."""

    def segments() -> int:
        with server.client() as client:
            assert client.exchange(raw).status == 200
            assert not ends or client.read_to_end() == b""
            info = client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int(struct.unpack_from("I", info, SEGMENTS_IN)[0])

    return min(segments() for _ in range(30))


@pytest.mark.parametrize("target", PIECES)
def test_end_costs_no_packet(server: Server, target: str) -> None:
    """The last bytes and the FIN are one segment, so the end of a connection costs no segment."""
    last, kept = (request("GET", target, fields) for fields in (CLOSE, ()))
    with_end = _fewest(server, last, ends=True)
    assert with_end == _fewest(server, last, ends=False)
    assert with_end <= _fewest(server, kept, ends=not server.kind.keeps_alive)


@pytest.fixture
def faulty(binary: Path, site: Path, redis: PrivateRedis) -> Iterator[FaultyServer]:
    """Yield a server in which a call can raise a signal; kill the server afterwards."""
    options = ("--no-confinement", "--workers", "2")
    server = FaultyServer(binary, site, redis.url(redis.unused()), options)
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.mark.plain_build("a sanitizer's own library must be the first one")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("target", PIECES)
def test_process_is_gone_between(faulty: FaultyServer, target: str, number: int) -> None:
    """The response arrives although the process is killed or stopped between send and close. If it
    is stopped, the kernel waits 0.2 s before it sends the last bytes."""
    if faulty.kind.completes and PIECES[target] == "send":
        pytest.skip("the kernel sends, shuts down and closes without returning to the process")
    right = faulty.get(target, *CLOSE)
    faulty.plan.arm(PIECES[target], 1, -number)
    with faulty.client() as client:
        response = client.exchange(request("GET", target, CLOSE))
        assert (response.status, response.body) == (right.status, right.body)
        if number == signal.SIGKILL:
            assert client.read_to_end() == b""
    assert faulty.plan.disarm()


@pytest.mark.parametrize(("late", "stops"), [(b"\r\n", False), (KEPT, False), (KEPT, True)])
@undisturbed_test(REDIS_TIME)
def test_bytes_that_the_server_does_not_read(
    start: Start, own: PrivateRedis, late: bytes, stops: bool
) -> None:
    """A client that sends more data after its last request gets the response before a reset. The
    data may be an empty line (RFC 9112, section 2.2). The request is the last because of
    `Connection: close`, or because the server stops."""
    server = start(redis=own.url())
    right = server.get("/guestbook", *CLOSE)
    with server.client() as client:
        with own.paused():
            client.send_read(request("GET", "/guestbook", () if stops else CLOSE))
            if stops:
                server.begin_to_stop(busy=1)
            client.send(late)
        response = client.read()
    assert (response.status, len(response.body), response.closes) == (200, len(right.body), True)
    assert not stops or server.wait() == 0


@of_kind("keeps_alive")
def test_empty_line_is_no_request(start: Start) -> None:
    """An empty line after a request (RFC 9112, section 2.2) begins no new request. If the server
    stops, the idle connection ends without a response. (The timeout: limits/test_timeouts.py.)"""
    server = start()
    with server.client() as client:
        for _ in range(2):
            assert client.exchange(KEPT).status == 200
            client.send_read(b"\r\n")
        assert server.stop() == 0
        assert client.read_to_end() == b""


def test_bytes_behind_a_long_response(start: Start) -> None:
    """A client gets a whole long response although it sends more requests meanwhile."""
    size = 1 << 20
    part = request("GET", "/t/big.bin", (*CLOSE, ("Range", f"bytes=0-{size - 1}")))
    with start().client(receive_buffer=1 << 16) as client:
        client.send(part)
        assert client.read_head().startswith(b"HTTP/1.1 206")
        for _ in range(64):
            assert len(client.read_exactly(size // 64)) == size // 64
            client.send_if_open(KEPT)
        assert client.read_to_end() == b""
