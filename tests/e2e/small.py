# SPDX-License-Identifier: MIT
"""Helpers of the tests of small machines: limits, and how a server behaves under them."""

import contextlib
import time

import psutil

from .claims import crowd
from .client import fetch, request, sign
from .conftest import Start
from .harness import Server
from .timing import wait_until

CLOSING = request("GET", "/redirect", (("Connection", "close"),))
HOME = request("GET", "/", (("Connection", "close"),))
KEPT_HOME = request("GET", "/")
TARGETS = ("/t/digits.txt", "/guestbook", "/sorted", "/t/80k.bin", "/redirect")


def limited(**limits: int) -> tuple[str, ...]:
    """Return the prefix of a command that runs under limits, hard and soft: limited(nofile=20)."""
    return ("prlimit", *(f"--{name}={limit}:{limit}" for name, limit in limits.items()), "--")


def redirected(how: str) -> tuple[str, ...]:
    """Return the prefix of a command whose descriptors a shell redirects as `how` says."""
    return ("sh", "-c", f'exec "$0" "$@" {how}')


def started_or_said(start: Start, *options: str, prefix: tuple[str, ...]) -> Server | None:
    """Return the running server, None if it ended with one line that says what is missing."""
    try:
        server = start(*options, prefix=prefix)
        # Workers are made after the banner: these may be too many.
        wait_until(lambda: not server.running() or _answers(server), "it answers, or ends")
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
        return fetch(server, "/t/digits.txt").status == 200
    except OSError:
        return False


def assert_serves(server: Server) -> None:
    """Assert that everything is served, to one client after another."""
    for target in TARGETS:
        reply = fetch(server, target)
        assert reply.status in (200, 302), (target, reply.status, server.stderr)
    assert sign(server, "Ann", "small").status == 303


def cpu_seconds(server: Server) -> float:
    """Return the CPU time of all its processes so far, also of those that have ended."""
    total = 0.0
    for pid in server.pids():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            total += sum(psutil.Process(pid).cpu_times()[:4])  # its own, and its children's
    return total


def assert_rests(server: Server) -> None:
    """Assert that a server which can do nothing now does nothing: it does not spin. A server that
    spins uses a core, or its share of one; with a check every 20 ms it uses 1% of that. What it
    began before may end in the first of three intervals, but not in all."""

    def rests() -> bool:
        before = cpu_seconds(server)
        time.sleep(0.6)
        return cpu_seconds(server) - before < 0.06

    assert any(rests() for _ in range(3)), f"{server.name} spins"


def assert_serves_crowd(server: Server, count: int) -> None:
    """Assert that more clients than the limits allow at once are all answered. Meanwhile no process
    spins; afterwards all is as before."""
    with crowd(server, count, CLOSING[:-2]) as clients:
        assert_rests(server)
        for client in clients:
            client.send_if_open(CLOSING[-2:])
        assert [client.read().status for client in clients] == [302] * count
    assert_serves(server)
