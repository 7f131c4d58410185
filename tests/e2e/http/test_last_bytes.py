# SPDX-License-Identifier: MIT
"""The end of a connection rides on its last bytes, and whatever comes between them loses nothing.

Between the call that sends the last bytes and the one that ends the connection they wait in the
kernel. There a process can be killed or stopped, the reader of the log can be slow, and a client
can have sent what nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..claims import CLOSE
from ..client import Client, fetch, request
from ..conftest import Start
from ..faults import FaultyServer, Plan
from ..harness import Server
from ..limits.test_small_machine import redirected
from ..redisbox import PrivateRedis

LAST, KEPT = (request("GET", "/t/digits.txt", fields) for fields in (CLOSE, ()))
PIECES = {"/t/digits.txt": "send", "/t/80k.bin": "sendfile"}
"""By which call the last bytes leave."""
# linux/tcp.h: where struct tcp_info has tcpi_segs_in.
SEGMENTS_IN = 140


def _segments(server: Server, raw: bytes, ends: bool) -> int:
    """How many packets it took from connecting to the response, or to the end behind it."""
    with Client(server) as client:
        assert client.exchange(raw).status == 200
        if ends:
            assert client.read_to_end() == b""
        info = client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (segments,) = struct.unpack_from("I", info, SEGMENTS_IN)
    assert isinstance(segments, int)
    return segments


def _fewest(server: Server, raw: bytes, ends: bool) -> int:
    """Of many: how a kernel that is busy acknowledges is its own affair."""
    return min(_segments(server, raw, ends) for _ in range(30))


@pytest.mark.parametrize("target", PIECES)
def test_end_costs_no_packet(server: Server, target: str) -> None:
    """The last bytes and the end are one packet, whether the client asked for the end or the server
    did. (A file of 80 KB that ends a connection even takes one packet less than one that does not:
    the kernel fills them all.)"""
    last, kept = (request("GET", target, fields) for fields in (CLOSE, ()))
    with_end = _fewest(server, last, ends=True)
    assert with_end == _fewest(server, last, ends=False)
    assert with_end <= _fewest(server, kept, ends=not server.kind.keeps_alive)


@pytest.fixture
def faulty(binary: Path, site: Path, redis: PrivateRedis, tmp_path: Path) -> Iterator[FaultyServer]:
    """One whose processes can be sent a signal behind a call. It is killed in the end: what a
    killed process would have said at its end is lost anyway."""
    options = ("--no-confinement", "--workers", "2")
    server = FaultyServer(binary, site, redis.url(262), options, plan=Plan(tmp_path / "plan"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.mark.plain_build("a sanitizer's own library must be the first one")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("target", PIECES)
def test_process_is_gone_between(faulty: FaultyServer, target: str, number: int) -> None:
    """Killed behind the call that has sent: the kernel closes, and the response arrives. Stopped:
    the kernel waits a fifth of a second, and then for nobody."""
    plan = faulty.plan
    assert plan is not None
    right = fetch(faulty, target, *CLOSE)
    plan.arm(PIECES[target], 1, -number)
    with Client(faulty) as client:
        response = client.exchange(request("GET", target, CLOSE))
        assert (response.status, response.body) == (right.status, right.body)
        if number == signal.SIGKILL:
            assert client.read_to_end() == b""
    assert plan.disarm()


def test_log_is_not_read(start: Start, tmp_path: Path) -> None:
    """A pipe full of lines that nobody reads holds a server up, but neither the response that the
    next line is about nor the end of its connection."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    server = start("--log", prefix=redirected(f"> '{pipe}'"))
    writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.close(writer)
    with Client(server) as client:
        assert client.exchange(LAST).body == b"0123456789"
        assert client.read_to_end() == b""
    server.finish()
    os.close(reader)


@pytest.mark.parametrize("late", [b"\r\n", KEPT])
def test_bytes_that_nobody_reads(start: Start, late: bytes) -> None:
    """A client that asked for the end sends more all the same, if only an empty line (RFC 9112,
    section 2.2): that resets its connection, but behind the response."""
    with PrivateRedis() as redis:
        server = start(redis=redis.url())
        right = fetch(server, "/guestbook", *CLOSE)
        redis.pause()
        with Client(server) as client:
            client.send(request("GET", "/guestbook", CLOSE))
            client.wait_until_read()
            client.send(late)
            redis.resume()
            response = client.read()
        assert (response.status, len(response.body)) == (200, len(right.body))


def test_empty_line_is_no_request(start: Start) -> None:
    """Who sends an empty line behind a request (RFC 9112, section 2.2) has not begun the next one:
    the idle connection ends without a word, be it by time or because the server stops."""
    server = start("--time-scale", "10")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    with Client(server) as client:
        for _ in range(2):
            assert client.exchange(KEPT).status == 200
            client.send(b"\r\n")
        assert client.read_to_end() == b""
    with Client(server) as client:
        assert client.exchange(KEPT).status == 200
        client.send(b"\r\n")
        client.wait_until_read()
        assert server.stop() == 0
        assert client.read_to_end() == b""


def test_next_request_has_come(start: Start) -> None:
    """A client that was not told before gets its response though it has sent another request,
    which nobody reads, so that its connection is reset."""
    with PrivateRedis() as redis:
        server = start(redis=redis.url())
        fetch(server, "/guestbook")
        redis.pause()
        with Client(server) as client:
            client.send(request("GET", "/guestbook"))
            client.wait_until_read()
            server.begin_to_stop(busy=1)  # so it is the last one here; the client cannot know
            client.send(KEPT)
            redis.resume()
            response = client.read()
        assert response.status == 200
        assert response.closes
        assert server.wait() == 0


def test_bytes_behind_a_long_response(start: Start) -> None:
    """Much of a long response is still on its way when the server has handed over all of it. What
    the client sends meanwhile costs it nothing."""
    size = 1 << 20
    part = request("GET", "/t/big.bin", (*CLOSE, ("Range", f"bytes=0-{size - 1}")))
    with Client(start(), receive_buffer=1 << 16) as client:
        client.send(part)
        assert client.read_head().startswith(b"HTTP/1.1 206")
        for _ in range(64):
            assert len(client.read_exactly(size // 64)) == size // 64
            client.send_if_open(KEPT)
        assert client.read_to_end() == b""
