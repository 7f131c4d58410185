# SPDX-License-Identifier: MIT
"""The servers' claims about the limit, a crash and an idle client; see test_claims.py."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import processes
from ..claims import (
    DIGITS,
    HALF,
    HALF_TIME,
    KEPT,
    WORKERS,
    answer,
    crowd,
    limit,
    of,
    says,
)
from ..client import Client, EndOfStreamError, fetch, request
from ..conftest import Start
from ..harness import Server
from ..processes import status_number
from ..redisbox import PrivateRedis
from ..small import limited
from ..sockets import backlog, longest_backlog
from ..timing import undisturbed, wait_until
from ..tracing import call_of, skip_unless_visible, waiting

# ---- What happens at the limit? ----


@of("iterative", "preforking", "prethreading")
def test_the_rest_wait_in_the_backlog(start: Start) -> None:
    """01, 03: clients that are not served wait in the kernel; 05: in a queue of the main thread."""
    says(
        "All others wait for the process, in the kernel's backlog.",
        "one client that stalls stops all others until its timeout",
        "N workers serve N connections; the next waits in the backlog until one ends.",
        "N threads serve N connections; the next waits in the queue until one ends.",
        "the next wait in a queue of the main thread",
    )
    server = start("--workers", str(WORKERS))
    holders = 1 if server.name == "iterative" else WORKERS

    def attempt() -> None:
        with crowd(server, holders, HALF) as holding:
            for client in holding:
                client.wait_until_read()
            with crowd(server, 3, DIGITS) as others:
                in_kernel = 0 if server.name == "prethreading" else 3
                wait_until(lambda: backlog(server.port) == in_kernel, f"{in_kernel} wait")
                assert all(client.is_quiet(0.1) for client in others)
                answer(holding)
                assert [client.read().status for client in others] == [200] * 3

    undisturbed(HALF_TIME, attempt)


@of("prethreading")
def test_queue_holds_more_than_the_backlog(start: Start) -> None:
    """05: the main thread accepts all connections until no descriptors are left."""
    says(
        "The queue is why this server holds more connections than the kernel's backlog",
        "at the limit of descriptors it sleeps in sem_wait()",
    )
    skip_unless_visible()
    server = start("--workers", "2", "--backlog", "4", prefix=limited(nofile=64))

    def attempt() -> None:
        with contextlib.ExitStack() as stack:
            count = 0
            while call_of(server.pid, server.pid)[0] != "futex":
                stack.enter_context(Client(server)).send(HALF)
                count += 1
                wait_until(lambda: _main_sleeps(server), "it has been accepted")
            assert count > 4 + 2
            stack.enter_context(Client(server)).send(HALF)
            wait_until(lambda: backlog(server.port) == 1, "one waits in the backlog")

    undisturbed(HALF_TIME, attempt)


def _main_sleeps(server: Server) -> bool:
    name = call_of(server.pid, server.pid)[0]
    return name == "futex" or (name == "accept4" and backlog(server.port) == 0)


@pytest.mark.slow
@of("preforking", "prethreading")
def test_idle_client_holds_its_worker(start: Start) -> None:
    """03, 05: a waiting client is served when the idle client's time is over."""
    says(
        "a connection that was idle before holds its worker until IDLE_TIMEOUT",
        "a connection that was idle before holds its thread until IDLE_TIMEOUT",
        "yes, if no client waits; an idle client holds a worker for up to 5 s",
    )
    server = start("--workers", "1")
    with Client(server) as idle, Client(server) as late:
        assert not idle.exchange(KEPT).closes
        late.send(KEPT)
        assert idle.read_to_end() == b""
        assert late.read().status == 200


@pytest.mark.slow
@of("forking", "threading")
def test_idle_client_holds_its_child(start: Start) -> None:
    """02, 04: an idle client holds its child or thread for the same time."""
    says(
        "an idle client holds a child for up to 5 s",
        "an idle client holds a thread for up to 5 s",
    )
    server = start()
    with Client(server) as idle:
        assert not idle.exchange(KEPT).closes
        assert not server.is_at_rest(0)
        assert idle.read_to_end() == b""
    wait_until(lambda: server.is_at_rest(0), "it ends")


def test_length_of_the_backlog(start: Start) -> None:
    """The backlog is as long as requested, or as the kernel allows: it lowers the rest silently."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert longest_backlog(start().port) == min(limit("DEFAULT_BACKLOG"), most)
    assert longest_backlog(start("--backlog", "37").port) == min(37, most)


@of("iterative")
def test_full_backlog(start: Start) -> None:
    """01: the kernel drops connection requests above the backlog."""
    says("The backlog fills; then the kernel drops connection requests")
    size = 4
    server = start("--backlog", str(size))

    def attempt() -> None:
        with crowd(server, 1, HALF) as (holding,):
            holding.wait_until_read()
            with crowd(server, size + 1, DIGITS) as others:  # one more: listen(2)
                wait_until(lambda: backlog(server.port) == size + 1, "the backlog is full")
                with socket.socket() as late:
                    late.settimeout(0.5)
                    with pytest.raises(TimeoutError):
                        late.connect((server.host, server.port))
                answer([holding])
                assert [client.read().status for client in others] == [200] * (size + 1)

    undisturbed(HALF_TIME, attempt)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Yield with as many descriptors as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 8192:
        pytest.skip("this needs 8,192 descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
@of("forking", "threading")
def test_limit_of_children(start: Start) -> None:
    """02, 04: a thousand clients are served at once; then none is accepted until one ends."""
    most = limit("CHILDREN_LIMIT")
    says(
        "If CHILDREN_LIMIT children are alive (fewer if memory is short, see main()), the parent "
        "stops accepting until one ends; the rest wait in the backlog.",
        "With CHILDREN_LIMIT threads alive",
        f"{most:,} children; then the parent stops accepting until one ends",
        f"{most:,} threads; then the main thread stops accepting until one ends",
    )
    server = start()

    def workers() -> int:
        return sum(len(processes.tasks(pid)) for pid in server.pids()) - 1

    def attempt() -> None:
        with crowd(server, most, HALF) as clients:
            wait_until(lambda: workers() == most, f"{most} workers")
            with crowd(server, 3, DIGITS) as others:
                wait_until(lambda: backlog(server.port) == 3, "three wait in the backlog")
                assert workers() == most
                answer(clients[:1])
                assert {client.read().status for client in others} == {200}
            assert workers() <= most

    undisturbed(HALF_TIME, attempt)
    wait_until(lambda: server.is_at_rest(0), "all have ended")


# ---- A crash ----


def _ends(client: Client) -> bool:
    """Return whether the connection ends without a response."""
    try:
        client.read()
    except (EndOfStreamError, OSError):
        return True
    return False


@of("forking", "preforking")
def test_crash_of_a_child(start: Start) -> None:
    """02, 03: a crash ends one client's connection only; 03 forks another worker."""
    says(
        "A crash takes one client with it.",
        "if one worker crashes, only its client is affected, and the parent forks another",
    )
    server = start("--workers", str(WORKERS))

    def attempt() -> None:
        with crowd(server, 3, HALF) as clients:
            for client in clients:
                client.wait_until_read()
            wait_until(lambda: waiting(server)[1]["recvfrom"] == 3, "three workers wait")
            busy = [p for p in server.children() if call_of(p, p)[0] == "recvfrom"]
            os.kill(busy[0], signal.SIGKILL)
            wait_until(lambda: not all(c.is_quiet(0) for c in clients), "one client is left")
            lost = [client for client in clients if not client.is_quiet(0)]
            assert len(lost) == 1
            assert _ends(lost[0])
            answer([client for client in clients if client is not lost[0]])
        wait_until(lambda: server.is_at_rest(WORKERS), "there are as many workers as before")
        assert busy[0] not in server.children()
        assert f"child {busy[0]} was ended by signal 9 (Killed); the kernel's log" in server.stderr
        assert fetch(server, "/t/digits.txt").status == 200

    skip_unless_visible()
    undisturbed(HALF_TIME, attempt)


@of("threading", "prethreading")
@pytest.mark.plain_build("a sanitizer handles the signal of a crash itself")
def test_crash_of_a_thread(start: Start) -> None:
    """04, 05: the crash of one is the end of all."""
    says("A crash of one thread ends all", "no process is left to start another")
    server = start("--workers", str(WORKERS))
    with crowd(server, 2, HALF) as clients:
        for client in clients:
            client.wait_until_read()
        thread = next(task for task in processes.tasks(server.pid) if task != server.pid)
        ctypes.CDLL(None).tgkill(server.pid, thread, signal.SIGSEGV)
        assert all(_ends(client) for client in clients)
    assert server.wait() == -signal.SIGSEGV


# ---- Keep-alive ----


@of("iterative", "forking", "preforking", "threading", "prethreading", "poll", "epoll")
def test_what_an_idle_client_holds(start: Start) -> None:
    """An idle client holds a child, a thread, a worker, or only memory; 01 keeps none."""
    says(
        "no connection is kept alive here: one idle browser would own the server",
        "yes; an idle client holds a child for up to 5 s",
        "yes; an idle client holds a thread for up to 5 s",
        "an idle client holds a worker for up to 5 s",
        "yes; an idle client costs memory only",
    )
    assert limit("IDLE_TIMEOUT") == 5000
    server = start("--workers", str(WORKERS))
    if server.name == "iterative":
        assert fetch(server, "/t/digits.txt").closes
        return
    with Client(server) as client:
        assert not client.exchange(KEPT).closes
        if server.name in ("poll", "epoll"):
            assert server.is_at_rest(WORKERS)
        else:
            skip_unless_visible()
            wait_until(lambda: waiting(server)[1]["recvfrom"] == 1, "one waits for the client")


@of("poll", "epoll")
@pytest.mark.plain_build("a sanitizer keeps what is free")
def test_a_crowd_that_has_been_answered_holds_little(start: Start) -> None:
    """After many responses at once, their memory goes back to the kernel (within
    TRIM_INTERVAL). Each connection then holds less than a kilobyte, and 128 KB are kept."""
    clients, kept = 800, 128 * 1024
    with PrivateRedis() as redis:
        server = start(redis=redis.url())

        def each() -> float:
            return (status_number(server.pid, "RssAnon") * 1024 - before) / clients

        before = status_number(server.pid, "RssAnon") * 1024
        redis.pause()
        with crowd(server, clients, request("GET", "/guestbook")) as idle:
            wait_until(lambda: each() > 1600, "all have asked")
            redis.resume()
            for client in idle:
                assert client.read().status in (200, 503)
            wait_until(lambda: each() < 1024 + kept / clients, "the memory is given back")
