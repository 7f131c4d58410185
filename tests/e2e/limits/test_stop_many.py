# SPDX-License-Identifier: MIT
"""Stop with many workers: each is woken, and none uses up the others' time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ..claims import HALF, crowd, limit, of
from ..conftest import Start
from ..harness import Server
from ..timing import wait_until
from ..tracing import Trace, skip_unless_traceable

pytestmark = pytest.mark.plain_build("sanitizers make calls of their own")
WORKERS = 40


def _stop_traced(server: Server, path: Path) -> tuple[Counter[str], Counter[str]]:
    """Stop it; return which calls it made meanwhile, and which signals its tasks got."""
    trace = Trace(server, path)
    assert server.stop() == 0
    calls = trace.calls()
    return calls, Counter(re.findall(r"^\d+ +--- (SIG\w+)", path.read_text(), re.MULTILINE))


@of("preforking", "prethreading")
def test_workers_that_wait_end_at_once(start: Start, tmp_path: Path) -> None:
    """No worker spins while it waits for its signal. The parent of 03 closes the listening socket
    at the signal, and signals its children afterwards, one by one. They find the socket closed
    meanwhile, and pause before they check again. On a busy machine their signal may be late."""
    skip_unless_traceable()
    server = start("--workers", str(WORKERS))
    wait_until(lambda: server.is_at_rest(WORKERS), "it has all its workers")
    calls, _ = _stop_traced(server, tmp_path / "trace")
    pauses = len(re.findall(r"p?poll\(NULL, 0, ", (tmp_path / "trace").read_text()))
    assert calls["accept4"] <= 3 * WORKERS + pauses
    assert server.stderr == ""


@pytest.mark.slow
@pytest.mark.waits
@of("preforking", "prethreading", "epoll", "multicore")
def test_workers_that_serve_are_woken_rarely(start: Start, tmp_path: Path) -> None:
    """A worker that waits for half a request is woken, but not periodically."""
    skip_unless_traceable()
    server = start("--workers", "8")
    with crowd(server, 8, HALF) as clients:
        for client in clients:
            client.wait_until_read()
        tasks = len(server.pids()) + 8 * server.kind.shares_redis
        _, signals = _stop_traced(server, tmp_path / "trace")
    rarely = limit("STOP_TIMEOUT") // limit("WAKE_DELAY")
    assert signals["SIGALRM"] <= 1.5 * rarely * tasks
    assert signals["SIGALRM"] >= rarely / 2
