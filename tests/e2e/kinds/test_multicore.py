# SPDX-License-Identifier: MIT
"""The claims of 09_multicore, and its option --listener-each."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from ..client import KEPT, WORKERS
from ..harness import Server, Start, of
from ..processes import state
from ..timing import wait_until

pytestmark = of("multicore")
CLIENTS = 24
"""The probability that a hash assigns all clients to one of two workers is 1 : 8 million."""


def _shares(server: Server) -> list[int]:
    """Stop a server that was started with --each-worker; return the requests of each worker."""
    assert server.stop() == 0
    return [int(count) for name, count in server.statistics().items() if name[:7] == "worker "]


def test_a_worker_for_each_core(binary: Path, site: Path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    prefix = ("taskset", "--cpu-list", core)
    with Server(binary, site, "redis://127.0.0.1:1", prefix=prefix) as server:
        assert server.banner["workers"] == "1"
    with Server(binary, site, "redis://127.0.0.1:1") as server:
        assert server.banner["workers"] == str(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("options", [(), ("--listener-each",)], ids=["shared", "each"])
def test_shares_of_a_quiet_server(start: Start, options: tuple[str, ...]) -> None:
    """On a quiet server with one listener, one worker gets nearly all connections. With a listener
    for each worker, both workers get some."""
    server = start("--workers", "2", "--each-worker", *options, at_rest=True)
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(server.client())
            assert client.exchange(KEPT).status == 200
            wait_until(lambda: {*map(state, server.children())} == {"S"}, "the worker sleeps again")
    least, most = sorted(_shares(server))
    assert least + most == CLIENTS
    assert least > 0 if options else most > 0.8 * CLIENTS


@pytest.mark.parametrize("options", [(), ("--listener-each",)], ids=["shared", "each"])
def test_a_busy_worker(start: Start, options: tuple[str, ...]) -> None:
    """A connection waits for a busy worker only if each worker has a listener."""
    server = start("--workers", "2", *options, at_rest=True)
    busy, _ = server.children()
    os.kill(busy, signal.SIGSTOP)
    wait_until(lambda: state(busy) == "T", "the worker is stopped")
    with server.crowd(CLIENTS, KEPT) as clients:
        for client in clients:
            client.is_quiet(0 if options else 1)
        waiting = [client for client in clients if client.is_quiet(0.1)]
        os.kill(busy, signal.SIGCONT)
        assert all(client.read().status == 200 for client in clients)
    assert bool(waiting) == bool(options)


def test_a_listener_outlives_its_worker(start: Start) -> None:
    """A new worker gets the old worker's listener, and no connection is lost meanwhile."""
    server = start("--workers", str(WORKERS), "--each-worker", "--listener-each", at_rest=True)
    first, *_ = server.children()
    assert server.statuses("/t/digits.txt", 16 * WORKERS) == {200: 16 * WORKERS}
    os.kill(first, signal.SIGTERM)
    wait_until(lambda: first not in server.children(), "the worker has ended")
    assert server.statuses("/t/digits.txt", 16 * WORKERS) == {200: 16 * WORKERS}
    wait_until(lambda: server.is_at_rest(WORKERS), "a new worker is forked")
    shares = _shares(server)
    assert sum(shares) == 2 * 16 * WORKERS
    assert min(shares) > 0
