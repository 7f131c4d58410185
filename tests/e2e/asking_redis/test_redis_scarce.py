# SPDX-License-Identifier: MIT
"""If Redis allows too few connections, requests wait, and no outage is reported."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from ..client import REDIS_TIME, request
from ..harness import Server, Start, architecture, of, shared
from ..redisbox import PrivateRedis, encode
from ..timing import undisturbed, wait_until

REFUSED = "rejected a connection: ERR max number of clients reached"
VISIT = request("GET", "/guestbook")


@contextlib.contextmanager
def _all_taken(redis: PrivateRedis) -> Iterator[None]:
    """In the `with` block, occupy all connections that Redis allows, as other programs could."""
    taken: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        while True:
            one = stack.enter_context(socket.create_connection(("127.0.0.1", redis.port)))
            with contextlib.suppress(ConnectionError):
                one.sendall(encode("PING"))
                if one.recv(100).startswith(b"+PONG"):
                    taken.append(one)
                    continue
            break
        yield
        for one in taken:
            one.shutdown(socket.SHUT_WR)
            while one.recv(100):  # until Redis has closed the connection, too
                pass


def _visit_at_once(server: Server, clients: int, visits: int) -> None:
    """Assert that simultaneous clients, with this number of visits each, get all their pages."""
    assert server.statuses("/guestbook", clients * visits, clients) == {200: clients * visits}


def _assert_no_outage(server: Server) -> None:
    """Assert that the log is empty, or has one line: Redis rejected a connection."""
    assert "unavailable" not in server.stderr
    assert server.stderr.count(REFUSED) <= 1, server.stderr
    assert server.stderr.count("\n") == server.stderr.count(REFUSED), server.stderr


@pytest.mark.parametrize(("connections", "clients"), [(1, 8), shared(2, 12), (20, 30)])
def test_fewer_connections_than_clients(
    start: Start, arch: str, connections: int, clients: int
) -> None:
    """Simultaneous clients, and later a single client, get all their pages."""
    with PrivateRedis("--maxclients", str(connections)) as redis:
        workers = architecture(arch).workers_within(connections, 100)
        server = start("--workers", workers, redis=redis.url())
        undisturbed(REDIS_TIME, lambda: _visit_at_once(server, clients, 10))

        for _ in range(30):
            _visit_at_once(server, 1, 1)
        if server.kind.worker_per_client and not server.kind.shares_redis:

            def is_refused() -> bool:
                _visit_at_once(server, 1, 1)  # a different worker each time
                return REFUSED in server.stderr

            wait_until(is_refused, "each worker wants a connection of its own")
        _assert_no_outage(server)


def test_fewer_connections_than_idle_clients(start: Start, arch: str) -> None:
    """Idle clients do not occupy Redis connections that other clients need."""
    with PrivateRedis("--maxclients", "3") as redis:
        workers = architecture(arch).workers_within(3, 16)
        server = start("--workers", workers, redis=redis.url())
        count, times = (12, 5) if server.kind.keeps_alive else (1, 1)
        with server.crowd(count, b"") as clients:
            for client in clients * times:
                assert client.exchange(VISIT).status == 200
        _assert_no_outage(server)


@of("threading", "prethreading")
def test_connections_are_handed_on(start: Start) -> None:
    """A waiting thread gets another thread's Redis connection instead of a new connection."""
    with PrivateRedis("--maxclients", "3") as redis:
        counter = redis.client()
        server = start("--workers", "16", redis=redis.url())

        def attempt() -> None:
            before = counter.connections()
            _visit_at_once(server, 12, 20)
            assert counter.connections() - before < 200

        undisturbed(REDIS_TIME, attempt)
        # A thread that takes over an idle connection must not count as connecting.
        undisturbed(REDIS_TIME, lambda: _visit_at_once(server, 12, 40))
        assert REFUSED in server.stderr


@pytest.mark.parametrize("place", ["TCP", shared("TCP and a database"), shared("Unix socket")])
def test_others_take_all_for_a_while(start: Start, place: str) -> None:
    """While other programs use all Redis connections, the guestbook waits, and files are served."""
    with PrivateRedis("--maxclients", "4") as redis:
        urls = {
            "TCP": redis.url(),
            "TCP and a database": redis.url(7),
            "Unix socket": f"unix:{redis.socket_path}",
        }
        server = start(redis=urls[place])
        undisturbed(REDIS_TIME, lambda: _assert_waits(server, redis))
        assert server.get("/guestbook").status == 200
        _assert_no_outage(server)


def _assert_waits(server: Server, redis: PrivateRedis) -> None:
    with server.client() as client:
        with _all_taken(redis):
            client.send_read(VISIT)
            if not server.kind.is_stalled_by_one:
                assert server.get("/t/digits.txt").status == 200
            assert client.is_quiet(0.1), "the request did not wait"
        assert client.read().status == 200


@pytest.mark.redis_code
@pytest.mark.slow
def test_others_take_all_for_long(start: Start) -> None:
    """A request that waits too long for Redis gets 503, and no outage is reported. Later requests
    succeed, and Redis connections are reused as before."""
    with PrivateRedis("--maxclients", "4") as redis:
        server = start("--workers", "2", redis=redis.url())
        with _all_taken(redis):
            begun = time.monotonic()
            assert server.get("/guestbook").status == 503
            assert time.monotonic() - begun > 1, "the request did not wait"
            assert server.get("/t/digits.txt").status == 200
        counter = redis.client()

        def is_kept() -> bool:
            before = counter.connections()
            assert server.statuses("/guestbook", 20) == {200: 20}
            return counter.connections() - before <= 2

        wait_until(is_kept, "connections are kept")
        _assert_no_outage(server)
