# SPDX-License-Identifier: MIT
"""If Redis is absent, killed, restarted or frozen, only requests that need Redis get 503."""

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .. import processes
from ..client import CLOSE, FORM, HALF, Response, form, request
from ..harness import Server, Start, of, of_kind, shared
from ..markup import assert_well_formed
from ..redisbox import PrivateRedis
from ..small import assert_rests, assert_serves_without_redis
from ..sockets import any_unread
from ..timing import undisturbed, undisturbed_test, wait_until

AWAY = "unavailable: "
BACK = "is back"
VISIT = request("GET", "/guestbook")
REPLY_TIME = 2.0  # seconds that a server waits for a reply


def _assert_unavailable(response: Response) -> None:
    assert response.status == 503
    assert response.field("Retry-After") == "1"
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    assert_well_formed(response.text)


def _is_back(server: Server) -> bool:
    """Return whether ten pages in a row are served: each may use another connection to Redis."""
    return all(server.get("/guestbook").status == 200 for _ in range(10))


@pytest.mark.parametrize("place", ["closed port", shared("missing Unix socket")])
def test_absent_at_the_start(start: Start, own: PrivateRedis, place: str) -> None:
    """A server starts without Redis, serves files meanwhile, and connects when Redis starts."""
    own.kill()
    Path(own.socket_path).unlink()
    server = start(redis=own.url() if place == "closed port" else f"unix:{own.socket_path}")
    for _ in range(10):
        _assert_unavailable(server.get("/guestbook"))
        _assert_unavailable(server.get("/go/name"))
        _assert_unavailable(server.sign("Ann", "lost"))
    _assert_unavailable(server.sign("", ""))
    assert_serves_without_redis(server)
    assert server.stderr.count(AWAY) == 1, server.stderr
    assert server.stderr.startswith(f"{server.name}: Redis ")
    own.start()
    wait_until(lambda: _is_back(server), "service is back")
    assert own.client().remarks() == []
    assert server.stderr.count(BACK) == 1, server.stderr


@pytest.mark.redis_code
def test_killed_and_restarted(start: Start, own: PrivateRedis) -> None:
    """The log reports each outage and each return of Redis, with the number of failed requests. If
    Redis restarts between two requests, no request fails."""
    server = start(redis=own.url())
    for times in (1, 2):
        assert _is_back(server)
        statuses: list[int] = []

        def says(words: str, times: int = times, statuses: list[int] = statuses) -> bool:
            statuses.append(server.get("/guestbook").status)
            return server.stderr.count(words) == times

        own.kill()
        # In the same tick of the coarse clock as the last reply, a failure is no outage yet.
        wait_until(lambda: says(AWAY), "the log reports an outage")
        assert set(statuses) == {503}
        assert_serves_without_redis(server)
        own.start()
        wait_until(lambda: says(BACK), "the log reports that Redis is back")
        assert f"{BACK}; {statuses.count(503)} requests were answered without it\n" in server.stderr
    own.kill()
    own.start()
    wait_until(lambda: _is_back(server), "service is back")
    assert [server.sign("Ann", f"number {n}").status for n in range(10)] == [303] * 10
    assert len(own.client().remarks()) == 10


@pytest.mark.redis_code
@undisturbed_test(REPLY_TIME)
def test_frozen(start: Start, own: PrivateRedis) -> None:
    """If Redis accepts connections but never replies, each client gets 503 after the timeout. Files
    are served meanwhile, and all pages when Redis runs again."""
    server = start("--workers", "9", redis=own.url())
    own.client().do("SET", "link:name", "/there")
    assert _is_back(server)
    count = 1 if server.kind.is_stalled_by_one else 8
    with own.paused():
        with server.crowd(count, VISIT) as clients:
            if count > 1:
                clients[0].wait_until_read()
                assert server.get("/t/digits.txt").status == 200
                assert clients[0].is_quiet(0), "files waited for Redis"
            for client in clients:
                _assert_unavailable(client.read())
        assert_serves_without_redis(server)
        assert server.stderr.count(AWAY) == 1, server.stderr
    wait_until(lambda: _is_back(server), "service is back")
    assert server.stderr.count(BACK) == 1, server.stderr
    for _ in range(10):
        assert server.get("/go/name").field("Location") == "/there"


@pytest.mark.redis_code
def test_connections_closed_by_redis(start: Start, own: PrivateRedis) -> None:
    """If Redis closes idle connections (timeout, CLIENT KILL), the next request still works, even
    a remark that arrives in the same loop iteration as the close."""
    server = start(redis=own.url())
    client = own.client()
    remark = request("POST", "/guestbook", (FORM, *CLOSE), form(guest_name="a", guest_remarks="b"))
    for _ in range(3):
        assert _is_back(server)
        client.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.2)  # only a connection that has been idle is checked
        assert _is_back(server)
        with server.client() as visitor:
            with server.suspended():  # one loop iteration gets the close and the remark
                client.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                visitor.send(remark)
            assert visitor.read().status == 303
        time.sleep(0.2)
    assert server.stderr.count(AWAY) == 0, server.stderr


@pytest.mark.redis_code
@of_kind("not is_stalled_by_one")
@pytest.mark.slow
def test_frozen_is_tried_by_few(start: Start, own: PrivateRedis) -> None:
    """After the server has noticed that Redis hangs, only one request per 250 ms waits for it."""
    server = start("--workers", "12", redis=own.url())
    wait_until(lambda: _is_back(server), "service is back")

    def attempt() -> None:
        time.sleep(0.3)
        with server.crowd(10, request("GET", "/guestbook", CLOSE)) as clients:

            def waiting() -> int:
                return sum(client.is_quiet(0) for client in clients)

            wait_until(lambda: waiting() <= 4, "all but a few are answered")
            assert waiting() >= 1, "none waits for Redis"
            for client in clients:
                _assert_unavailable(client.read())

    with own.paused():
        assert server.get("/guestbook").status == 503
        undisturbed(1, attempt)


def _with_links(start: Start, own: PrivateRedis) -> Server:
    """Return a server whose Redis has twenty short links."""
    server = start(redis=own.url())
    client = own.client()
    for number in range(20):
        client.do("SET", f"link:{number}", f"/target-{number}")
    client.close()
    assert _is_back(server)
    return server


@of("poll", "epoll")
def test_frozen_though_others_ask(start: Start, own: PrivateRedis) -> None:
    """Later requests do not prolong an earlier request's wait for a frozen Redis."""
    server = start(redis=own.url())
    assert _is_back(server)
    with own.paused(), server.client() as first, contextlib.ExitStack() as stack:
        first.send(VISIT)
        wait_until(lambda: any_unread(own.port), "Redis is asked")

        def is_answered() -> bool:
            stack.enter_context(server.client()).send(VISIT)
            return not first.is_quiet(0.2)

        wait_until(is_answered, "the request times out")
        assert first.read().status == 503


def _finds_link(server: Server, number: int) -> bool:
    """Return whether a link is found. Raise AssertionError if another link is returned."""
    response = server.get(f"/go/{number}")
    assert response.status in (302, 503)
    assert response.field("Location") in (f"/target-{number}", None)
    return response.status == 302


@pytest.mark.redis_code
@pytest.mark.slow
def test_late_replies_reach_no_other_client(start: Start, own: PrivateRedis) -> None:
    """A reply that arrives after its request timed out is never used for another request."""
    server = _with_links(start, own)

    def finds(number: int) -> None:
        wait_until(lambda: _finds_link(server, number), "service is back")

    with ThreadPoolExecutor(4) as pool:
        with own.paused():
            waiting = [pool.submit(server.get, f"/go/{number}") for number in range(4)]
            assert [one.result().status for one in waiting] == [503] * 4
        wait_until(lambda: not any_unread(own.port), "Redis has read all commands")
        time.sleep(0.3)  # Redis replies, and the server may use Redis again
        with own.paused():  # only late replies can arrive
            assert not any(pool.map(lambda number: _finds_link(server, number), range(4, 8)))
        # Simultaneous requests use each connection that has a late reply.
        assert list(pool.map(finds, range(20))) == [None] * 20


@pytest.mark.redis_code
def test_client_leaves_while_redis_works(start: Start, own: PrivateRedis) -> None:
    """If a client disconnects during a command, no other request gets the command's reply."""
    server = _with_links(start, own)
    for number in range(10):
        with own.paused():
            leaving = server.client()
            leaving.send_read(request("GET", f"/go/{number}"))
            leaving.reset()
        other = (number + 7) % 20
        wait_until(lambda other=other: _finds_link(server, other), "service is back")


@of("forking")
def test_child_killed_while_redis_works(start: Start, own: PrivateRedis) -> None:
    """No other client gets the replies that a killed child has not read."""
    server = _with_links(start, own)
    for _ in range(3):
        with server.client() as next_one:
            with own.paused():
                with server.client() as waiting:
                    waiting.send(request("GET", "/go/0"))
                    wait_until(lambda: any_unread(own.port), "Redis is asked")
                    for pid in server.children():  # a child may end meanwhile
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                # The child of the next client borrows a connection before Redis replies.
                next_one.send_read(request("GET", "/go/1"))
                time.sleep(0.1)
            assert next_one.read().field("Location") in ("/target-1", None)
        for number in range(1, 20):
            assert _finds_link(server, number)
    wait_until(lambda: not processes.zombies(server.pid), "the killed children are reaped")


@of("forking")
def test_what_a_killed_child_had_is_closed(start: Start, own: PrivateRedis) -> None:
    """The parent closes a killed child's Redis connection, although a later child inherited it."""
    server = start(redis=own.url())
    asker = own.client()
    assert _is_back(server)
    with server.client() as first, server.client() as second:
        assert first.exchange(VISIT).status == 200
        wait_until(lambda: len(server.children()) == 1, "the earlier children have ended")
        (child,) = server.children()
        assert second.exchange(VISIT).status == 200
        before = asker.connected()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: asker.connected() == before - 1, "the child's connection is closed")
        assert second.exchange(VISIT).status == 200


@pytest.mark.redis_code
@undisturbed_test(2 * REPLY_TIME)
def test_reply_that_came_while_suspended(start: Start, own: PrivateRedis) -> None:
    """A server uses a reply that arrived while the server was suspended, although the timeout is
    over. In 07 more clients are ready than one epoll_wait() returns (EVENTS_AT_ONCE); 06 gets the
    same number of clients."""
    server = start(redis=own.url())
    assert _is_back(server)
    count = 600 if server.name in ("poll", "epoll") else 0
    with contextlib.ExitStack() as suspended, server.crowd(count, HALF) as others:
        for other in others[-1:]:
            other.wait_until_read()
        with server.client() as client:
            with own.paused():
                client.send(request("GET", "/guestbook", CLOSE))
                wait_until(lambda: any_unread(own.port), "Redis is asked")
                suspended.enter_context(server.suspended())
                for other in others:
                    other.send(b"\r\n")
            time.sleep(REPLY_TIME + 0.5)
            suspended.close()
            assert client.read().status == 200


def test_a_client_that_sends_more_while_redis_is_silent(start: Start, own: PrivateRedis) -> None:
    """An unread pipelined request does not make the server spin while Redis is silent."""
    server = start(redis=own.url())
    assert server.get("/guestbook").status == 200
    with server.client() as client:
        client.send_read(VISIT[:-2])
        with own.paused():
            client.send_read(VISIT[-2:])
            client.send(VISIT)
            assert_rests(server)
        assert client.read().status in (200, 503)
