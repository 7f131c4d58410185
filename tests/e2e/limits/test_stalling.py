# SPDX-License-Identifier: MIT
"""Who waits, and where: what a few silent clients do to everybody else."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from ..client import Client, fetch, request
from ..conftest import Start
from ..harness import Server, architecture
from ..timing import undisturbed, wait_until

DIGITS = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]
# A little less than what the server waits for a request, and for the next one of an idle client.
HALF_TIME, IDLE_TIME = 8, 4


def _silent(server: Server, count: int) -> list[Client]:
    """Open connections that send half a request head, which the server reads, and then nothing."""
    clients = [Client(server) for _ in range(count)]
    for client in clients:
        client.send(HALF)
    for client in clients:
        client.wait_until_read()
    return clients


def _close(clients: list[Client]) -> None:
    for client in clients:
        client.close()


def _all_quiet(clients: list[Client]) -> bool:
    """Whether the server has said nothing to any of them, not even goodbye."""
    return all(client.is_quiet(0) for client in clients)


def _assert_waits(client: Client, holders: list[Client]) -> None:
    """Assert that a client gets nothing as long as others hold all workers."""
    if not client.is_quiet(1):
        assert not _all_quiet(holders), "more were served than there are workers"


def _ask_beside_silent(server: Server) -> None:
    """Others are answered while a silent client's connection is still open."""
    (silent,) = _silent(server, 1)
    assert fetch(server, "/t/digits.txt").status == 200
    assert fetch(server, "/guestbook").status == 200
    assert silent.is_quiet(0), "the others waited until the silent client's time was over"
    silent.close()


def _ask_after_silent_ones(server: Server, other: Server) -> None:
    """Somebody who asks need not wait until the time of those who say nothing is over.

    Another server is the clock: when the first of them is closed it is told half a request.
    """
    silent = [Client(server) for _ in range(12)]
    assert silent[0].read_to_end() == b""
    (clock,) = _silent(other, 1)
    assert fetch(server, "/t/digits.txt").status == 200
    assert clock.is_quiet(0), "they had a request's time each"
    for client in silent:
        assert client.read_to_end() == b""
    _close([clock, *silent])


@pytest.mark.slow
def test_clients_that_say_nothing(binary: Path, start: Start) -> None:
    """The kernel has waited for their first byte already: no worker does so while others wait."""
    if architecture(binary.name).stalled_by == "nobody":
        pytest.skip("it waits for all of them at once")
    servers = [start("--workers", "2", "--time-scale", "2") for _ in range(2)]
    undisturbed(HALF_TIME / 2, lambda: _ask_after_silent_ones(*servers))


def _ask_late(server: Server) -> None:
    """The kernel hands the connection over after 3 s, and the server waits for 2.5 s more."""
    with Client(server) as client:
        time.sleep(4)
        assert client.exchange(DIGITS).status == 200


@pytest.mark.slow
@pytest.mark.waits
def test_late_request(start: Start) -> None:
    """Who was silent till the kernel handed it over is answered, where nobody else waits.

    On a slow line the first packets may have been lost.
    """
    server = start("--workers", "2", "--time-scale", "4")
    undisturbed(5, lambda: _ask_late(server))


@pytest.mark.slow
@pytest.mark.waits
def test_one_silent_client(start: Start) -> None:
    """One silent client stalls only a server that serves one after another, until its time."""
    server = start("--workers", "3")
    if not server.kind.is_stalled_by_one:
        undisturbed(HALF_TIME, lambda: _ask_beside_silent(server))
        return
    (silent,) = _silent(server, 1)
    with Client(server) as client:
        client.send(DIGITS)
        assert client.read().status == 200
        assert not silent.is_quiet(0), "it served two at once"
        assert silent.read().status == 408
    silent.close()


def test_as_many_silent_clients_as_workers(start: Start) -> None:
    """N of them stall N workers, and nobody else; N - 1 do not."""
    server = start("--workers", "3")
    if server.kind.is_stalled_by_one:
        pytest.skip("one is enough there; see test_one_silent_client")
    silent = _silent(server, 2)
    for _ in range(10):
        assert fetch(server, "/t/digits.txt").status == 200
    silent += _silent(server, 1)
    with Client(server) as client:
        client.send(DIGITS)
        if server.kind.worker_per_client:
            _assert_waits(client, silent)
            silent.pop().close()
        assert client.read().status == 200
    _close(silent)


def _ask_beside_many(server: Server) -> None:
    """Others are answered while many silent connections are open, which then are answered too."""
    silent = _silent(server, 200)
    for target in ("/t/digits.txt", "/guestbook", "/t/80k.bin", "/sorted"):
        assert fetch(server, target).status == 200
    # A slow machine needs so long for all that the time of the first is over.
    latest = silent[-20:]
    assert _all_quiet(latest), "the others waited until the silent clients' time was over"
    for client in latest:
        client.send(b"\r\n")
    assert {client.read().status for client in latest} == {200}
    _close(silent)


def test_many_silent_clients(start: Start) -> None:
    """A server that waits for everybody at once is not stalled by two hundred."""
    server = start("--workers", "3")
    if server.kind.stalled_by != "nobody":
        pytest.skip("three are enough there")
    undisturbed(HALF_TIME, lambda: _ask_beside_many(server))
    wait_until(lambda: server.is_at_rest(3), "all children have ended")


@pytest.mark.slow
def test_flood_of_silent_clients(start: Start) -> None:
    """Who has waited in the backlog without a word holds no worker; somebody who asks is served.

    There are more of them than the kernel remembers, so it hands over those that came by a SYN
    cookie before they have said anything. If each held the worker of 01 for a second, the others
    would wait for minutes.
    """
    server = start("--workers", "1", "--backlog", "64")
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex((server.host, server.port))
        for _ in range(5):
            assert fetch(server, "/t/digits.txt").status == 200


def _ask_beside_idle(server: Server) -> None:
    """Another client is answered while idle ones are kept, or when one of them has left."""
    idle = [Client(server) for _ in range(3)]
    for client in idle:
        response = client.exchange(DIGITS)
        assert response.status == 200
        assert not response.closes
    with Client(server) as client:
        client.send(DIGITS)
        if server.kind.worker_per_client:
            _assert_waits(client, idle)
            idle.pop().close()
            assert client.read().status == 200
        else:
            assert client.read().status == 200
            assert _all_quiet(idle), "it waited until an idle client's time was over"
    _close(idle)


def test_idle_kept_alive_clients(start: Start) -> None:
    """Idle connections cost a worker each where a worker waits for one client."""
    server = start("--workers", "3")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    undisturbed(IDLE_TIME, lambda: _ask_beside_idle(server))


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
            response = greedy.read()
            assert response.status == 200
            if response.closes:
                assert server.kind.worker_per_client, f"closed after {number + 1} responses"
                assert greedy.read_to_end() == b""
                break
