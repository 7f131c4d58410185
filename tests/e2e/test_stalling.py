# SPDX-License-Identifier: MIT
"""Who waits, and where: what a few silent clients do to everybody else."""

from __future__ import annotations

import time

import pytest

from .client import Client, fetch, request
from .conftest import Start
from .harness import Server
from .processes import wait_until

DIGITS = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]


def _silent(server: Server, count: int) -> list[Client]:
    """Open connections that send half a request head and then nothing."""
    clients = [Client(server) for _ in range(count)]
    for client in clients:
        client.send(HALF)
    time.sleep(0.2)
    return clients


def _close(clients: list[Client]) -> None:
    for client in clients:
        client.close()


@pytest.mark.waits
def test_one_silent_client(start: Start) -> None:
    """One silent client stalls only a server that serves one after another, until its time."""
    server = start("--workers", "3")
    silent = _silent(server, 1)
    with Client(server) as client:
        client.send(DIGITS)
        if server.kind.waiters == 1:
            assert client.is_quiet(1.5), "it served two at once"
            assert client.read(seconds=15).status == 200
            assert silent[0].read().status == 408
        else:
            assert client.read().status == 200
            assert fetch(server, "/guestbook").status == 200
            assert silent[0].is_quiet(0.05)
    _close(silent)


def test_as_many_silent_clients_as_workers(start: Start) -> None:
    """N of them stall N workers, and nobody else; N - 1 do not."""
    server = start("--workers", "3")
    if server.kind.waiters == 1:
        pytest.skip("one is enough there; see test_one_silent_client")
    silent = _silent(server, 2)
    for _ in range(10):
        assert fetch(server, "/t/digits.txt").status == 200
    silent += _silent(server, 1)
    with Client(server) as client:
        client.send(DIGITS)
        if server.kind.has_workers:
            assert client.is_quiet(1.5), "more were served than there are workers"
            silent.pop().close()
        assert client.read().status == 200
    _close(silent)


def test_many_silent_clients(start: Start) -> None:
    """A server that waits for everybody at once is not stalled by two hundred."""
    server = start("--workers", "3")
    if server.kind.waiters is not None:
        pytest.skip("three are enough there")
    silent = _silent(server, 200)
    for target in ("/t/digits.txt", "/guestbook", "/t/80k.bin", "/sorted"):
        assert fetch(server, target).status == 200
    for client in silent[:5]:
        client.send(b"\r\n")
        assert client.read().status == 200
    _close(silent)
    wait_until(lambda: len(server.pids()) == 1, 8, "all children have ended")


def test_idle_kept_alive_clients(start: Start) -> None:
    """Idle connections cost a worker each where a worker waits for one client."""
    server = start("--workers", "3")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    idle = [Client(server) for _ in range(3)]
    for client in idle:
        assert client.exchange(DIGITS).status == 200
    with Client(server) as client:
        client.send(DIGITS)
        if server.kind.has_workers:
            assert client.is_quiet(1), "more were served than there are workers"
            idle.pop().close()
        assert client.read().status == 200
    _close(idle)


def test_pipelining_client_does_not_starve_the_others(start: Start) -> None:
    """While one client asks for many things at once, another gets its one.

    A server that runs out of workers may answer the first with close for it.
    """
    server = start("--workers", "3")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    with Client(server) as greedy:
        greedy.send(request("GET", "/sorted") * 200)
        assert fetch(server, "/t/digits.txt").status == 200
        for number in range(200):
            response = greedy.read(seconds=60)
            assert response.status == 200
            if response.closes:
                assert server.kind.has_workers, f"closed after {number + 1} responses"
                assert greedy.read_to_end() == b""
                break
