# SPDX-License-Identifier: MIT
"""The servers' claims about limits, crashes and idle clients; see test_claims.py."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.sockets import accept_queue

from .. import processes
from ..claims import (
    DIGITS,
    HALF,
    KEPT,
    REDIS_TIME,
    REQUEST_TIME,
    WORKERS,
    answer,
    crowd,
    limit,
    of,
    silent,
    statuses,
)
from ..client import Client, fetch, request
from ..conftest import Start
from ..harness import Server
from ..processes import status_number
from ..redisbox import PrivateRedis
from ..small import limited
from ..sockets import longest_backlog
from ..timing import undisturbed_test, wait_until
from ..tracing import call_of, native, skip_unless_visible

# ---- What happens at the limit? ----


@of("iterative", "preforking", "prethreading")
@undisturbed_test(REQUEST_TIME)
def test_the_rest_wait_in_the_backlog(start: Start) -> None:
    """01, 03: waiting clients are in the kernel's backlog; 05: in the main thread's queue."""
    server = start("--workers", str(WORKERS))
    holders = 1 if server.name == "iterative" else WORKERS
    with silent(server, holders) as holding, crowd(server, 3, DIGITS) as others:
        in_kernel = 0 if server.name == "prethreading" else 3
        wait_until(lambda: accept_queue(server.port) == in_kernel, f"{in_kernel} wait")
        assert all(client.is_quiet(0.1) for client in others)
        answer(holding)
        assert [client.read().status for client in others] == [200] * 3


@of("prethreading")
@undisturbed_test(REQUEST_TIME)
def test_queue_holds_more_than_the_backlog(start: Start) -> None:
    """05: the main thread accepts all connections until the descriptors for clients are used up."""
    skip_unless_visible()
    server = start("--workers", "2", "--backlog", "4", prefix=limited(nofile=64))
    with contextlib.ExitStack() as stack:
        count = 0
        while call_of(server.pid, server.pid)[0] != "futex":
            stack.enter_context(Client(server)).send(HALF)
            count += 1
            wait_until(lambda: _main_sleeps(server), "the client is accepted")
        assert count > 4 + 2
        stack.enter_context(Client(server)).send(HALF)
        wait_until(lambda: accept_queue(server.port) == 1, "a client waits in the backlog")


def _main_sleeps(server: Server) -> bool:
    name = call_of(server.pid, server.pid)[0]
    return name == "futex" or (name == "accept4" and accept_queue(server.port) == 0)


@of("forking", "preforking", "threading", "prethreading")
@undisturbed_test(0.4)
def test_idle_client_holds_its_worker(start: Start) -> None:
    """02, 04: an idle client holds a child or thread. 03, 05: a client that waits for a worker is
    served when the idle connection is closed."""
    assert limit("IDLE_TIMEOUT") == 5000
    server = start("--workers", "1", "--time-scale", "10")
    with Client(server) as idle, Client(server) as late:
        assert not idle.exchange(KEPT).closes
        assert server.kind.has_workers or not server.is_at_rest(0)
        late.send(KEPT)
        assert idle.read_to_end() == b""
        assert late.read().status == 200
    wait_until(lambda: server.is_at_rest(1), "the child or thread ends")


def test_length_of_the_backlog(start: Start) -> None:
    """The backlog is as long as requested, up to the kernel's limit (somaxconn). With a backlog of
    1 all clients are served, because their kernels try again to connect."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert longest_backlog(start().port) == min(limit("DEFAULT_BACKLOG"), most)
    server = start("--backlog", "1")
    assert longest_backlog(server.port) == 1
    assert statuses(server, "/guestbook", 24, at_once=12) == {200: 24}


@of("iterative")
@undisturbed_test(REQUEST_TIME)
def test_full_backlog(start: Start) -> None:
    """01: the kernel drops connection requests above the backlog."""
    size = 4
    server = start("--backlog", str(size))
    with crowd(server, 1, HALF) as (holding,):
        holding.wait_until_read()
        with crowd(server, size + 1, DIGITS) as others:  # the kernel queues one more
            wait_until(lambda: accept_queue(server.port) == size + 1, "the backlog is full")
            with socket.socket() as late:
                late.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    late.connect((server.host, server.port))
            answer([holding])
            assert [client.read().status for client in others] == [200] * (size + 1)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Let this process have 8,192 descriptors during a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 8192:
        pytest.skip("this needs 8,192 descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
@of("forking", "threading")
@undisturbed_test(REQUEST_TIME)
def test_limit_of_children(start: Start) -> None:
    """02, 04: a thousand clients are served at once; more are accepted when some of them leave."""
    most = limit("CHILDREN_LIMIT")
    server = start()

    def workers() -> int:
        return sum(len(processes.tasks(pid)) for pid in server.pids()) - 1

    with crowd(server, most, HALF) as clients:
        wait_until(lambda: workers() == most, f"{most} workers")
        with crowd(server, 3, DIGITS) as others:
            wait_until(lambda: accept_queue(server.port) == 3, "three wait in the backlog")
            assert workers() == most
            answer(clients[:1])
            assert {client.read().status for client in others} == {200}
        assert workers() <= most
    wait_until(lambda: server.is_at_rest(0), "all have ended")


# ---- A crash ----


@of("forking", "preforking", "multicore")
@undisturbed_test(REQUEST_TIME)
def test_crash_of_a_child(start: Start, arch: str) -> None:
    """02, 03: a crash ends one client's connection only. 09: a crash ends the connections of one
    worker. 03, 09 fork another worker. The program that starts the server may ignore SIGCHLD."""
    skip_unless_visible()
    # The probability that a hash assigns none of 24 clients to the killed worker is 1 : 1,000.
    count, options = (24, ("--listener-each",)) if arch == "multicore" else (3, ())
    prefix = ("env", "--ignore-signal=CHLD")
    server = start("--workers", str(WORKERS), *options, prefix=prefix)
    if arch != "forking":
        wait_until(lambda: server.is_at_rest(WORKERS), "the server has all workers")
    with silent(server, count) as clients:

        def busy() -> list[int]:
            calls = ("recvfrom", native("epoll_wait"))
            return [pid for pid in server.children() if call_of(pid, pid)[0] in calls]

        wait_until(lambda: len(busy()) >= 3, "three children wait")
        crashed, *_ = busy()
        os.kill(crashed, signal.SIGKILL)
        wait_until(lambda: crashed not in server.children(), "the killed child is reaped")
        kept = [client for client in clients if client.is_quiet(0)]
        assert len(kept) == 2 if count == 3 else 0 < len(kept) < count
        assert {client.read_to_end() for client in clients if client not in kept} == {b""}
        answer(kept)
    wait_until(lambda: server.is_at_rest(WORKERS), "there are as many workers as before")
    line = f"child {crashed} was ended by signal 9 (Killed); the kernel's log"
    wait_until(lambda: line in server.stderr, "the log reports the crash")
    assert fetch(server, "/t/digits.txt").status == 200


@of("threading", "prethreading")
@pytest.mark.plain_build("a sanitizer handles the signal of a crash itself")
def test_crash_of_a_thread(start: Start) -> None:
    """04, 05: the crash of one thread ends the whole server."""
    server = start("--workers", str(WORKERS))
    with silent(server, 2) as clients:
        thread = next(task for task in processes.tasks(server.pid) if task != server.pid)
        ctypes.CDLL(None).tgkill(server.pid, thread, signal.SIGSEGV)
        assert {client.read_to_end() for client in clients} == {b""}
    assert server.wait() == -signal.SIGSEGV


@of("poll", "epoll")
@pytest.mark.plain_build("a sanitizer keeps freed memory")
@undisturbed_test(REDIS_TIME)
def test_a_crowd_that_has_been_answered_holds_little(start: Start, own: PrivateRedis) -> None:
    """After many simultaneous responses, the server returns memory to the kernel within
    TRIM_INTERVAL. It keeps at most 128 KB plus a kilobyte for each connection."""
    clients, kept = 800, 128 * 1024
    server = start(redis=own.url())
    before = status_number(server.pid, "RssAnon") * 1024

    def each() -> float:
        return (status_number(server.pid, "RssAnon") * 1024 - before) / clients

    with contextlib.ExitStack() as stack:
        with own.paused():
            idle = stack.enter_context(crowd(server, clients, request("GET", "/guestbook")))
            wait_until(lambda: each() > 1600, "all have asked")
        for client in idle:
            assert client.read().status in (200, 503)
        wait_until(lambda: each() < 1024 + kept / clients, "the memory is returned")
