# SPDX-License-Identifier: MIT
"""Tests of 08_io_uring only."""

import errno
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from .. import processes
from ..client import CLOSE, request
from ..harness import Server, Start, of
from ..redisbox import PrivateRedis
from ..timing import wait_until
from ..tracing import Trace, skip_unless_traceable
from .test_confinement import intrude

pytestmark = [of("io_uring"), pytest.mark.plain_build("sanitizers make calls of their own")]
REQUESTS = 20
MOVES_BYTES = {"accept4", "recvfrom", "sendto", "sendmsg", "epoll_wait", "poll"}


@pytest.mark.parametrize("fields", [(), CLOSE], ids=["kept", "closed"])
def test_calls_of_a_request(
    start: Start, tmp_path: Path, fields: tuple[tuple[str, str], ...]
) -> None:
    """The kernel accepts, receives and sends, so a request needs no call except io_uring_enter. To
    end a connection the server also calls shutdown and close."""
    skip_unless_traceable()
    server = start()
    server.get("/redirect")
    trace = Trace(server, tmp_path / "trace")
    with server.client() as client:
        for _ in range(REQUESTS):
            if fields:
                assert server.get("/redirect", *fields).status == 302
            else:
                assert client.exchange(request("GET", "/redirect")).status == 302
    assert server.stop() == 0
    calls = Counter(trace.calls())
    assert not MOVES_BYTES & {name for name, count in calls.items() if count >= REQUESTS}
    assert calls["io_uring_enter"] >= REQUESTS / 2
    ends = min(calls["shutdown"], calls["close"])
    assert (ends >= REQUESTS) == bool(fields)


def test_intruder_in_the_ring(binary: Path, site: Path, redis: PrivateRedis) -> None:
    """The ring refuses operations that open a file, make a socket or connect, because seccomp
    cannot see them. This is true even with --no-confinement."""
    for options in ((), ("--no-confinement",)):
        got = intrude(binary, site, redis, *options)
        tried = {name: error for name, error in got.items() if name.startswith("ring_")}
        assert tried == dict.fromkeys(("ring_open", "ring_socket", "ring_connect"), errno.EACCES)


def test_urgent_data(server: Server) -> None:
    """Urgent bytes (MSG_OOB) create at most one worker thread. Each byte wakes a receive operation
    without data; after 128 times the kernel gives the operation to a worker thread. Takes 2 s."""
    with server.crowd(20, b"G") as clients:
        for _ in range(140):
            for client in clients:
                client.socket.send(b"x", socket.MSG_OOB)
            time.sleep(0.005)  # each byte wakes the operation once more
        assert len(processes.tasks(server.pid)) <= 2
        assert server.get("/t/digits.txt").status == 200


def test_stop_while_a_client_reads_slowly(start: Start) -> None:
    """A server with a slow reader ends when its time to stop is over (7 s). A cancelled send may
    have sent a part of its bytes, so the server sends nothing more."""
    server = start()
    with server.client(receive_buffer=2048) as client:
        client.socket.setblocking(False)
        client.socket.send(request("GET", "/sorted") * 200)
        time.sleep(0.5)
        server.send_signal(signal.SIGTERM)

        def has_ended() -> bool:
            client.sip(2000)
            return not server.running()

        wait_until(has_ended, "its time to stop is over")
    assert server.wait() == 0
