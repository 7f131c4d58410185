# SPDX-License-Identifier: MIT
"""Crowds do what they say, to a real server."""

import time
from collections.abc import Callable

import pytest

from bench.host.sockets import ALL, LISTEN, STATES, tcp_sockets
from bench.load.crowd import PIPELINED
from bench.records.torture import LeftOver
from bench.torture.scene import AttackScene, held_connections, page

from ..whole_sweep import wait_for
from .conftest import status

COUNT = 30
Start = Callable[..., AttackScene]


def clients_of(port: int) -> int:
    """Return the connections that a client believes to be open."""
    return len(tcp_sockets(remote=port, states=1 << STATES.index("ESTABLISHED")))


def unsent(port: int) -> int:
    """Return for how many clients the server's kernel has bytes that it cannot send."""
    return sum(one.unsent > 0 for one in tcp_sockets(port, states=ALL & ~LISTEN))


@pytest.mark.parametrize(
    ("kind", "held"),
    [("connect-only", 0), ("idle", COUNT), ("slow-heads", COUNT), ("kept", COUNT)],
)
def test_connections_that_a_crowd_holds(scene: Start, kind: str, held: int) -> None:
    """The kernel keeps a connection without a request to itself. Others are served meanwhile, and
    in the end epoll has closed all connections."""
    epoll = scene("epoll")
    with epoll.crowd(kind, COUNT, page("redirect")):
        wait_for(lambda: clients_of(epoll.port) == COUNT, "they did not connect")
        wait_for(lambda: held_connections(epoll.port) == held, "the server does not have them all")
        assert status(epoll, "/redirect") == 302
    assert epoll.crowd_seen.opened == COUNT
    assert epoll.left_over() == LeftOver()


def opens_more(of: AttackScene, kind: str, count: int, than: int) -> bool:
    """Return whether a crowd opens more connections than that. A busy machine needs longer."""
    for seconds in (0.5, 2, 8):
        with of.crowd(kind, count, page("redirect")):
            time.sleep(seconds)
        if of.crowd_seen.opened > than:
            return True
    return False


def test_heads_that_do_not_end_are_replaced_when_cut(scene: Start) -> None:
    """A head that does not end is sent again after it was cut: the iterative server closes the idle
    at once."""
    assert opens_more(scene("iterative"), "idle", 5, than=5)


def test_slow_readers_leave_the_server_with_its_bytes(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("slow-readers", COUNT, page("large")):
        wait_for(lambda: unsent(epoll.port) == COUNT, "all responses fit into buffers")
    assert PIPELINED * 80_000 > 1_000_000


def test_the_flood_leaves_nothing_behind(scene: Start) -> None:
    epoll = scene("epoll")
    assert opens_more(epoll, "flood", 1, than=100)
    wait_for(lambda: clients_of(epoll.port) == 0, "resets leave no connection")


def test_a_rush_is_answered_and_counted(scene: Start) -> None:
    epoll = scene("epoll")
    with epoll.crowd("rush", COUNT, page("guestbook"), pause=0.01):
        time.sleep(0.5)
    seen = epoll.crowd_seen
    assert seen.answers["good"] == seen.opened >= COUNT
    assert seen.opened % COUNT == 0, "a rush goes on to its end"
    assert not seen.why


def test_a_rush_at_a_closed_door(scene: Start) -> None:
    epoll = scene("epoll")
    epoll.server.stop()
    with epoll.crowd("rush", COUNT, page("redirect"), pause=0.05):
        time.sleep(0.3)
    assert epoll.crowd_seen.answers["refused"] >= COUNT
    assert epoll.crowd_seen.opened == 0
