# SPDX-License-Identifier: MIT
"""The FIN is merged into the last segment, and events between the two calls lose no data.

The last bytes wait in the kernel between the call that sends them and the call that closes. In this
time a process can be killed or stopped, the log's reader can be slow, or a client can send data
that the server never reads.
"""

import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..claims import CLOSE, KEPT, REDIS_TIME, of_kind
from ..client import Client, fetch, request
from ..conftest import Start
from ..faults import FaultyServer
from ..harness import Server
from ..redisbox import PrivateRedis
from ..timing import undisturbed_test

PIECES = {"/t/digits.txt": "send", "/t/80k.bin": "sendfile"}
"""The call that sends the last bytes."""
# linux/tcp.h: the offset of tcpi_segs_in in struct tcp_info.
SEGMENTS_IN = 140


def _segments(server: Server, raw: bytes, ends: bool) -> int:
    """Return how many segments arrived from the connect to the response, or to the FIN after it."""
    with Client(server) as client:
        assert client.exchange(raw).status == 200
        if ends:
            assert client.read_to_end() == b""
        info = client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (segments,) = struct.unpack_from("I", info, SEGMENTS_IN)
    assert isinstance(segments, int)
    return segments


def _fewest(server: Server, raw: bytes, ends: bool) -> int:
    """Return the fewest segments of many tries: a busy kernel acknowledges more often."""
    return min(_segments(server, raw, ends) for _ in range(30))


@pytest.mark.parametrize("target", PIECES)
def test_end_costs_no_packet(server: Server, target: str) -> None:
    """The last bytes and the FIN are one segment, whether the client or the server ends the
    connection. A file of 80 KB that ends a connection even needs one segment less: the kernel fills
    all of them."""
    last, kept = (request("GET", target, fields) for fields in (CLOSE, ()))
    with_end = _fewest(server, last, ends=True)
    assert with_end == _fewest(server, last, ends=False)
    assert with_end <= _fewest(server, kept, ends=not server.kind.keeps_alive)


@pytest.fixture
def faulty(binary: Path, site: Path, redis: PrivateRedis) -> Iterator[FaultyServer]:
    """Yield a server that a test can signal after a call; at the end it is killed."""
    options = ("--no-confinement", "--workers", "2")
    server = FaultyServer(binary, site, redis.url(4062), options)
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.mark.plain_build("a sanitizer's own library must be the first one")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("target", PIECES)
def test_process_is_gone_between(faulty: FaultyServer, target: str, number: int) -> None:
    """A process killed after its send: the kernel closes, and the response arrives. A stopped
    process: the kernel waits 0.2 s, then sends the response anyway."""
    if faulty.kind.completes and PIECES[target] == "send":
        pytest.skip("the kernel sends, ends and closes without the process between")
    right = fetch(faulty, target, *CLOSE)
    faulty.plan.arm(PIECES[target], 1, -number)
    with Client(faulty) as client:
        response = client.exchange(request("GET", target, CLOSE))
        assert (response.status, response.body) == (right.status, right.body)
        if number == signal.SIGKILL:
            assert client.read_to_end() == b""
    assert faulty.plan.disarm()


@pytest.mark.parametrize(("late", "stops"), [(b"\r\n", False), (KEPT, False), (KEPT, True)])
@undisturbed_test(REDIS_TIME)
def test_bytes_that_nobody_reads(start: Start, late: bytes, stops: bool) -> None:
    """A client that sends more after its last request, even an empty line (RFC 9112, section 2.2),
    resets its connection, but only after the response. The request is the last because it asks for
    close, or because the server stops; then the client cannot know it."""
    with PrivateRedis() as redis:
        server = start(redis=redis.url())
        right = fetch(server, "/guestbook", *CLOSE)
        with Client(server) as client:
            with redis.paused():
                client.send_read(request("GET", "/guestbook", () if stops else CLOSE))
                if stops:
                    server.begin_to_stop(busy=1)
                client.send(late)
            response = client.read()
        assert (response.status, len(response.body)) == (200, len(right.body))
        assert response.closes
        assert not stops or server.wait() == 0


@of_kind("keeps_alive")
def test_empty_line_is_no_request(start: Start) -> None:
    """An empty line after a request (RFC 9112, section 2.2) begins no new request: the idle
    connection ends without a response, by timeout or because the server stops."""
    server = start("--time-scale", "10")
    with Client(server) as client:
        for _ in range(2):
            assert client.exchange(KEPT).status == 200
            client.send(b"\r\n")
        assert client.read_to_end() == b""
    with Client(server) as client:
        assert client.exchange(KEPT).status == 200
        client.send_read(b"\r\n")
        assert server.stop() == 0
        assert client.read_to_end() == b""


def test_bytes_behind_a_long_response(start: Start) -> None:
    """Bytes that arrive while a long response is in the kernel cost no byte of it."""
    size = 1 << 20
    part = request("GET", "/t/big.bin", (*CLOSE, ("Range", f"bytes=0-{size - 1}")))
    with Client(start(), receive_buffer=1 << 16) as client:
        client.send(part)
        assert client.read_head().startswith(b"HTTP/1.1 206")
        for _ in range(64):
            assert len(client.read_exactly(size // 64)) == size // 64
            client.send_if_open(KEPT)
        assert client.read_to_end() == b""
