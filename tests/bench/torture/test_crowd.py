# SPDX-License-Identifier: MIT
"""Crowds do what they say, to a real server."""

import time
from collections.abc import Callable

import pytest

from bench.host.sockets import ALL, LISTEN, STATES, tcp_sockets
from bench.records.torture import LeftOver
from bench.torture.crowd import KINDS, PIPELINED
from bench.torture.scene import AttackScene, held_connections, page

from .conftest import status, until

COUNT = 30
Start = Callable[..., AttackScene]


def clients_of(port: int) -> int:
    """Return the connections that a client believes to be open."""
    return len(tcp_sockets(remote=port, states=1 << STATES.index("ESTABLISHED")))


def unsent(port: int) -> int:
    """Return for how many clients the server's kernel has bytes that it cannot send."""
    return sum(one.unsent > 0 for one in tcp_sockets(port, states=ALL & ~LISTEN))


@pytest.mark.parametrize("kind", KINDS)
def test_every_crowd_ends_and_says_what_it_did(scene: Start, kind: str) -> None:
    epoll = scene("epoll")
    with epoll.crowd(kind, COUNT, page("redirect")):
        time.sleep(0.3)
        assert status(epoll, "/redirect") == 302
    assert epoll.crowd_seen is not None
    assert epoll.crowd_seen.opened >= COUNT
    assert epoll.left_over() == LeftOver(), "epoll has closed all of them"


def test_the_silent_cost_the_server_nothing(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("connect-only", COUNT, page("redirect")):
        until(lambda: clients_of(epoll.port) == COUNT, "they did not connect")
        assert held_connections(epoll.port) == 0, "the kernel keeps them to itself"


@pytest.mark.parametrize("kind", ["idle", "slow-heads"])
def test_those_who_hold_a_connection(scene: Start, kind: str) -> None:
    epoll = scene("epoll")
    with epoll.crowd(kind, COUNT, page("redirect")):
        until(lambda: held_connections(epoll.port) == COUNT, "the server does not have them all")


def test_heads_that_do_not_end_are_replaced_when_cut(scene: Start) -> None:
    """A head that does not end is sent again after it was cut: the iterative server closes the idle
    at once."""
    iterative = scene("iterative")
    with iterative.crowd("idle", 5, page("redirect")):
        time.sleep(0.5)
    assert iterative.crowd_seen is not None
    assert iterative.crowd_seen.opened > 5


def test_slow_readers_leave_the_server_with_its_bytes(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("slow-readers", COUNT, page("large")):
        until(lambda: unsent(epoll.port) == COUNT, "all responses fit into buffers")
    assert PIPELINED * 80_000 > 1_000_000


def test_the_flood_leaves_nothing_behind(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("flood", 1, page("redirect")):
        time.sleep(0.5)
    assert epoll.crowd_seen is not None
    assert epoll.crowd_seen.opened > 100
    until(lambda: clients_of(epoll.port) == 0, "resets leave no connection")


def test_a_rush_is_answered_and_counted(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("rush", COUNT, page("guestbook"), pause=0.01):
        time.sleep(0.5)
    seen = epoll.crowd_seen
    assert seen is not None
    assert seen.answers["good"] == seen.opened >= COUNT
    assert seen.opened % COUNT == 0, "a rush goes on to its end"
    assert not seen.why


def test_a_rush_at_a_closed_door(scene: Start) -> None:
    epoll = scene("epoll")
    epoll.server.stop()
    with epoll.crowd("rush", COUNT, page("redirect"), pause=0.05):
        time.sleep(0.3)
    assert epoll.crowd_seen is not None
    assert epoll.crowd_seen.answers["refused"] >= COUNT
    assert epoll.crowd_seen.opened == 0
