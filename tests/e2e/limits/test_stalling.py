# SPDX-License-Identifier: MIT
"""Stalling: how a few silent clients affect all other clients."""

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
# Slightly less than the server's timeouts for a request, and for the next request of an idle
# client.
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
    """Return whether the server has sent none of them anything, not even the end."""
    return all(client.is_quiet(0) for client in clients)


def _assert_waits(client: Client, holders: list[Client]) -> None:
    """Assert that a client gets no response while others hold all workers."""
    if not client.is_quiet(1):
        assert not _all_quiet(holders), "more were served than there are workers"


def _ask_beside_silent(server: Server) -> None:
    """Others are answered while a silent client's connection is still open."""
    (silent,) = _silent(server, 1)
    assert fetch(server, "/t/digits.txt").status == 200
    assert fetch(server, "/guestbook").status == 200
    assert silent.is_quiet(0), "the others waited for the silent client's timeout"
    silent.close()


def _ask_after_silent_ones(server: Server, other: Server) -> None:
    """A client with a request need not wait for the timeouts of silent clients. Another server is
    the clock: the first of them sends half a request when it is closed."""
    silent = [Client(server) for _ in range(12)]
    assert silent[0].read_to_end() == b""
    (clock,) = _silent(other, 1)
    assert fetch(server, "/t/digits.txt").status == 200
    assert clock.is_quiet(0), "each had the timeout of a request"
    for client in silent:
        assert client.read_to_end() == b""
    _close([clock, *silent])


@pytest.mark.slow
def test_clients_that_say_nothing(binary: Path, start: Start) -> None:
    """Silent clients hold no worker while others wait, because the kernel already waits for their
    first byte."""
    if architecture(binary.name).stalled_by == "nobody":
        pytest.skip("it serves all of them at once")
    servers = [start("--workers", "2", "--time-scale", "2") for _ in range(2)]
    undisturbed(HALF_TIME / 2, lambda: _ask_after_silent_ones(*servers))


def _ask_late(server: Server) -> None:
    """Send a request after the kernel has handed the connection over (3 s); the server waits 2.5 s
    more."""
    with Client(server) as client:
        time.sleep(4)
        assert client.exchange(DIGITS).status == 200


@pytest.mark.slow
@pytest.mark.waits
def test_late_request(start: Start) -> None:
    """A client that was silent until the kernel handed it over is answered if no other waits. On a
    slow line the first packets may have been lost."""
    server = start("--workers", "2", "--time-scale", "4")
    undisturbed(5, lambda: _ask_late(server))


@pytest.mark.slow
@pytest.mark.waits
def test_one_silent_client(start: Start) -> None:
    """One silent client stalls only a server that serves one at a time, until its timeout."""
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
    """N silent clients stall only a server with N workers; N - 1 do not."""
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
    """Others are answered while many silent connections are open, which are answered later, too."""
    silent = _silent(server, 200)
    for target in ("/t/digits.txt", "/guestbook", "/t/80k.bin", "/sorted"):
        assert fetch(server, target).status == 200
    # On a slow machine this may last until the timeout of the first.
    latest = silent[-20:]
    assert _all_quiet(latest), "the others waited for the silent clients' timeout"
    for client in latest:
        client.send(b"\r\n")
    assert {client.read().status for client in latest} == {200}
    _close(silent)


def test_many_silent_clients(start: Start) -> None:
    """Two hundred silent clients do not stall a server that waits for all at once."""
    server = start("--workers", "3")
    if server.kind.stalled_by != "nobody":
        pytest.skip("three are enough there")
    undisturbed(HALF_TIME, lambda: _ask_beside_many(server))
    wait_until(lambda: server.is_at_rest(3), "all children have ended")


@pytest.mark.slow
def test_flood_of_silent_clients(start: Start) -> None:
    """Clients that waited silently in the backlog hold no worker; a client with a request is
    served.

    There are more than the kernel remembers, so it hands over those that came by a SYN cookie
    before they have sent anything. If each held the worker of 01 for a second, the others would
    wait for minutes.
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
    """Another client is answered while idle ones are kept, or after one of them has left."""
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
            assert _all_quiet(idle), "it waited for an idle client's timeout"
    _close(idle)


def test_idle_kept_alive_clients(start: Start) -> None:
    """An idle connection holds a worker if a worker waits for one client."""
    server = start("--workers", "3")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")
    undisturbed(IDLE_TIME, lambda: _ask_beside_idle(server))
