# SPDX-License-Identifier: MIT
"""Connections to Redis are reused, and no remark is lost after the server has confirmed it."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..client import FORM, EndOfStreamError, form, request
from ..harness import Server, Start, of
from ..redisbox import PrivateRedis
from ..timing import wait_until

VISIT = request("GET", "/guestbook")


@pytest.fixture
def own() -> Iterator[PrivateRedis]:
    """Yield a Redis that writes each change to a file before it replies, so that a killed Redis
    loses no data. Redis does not wait for the disk, which may be slow."""
    with PrivateRedis("--appendonly", "yes", "--appendfsync", "no") as server:
        yield server


def _warm_up(server: Server, at_once: int) -> None:
    """Make `at_once` workers connect to Redis. Each client keeps its connection until all have a
    page, because a server may close connections while other clients wait."""
    if not server.kind.keeps_alive:
        server.get("/guestbook")
        return
    # After its first visits, 02's parent connects to Redis, and lends connections to children.
    for _ in range(3):
        server.get("/guestbook")
    # Children or threads of earlier connections (02, 04) may still hold Redis connections.
    spare = 0 if server.kind.has_workers else 10
    with server.crowd(at_once + spare, b"") as clients:
        for client in clients:
            assert client.exchange(VISIT).status == 200


def _spare(server: Server) -> int:
    """Return how many connections to Redis may be added for the same number of clients.

    A worker for one connection may hold its Redis connection for a short time after the response.
    Threads that share connections may need more at the same time than before. A worker that serves
    many clients may not have used Redis yet. But dozens of visits must not open dozens of
    connections.
    """
    kind = server.kind
    may_be_new = kind.has_workers and not kind.worker_per_client
    return 5 if kind.lends_redis or kind.shares_redis or may_be_new else 0


def test_no_connection_per_request(start: Start, own: PrivateRedis) -> None:
    """After the warm-up, the server opens at most _spare() new connections to Redis for serial or
    simultaneous clients. An error reply does not close the connection to Redis."""
    server = start("--workers", "6", redis=own.url())
    client = own.client()
    client.do("RPUSH", "link:list", "x")
    for _ in range(3):
        _warm_up(server, 6)
    before = client.connections()
    assert server.statuses("/guestbook", 60) == {200: 60}
    for number in range(20):
        assert server.sign("Ann", str(number)).status == 303
        assert server.get(f"/go/{number}").status == 404
        assert server.get("/go/list").status == 502
    assert server.statuses("/guestbook", 60, at_once=4) == {200: 60}
    assert client.connections() - before <= _spare(server)


@pytest.mark.slow
@of("iterative", "forking", "prethreading")
def test_an_idle_client_is_closed(start: Start, own: PrivateRedis) -> None:
    """The server closes a Redis connection that is idle for REDIS_IDLE."""
    server = start("--workers", "3", redis=own.url())
    _warm_up(server, 3)
    client = own.client()
    assert client.connected() > 0
    wait_until(lambda: client.connected() == 0, "idle connections are closed")
    assert server.get("/guestbook").status == 200


@pytest.mark.slow
@of("prethreading")
def test_an_idle_client_among_others_is_closed(start: Start, own: PrivateRedis) -> None:
    """Idle Redis connections are closed although one client continues to send requests."""
    server = start("--workers", "3", redis=own.url())
    client = own.client()

    def connected(at_once: int) -> int:
        assert server.statuses("/guestbook", 10 * at_once, at_once) == {200: 10 * at_once}
        return client.connected()

    wait_until(lambda: connected(at_once=3) > 1, "several connections are used at once")
    wait_until(lambda: connected(at_once=1) == 1, "idle connections are closed")


class _Writer:
    """Posts remarks one after another, each different, and records the answers."""

    def __init__(self, name: str, leaves: bool) -> None:
        """`leaves`: whether every third connection is reset before the response."""
        self.name = name
        self.leaves = leaves
        self.accepted: list[bytes] = []
        self.statuses: set[int] = set()

    def write(self, server: Server, over: threading.Event) -> None:
        """Post remarks until the event `over` is set."""
        for number in itertools.takewhile(lambda _: not over.is_set(), itertools.count(1)):
            text = f"{self.name}-{number}"
            body = form(guest_name="W", guest_remarks=text)
            with contextlib.suppress(EndOfStreamError, OSError), server.client() as client:
                client.send(request("POST", "/guestbook", (FORM,), body))
                if self.leaves and number % 3 == 0:
                    client.reset()
                    continue
                status = client.read().status
                self.statuses.add(status)
                if status == 303:
                    self.accepted.append(f"{text} - W".encode())


def _all_get_on(writers: list[_Writer]) -> None:
    """Wait until the server has accepted three more remarks of each writer."""
    wanted = {writer: len(writer.accepted) + 3 for writer in writers}
    wait_until(lambda: all(len(w.accepted) >= n for w, n in wanted.items()), "all get on")


@pytest.mark.redis_code
def test_no_accepted_remark_is_lost(start: Start, own: PrivateRedis) -> None:
    """Each remark answered with 303 is stored, although Redis is killed twice, clients leave early,
    and the server ends while clients post remarks."""
    server = start(redis=own.url())
    writers = [_Writer(f"w{n}", leaves=n % 2 == 1) for n in range(4)]
    over = threading.Event()
    with ThreadPoolExecutor(len(writers)) as pool:
        writing = [pool.submit(writer.write, server, over) for writer in writers]
        try:
            for _ in range(2):
                _all_get_on(writers)
                time.sleep(0.2)
                own.kill()
                time.sleep(0.2)
                own.start()
            _all_get_on(writers)
            assert server.stop() == 0
        finally:
            over.set()
    assert [one.result() for one in writing] == [None] * len(writers)
    stored = own.client().remarks()
    for writer in writers:
        assert writer.statuses <= {303, 503}
        assert set(writer.accepted) <= set(stored)
    assert len(stored) == len(set(stored)), "a remark was stored twice"
