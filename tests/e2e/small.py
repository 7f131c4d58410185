# SPDX-License-Identifier: MIT
"""Helpers for tests with low limits: set limits, and check how a server behaves under them."""

import contextlib
import os
import time

import psutil

from .client import request
from .harness import Server, Start
from .timing import wait_until

CLOSING = request("GET", "/redirect", (("Connection", "close"),))
HOME = request("GET", "/", (("Connection", "close"),))
KEPT_HOME = request("GET", "/")
TARGETS = ("/t/digits.txt", "/guestbook", "/sorted", "/t/80k.bin", "/redirect")


def limited(**limits: int) -> tuple[str, ...]:
    """Return the prefix of a command with hard and soft limits: limited(nofile=20)."""
    return ("prlimit", *(f"--{name}={limit}:{limit}" for name, limit in limits.items()), "--")


def redirected(how: str) -> tuple[str, ...]:
    """Return the prefix of a command whose descriptors a shell redirects as `how` says."""
    return ("sh", "-c", f'exec "$0" "$@" {how}')


def fill(pipe: int) -> None:
    """Fill a pipe. A write of up to a page is atomic (pipe(7)), so single bytes fill the space that
    is too small for a page."""
    os.set_blocking(pipe, False)
    for length in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, b"x" * length)
    os.set_blocking(pipe, True)


def started_or_said(start: Start, *options: str, prefix: tuple[str, ...]) -> Server | None:
    """Return the running server; None if it ended with a line that says which limit is too low."""
    try:
        server = start(*options, prefix=prefix)
        # The server starts workers after its banner, and there may be too many for the limit.
        wait_until(lambda: not server.running() or _answers(server), "it answers or ends")
    except AssertionError as error:
        if "exited with 1" not in str(error):
            raise
        return None
    if server.running():
        return server
    assert server.wait() == 1, server.stderr
    assert server.stderr.count("\n") == 1, server.stderr
    assert server.stderr.startswith(f"{server.name}: ")
    assert any(word in server.stderr for word in ("give", "allow")), server.stderr
    return None


def _answers(server: Server) -> bool:
    try:
        return server.get("/t/digits.txt").status == 200
    except OSError:
        return False


def assert_serves(server: Server) -> None:
    """Assert that everything is served, to one client after another."""
    for target in TARGETS:
        reply = server.get(target)
        assert reply.status in (200, 302), (target, reply.status, server.stderr)
    assert server.sign("Ann", "small").status == 303


def assert_serves_without_redis(server: Server) -> None:
    """Assert that the server serves everything that does not need Redis."""
    statuses = {"/t/plain": 302, "/sorted": 200, "/t/none": 404}
    assert {target: server.get(target).status for target in statuses} == statuses
    assert server.get("/t/digits.txt").body == b"0123456789"


def cpu_seconds(server: Server) -> float:
    """Return the CPU time in seconds of all processes of a server, also of ended processes."""
    total = 0.0
    for pid in server.pids():
        with contextlib.suppress(psutil.NoSuchProcess):  # the process has ended
            total += sum(psutil.Process(pid).cpu_times()[:4])  # its own, and its children's
    return total


def assert_rests(server: Server) -> None:
    """Assert that a server without work does not spin. A spinning server uses a core or its share
    of a core; a server that wakes every 20 ms uses 1% of that. Earlier work may end in the first of
    three intervals."""

    def rests() -> bool:
        before = cpu_seconds(server)
        time.sleep(0.3)
        return cpu_seconds(server) - before < 0.03

    assert any(rests() for _ in range(3)), f"{server.name} spins"


def assert_serves_crowd(server: Server, count: int) -> None:
    """Assert that the server answers more simultaneous clients than its limits allow, does not spin
    meanwhile, and serves everything afterwards."""
    with server.crowd(count, CLOSING[:-2]) as clients:
        assert_rests(server)
        for client in clients:
            client.send_if_open(CLOSING[-2:])
        assert [client.read().status for client in clients] == [302] * count
    assert_serves(server)
