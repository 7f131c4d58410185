# SPDX-License-Identifier: MIT
"""Redis is absent, killed, restarted or frozen: its pages answer 503, all others still work."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .. import processes
from ..claims import crowd, of
from ..client import Client, Response, fetch, request, sign
from ..conftest import Start
from ..harness import Server
from ..markup import assert_well_formed
from ..redisbox import PrivateRedis
from ..small import assert_rests
from ..sockets import any_unread, free_port
from ..timing import TRIES, undisturbed, wait_until

AWAY = "unavailable: "
BACK = "is back"
REPLY_TIME = 2.0  # seconds that a server waits for a reply


def _assert_unavailable(response: Response) -> None:
    assert response.status == 503
    assert response.field("Retry-After") == "1"
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    assert_well_formed(response.text)


def _assert_rest_is_served(server: Server) -> None:
    assert fetch(server, "/t/digits.txt").status == 200
    assert fetch(server, "/t/plain").status == 302
    assert fetch(server, "/sorted").status == 200
    assert fetch(server, "/t/none").status == 404


def _is_back(server: Server) -> bool:
    """Return whether ten pages in a row are served, over any of the server's connections."""
    return all(fetch(server, "/guestbook").status == 200 for _ in range(10))


def _said(server: Server, words: str) -> int:
    return server.stderr.count(words)


def _stays_away(server: Server, times: int) -> bool:
    """Return whether the server logs so many times that Redis is away (at most once a second)."""
    assert fetch(server, "/go/name").status == 503
    return _said(server, AWAY) == times


def test_absent_at_the_start(start: Start) -> None:
    """A server starts without Redis, serves what needs no Redis, and connects when Redis starts."""
    with PrivateRedis() as late:
        late.kill()
        server = start(redis=late.url())
        for _ in range(10):
            _assert_unavailable(fetch(server, "/guestbook"))
            _assert_unavailable(fetch(server, "/go/name"))
            _assert_unavailable(sign(server, "Ann", "lost"))
        _assert_unavailable(sign(server, "", ""))
        _assert_rest_is_served(server)
        assert _said(server, AWAY) == 1, server.stderr
        assert server.stderr.startswith(f"{server.name}: Redis ")
        late.start()
        wait_until(lambda: _is_back(server), "service is back")
        assert late.client().remarks() == []
    assert _said(server, BACK) == 1, server.stderr


def test_killed_and_restarted(start: Start, own: PrivateRedis) -> None:
    """Redis is killed while the server runs, and restarted, several times."""
    server = start(redis=own.url())
    for times in (1, 2):
        assert _is_back(server)
        own.kill()
        assert fetch(server, "/guestbook").status == 503
        _assert_rest_is_served(server)
        wait_until(lambda n=times: _stays_away(server, n), "it says that Redis is away")
        own.start()
        wait_until(lambda: _is_back(server), "service is back")
        wait_until(lambda n=times: _is_back(server) and _said(server, BACK) == n, "it says so")


def test_back_with_a_count(start: Start, own: PrivateRedis) -> None:
    """The log line that Redis is back has the number of all requests that failed without it."""
    server = start(redis=own.url())
    assert _is_back(server)
    statuses: list[int] = []

    def says(words: str) -> int:
        statuses.append(fetch(server, "/guestbook").status)
        return _said(server, words)

    own.kill()
    # The first failures may fall into the clock's step of the last reply: no outage yet.
    wait_until(lambda: says(AWAY), "it says that Redis is away")
    assert set(statuses) == {503}
    own.start()
    wait_until(lambda: says(BACK), "it says that Redis is back")
    assert f"{BACK}; {statuses.count(503)} requests have done without it\n" in server.stderr


def test_restart_between_two_requests(start: Start, own: PrivateRedis) -> None:
    """After a restart of Redis between two requests each remark is stored."""
    server = start(redis=own.url())
    assert _is_back(server)
    own.kill()
    own.start()
    wait_until(lambda: _is_back(server), "service is back")
    answers = [sign(server, "Ann", f"number {n}").status for n in range(10)]
    assert answers == [303] * 10
    assert len(own.client().remarks()) == 10


def test_connections_closed_by_redis(start: Start, own: PrivateRedis) -> None:
    """If Redis closes idle connections (its timeout, CLIENT KILL), the next request still works."""
    server = start(redis=own.url())
    client = own.client()
    for _ in range(3):
        assert _is_back(server)
        client.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.2)  # only a connection that has been idle is checked
    assert _is_back(server)
    assert _said(server, AWAY) == 0, server.stderr


def _is_served_meanwhile(server: Server) -> bool:
    """Return whether a static file is served while another client waits for the frozen Redis."""
    with Client(server) as waiting:
        waiting.send(request("GET", "/guestbook"))
        waiting.wait_until_read()
        assert fetch(server, "/t/digits.txt").status == 200
        meanwhile = waiting.is_quiet(0)
        _assert_unavailable(waiting.read())
    if not meanwhile:  # this request came too late, or after the wait was over
        time.sleep(0.3)
    return meanwhile


@pytest.mark.waits
def test_frozen(start: Start, own: PrivateRedis) -> None:
    """Redis accepts and never answers: 503 after the timeout; static files are served meanwhile."""
    server = start(redis=own.url())
    own.client().do("SET", "link:name", "/there")
    assert _is_back(server)
    own.pause()
    try:
        if server.kind.is_stalled_by_one:
            _assert_unavailable(fetch(server, "/guestbook"))
        else:
            served = any(_is_served_meanwhile(server) for _ in range(TRIES))
            assert served, "static files waited for the frozen Redis"
        _assert_rest_is_served(server)
        assert _said(server, AWAY) == 1, server.stderr
    finally:
        own.resume()
    wait_until(lambda: _is_back(server), "service is back")
    assert _said(server, BACK) == 1, server.stderr
    for _ in range(10):
        assert fetch(server, "/go/name").field("Location") == "/there"


@pytest.mark.slow
@pytest.mark.waits
def test_frozen_for_many(start: Start, own: PrivateRedis) -> None:
    """Many clients wait for a frozen Redis: each gets its 503, and later requests succeed."""
    server = start("--workers", "8", redis=own.url())
    assert _is_back(server)
    own.pause()
    count = 2 if server.kind.is_stalled_by_one else 8
    clients = [Client(server) for _ in range(count)]
    try:
        for client in clients:
            client.send(request("GET", "/guestbook", (("Connection", "close"),)))
        for client in clients:
            assert client.read().status == 503
            client.close()
        for _ in range(3):
            assert fetch(server, "/guestbook").status == 503
    finally:
        own.resume()
    wait_until(lambda: _is_back(server), "service is back")


@pytest.mark.slow
@pytest.mark.waits
def test_frozen_is_tried_by_few(start: Start, own: PrivateRedis) -> None:
    """While a frozen Redis is known to be away, only one request in 250 ms waits for it."""
    server = start("--workers", "12", redis=own.url())
    if server.kind.is_stalled_by_one:
        pytest.skip("it serves no other client while one waits for Redis")

    def attempt() -> None:
        wait_until(lambda: _is_back(server), "service is back")
        own.pause()
        try:
            assert fetch(server, "/guestbook").status == 503
            time.sleep(0.3)
            clients = [Client(server) for _ in range(10)]
            for client in clients:
                client.send(request("GET", "/guestbook", (("Connection", "close"),)))
            time.sleep(REPLY_TIME / 2)
            waiting = [client for client in clients if client.is_quiet(0)]
            assert 1 <= len(waiting) <= 4
            for client in clients:
                _assert_unavailable(client.read())
                client.close()
        finally:
            own.resume()

    undisturbed(2 * REPLY_TIME + 1, attempt)


def _set_links(own: PrivateRedis) -> None:
    client = own.client()
    for number in range(20):
        client.do("SET", f"link:{number}", f"/target-{number}")
    client.close()


@pytest.mark.waits
@of("poll", "epoll")
def test_frozen_though_others_ask(start: Start, own: PrivateRedis) -> None:
    """Later requests do not prolong the wait of earlier ones for a frozen Redis."""
    server = start(redis=own.url())
    assert _is_back(server)
    own.pause()
    try:
        with Client(server) as first, contextlib.ExitStack() as stack:
            first.send(request("GET", "/guestbook"))
            wait_until(lambda: any_unread(own.port), "Redis is asked")

            def is_answered() -> bool:
                stack.enter_context(Client(server)).send(request("GET", "/guestbook"))
                return not first.is_quiet(0.2)

            wait_until(is_answered, "the request times out")
            assert first.read().status == 503
    finally:
        own.resume()


def _finds_link(server: Server, number: int) -> bool:
    """Return whether a link is found; AssertionError if the reply to another command is used for
    it."""
    response = fetch(server, f"/go/{number}")
    assert response.status in (302, 503)
    assert response.field("Location") in (f"/target-{number}", None)
    return response.status == 302


@pytest.mark.slow
@pytest.mark.waits
def test_late_replies_go_to_nobody_else(start: Start, own: PrivateRedis) -> None:
    """A reply that arrives after its request timed out is never used for another request."""
    server = start(redis=own.url())
    _set_links(own)
    assert _is_back(server)

    def finds(number: int) -> None:
        wait_until(lambda: _finds_link(server, number), "service is back")

    with ThreadPoolExecutor(4) as pool:
        own.pause()
        waiting = [pool.submit(fetch, server, f"/go/{number}") for number in range(4)]
        try:
            assert [one.result().status for one in waiting] == [503] * 4
        finally:
            own.resume()
        # Until the late replies are there: a server detects two that arrive together.
        wait_until(lambda: not any_unread(own.port), "Redis has read all commands")
        # At once, so that each connection with a late reply is used.
        assert list(pool.map(finds, list(range(20)) * 2)) == [None] * 40


def test_client_leaves_while_redis_works(start: Start, own: PrivateRedis) -> None:
    """Clients that leave in the middle of a command leave no reply for the next request."""
    server = start(redis=own.url())
    _set_links(own)
    assert _is_back(server)
    for number in range(10):
        own.pause()
        leaving = Client(server)
        leaving.send(request("GET", f"/go/{number}"))
        leaving.wait_until_read()
        leaving.reset()
        own.resume()
        other = (number + 7) % 20
        wait_until(lambda other=other: _finds_link(server, other), "service is back")


def test_child_killed_while_redis_works(start: Start, own: PrivateRedis) -> None:
    """Replies that a killed child left in its Redis connection reach no other client."""
    server = start(redis=own.url())
    _set_links(own)
    assert _is_back(server)
    for _ in range(3):
        own.pause()
        try:
            with Client(server) as waiting:
                waiting.send(request("GET", "/go/0"))
                wait_until(lambda: any_unread(own.port), "Redis is asked")
                children = server.children()
                if not children or server.kind.has_workers:
                    pytest.skip("it has no child per connection")
                for pid in children:  # a child that has served before may be about to end
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with Client(server) as next_one:  # it borrows a connection before Redis replies
                next_one.send(request("GET", "/go/1"))
                next_one.wait_until_read()
                time.sleep(0.1)
                own.resume()
                assert next_one.read().field("Location") in ("/target-1", None)
        finally:
            own.resume()
        for number in range(1, 20):
            assert _finds_link(server, number)
    wait_until(lambda: not processes.zombies(server.pid), "the killed children are reaped")


@of("forking")
def test_what_a_killed_child_had_is_closed(start: Start, own: PrivateRedis) -> None:
    """A killed child's Redis connection is closed although a child forked later holds the socket
    too."""
    server = start(redis=own.url())
    asker = own.client()
    assert _is_back(server)
    with Client(server) as first, Client(server) as second:
        assert first.exchange(request("GET", "/guestbook")).status == 200
        wait_until(lambda: len(server.children()) == 1, "those of before have ended")
        (child,) = server.children()
        assert second.exchange(request("GET", "/guestbook")).status == 200
        before = asker.connected()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: asker.connected() == before - 1, "what it had is closed")
        assert second.exchange(request("GET", "/guestbook")).status == 200


def _assert_reply_is_used(server: Server, own: PrivateRedis, others: list[Client]) -> None:
    with Client(server) as client:
        own.pause()
        try:
            client.send(request("GET", "/guestbook", (("Connection", "close"),)))
            wait_until(lambda: any_unread(own.port), "Redis is asked")
            with server.suspended():
                for other in others:
                    other.send(b"\r\n")
                own.resume()
                time.sleep(REPLY_TIME + 0.5)
        finally:
            own.resume()
        assert client.read().status == 200


@pytest.mark.waits
def test_reply_that_came_while_suspended(start: Start, own: PrivateRedis) -> None:
    """A reply that arrived while the server was suspended is used, although its time is over."""
    server = start(redis=own.url())
    assert _is_back(server)
    undisturbed(REPLY_TIME, lambda: _assert_reply_is_used(server, own, []))


@pytest.mark.waits
@of("poll", "epoll")
def test_reply_behind_more_than_is_told_at_once(start: Start, own: PrivateRedis) -> None:
    """A reply that arrived while suspended is also used with more clients than one epoll_wait()
    call returns (EVENTS_AT_ONCE)."""
    server = start(redis=own.url())
    assert _is_back(server)

    def attempt() -> None:
        with crowd(server, 600, request("GET", "/t/digits.txt")[:-2]) as others:
            others[-1].wait_until_read()
            _assert_reply_is_used(server, own, others)

    undisturbed(2 * REPLY_TIME, attempt)


def test_nobody_listens_at_all(start: Start) -> None:
    """A port without a listener and a missing Unix socket are outages of Redis."""
    for url in (f"redis://127.0.0.1:{free_port()}", "unix:/nowhere/redis.sock"):
        server = start(redis=url)
        _assert_unavailable(fetch(server, "/guestbook"))
        _assert_rest_is_served(server)
        assert _said(server, AWAY) == 1, server.stderr
        server.finish()


def test_memory_full(start: Start) -> None:
    """If Redis refuses to write, the remark is refused; pages that only read are served."""
    with PrivateRedis("--maxmemory", "1") as full:
        server = start(redis=full.url())
        response = sign(server, "Ann", "refused")
        assert response.status == 502
        assert response.field("Retry-After") is None
        assert fetch(server, "/go/name").status == 404
        assert full.client().remarks() == []


def test_who_sends_more_while_redis_is_silent(start: Start, own: PrivateRedis) -> None:
    """A pipelined request that waits unread wakes no event loop again while Redis is silent."""
    server = start(redis=own.url())
    visit = request("GET", "/guestbook")
    assert fetch(server, "/guestbook").status == 200
    with Client(server) as client:
        client.send(visit[:-2])
        client.wait_until_read()
        own.pause()
        try:
            client.send(visit[-2:])
            client.wait_until_read()
            client.send(visit)
            assert_rests(server)
        finally:
            own.resume()
        assert client.read().status in (200, 503)
