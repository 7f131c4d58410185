# SPDX-License-Identifier: MIT
"""What fails one request fails no other: replies that are too large, errors, killed connections.
Takes 15 s for all seven servers."""

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..claims import of
from ..client import fetch, sign
from ..conftest import Start
from ..redisbox import Conversation, FalseRedis, PrivateRedis, link, replying
from ..timing import undisturbed_test

CLIENTS = 8
EACH = 10
LARGE = b"x" * 2_000_000


@undisturbed_test(2)
def test_a_remark_of_another_program_is_too_large(start: Start, own: PrivateRedis) -> None:
    """Pages that would show a remark that is too large are 502; each post is stored once."""
    server = start("--workers", "8", redis=own.url())
    client = own.client()
    client.do("DEL", "guestbook_remarks")  # of an attempt before
    assert fetch(server, "/guestbook").status == 200
    client.do("RPUSH", "guestbook_remarks", LARGE)

    def visit(_number: int) -> list[int]:
        return [fetch(server, "/guestbook").status for _ in range(EACH)]

    def post(number: int) -> list[int]:
        return [sign(server, "Ann", f"{number}.{i}").status for i in range(EACH)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        posts = [pool.submit(post, number) for number in range(CLIENTS // 2)]
        pages = [pool.submit(visit, number) for number in range(CLIENTS // 2)]
    assert Counter(s for one in posts for s in one.result()) == {303: CLIENTS // 2 * EACH}
    assert Counter(s for one in pages for s in one.result()) == {502: CLIENTS // 2 * EACH}
    stored = Counter(remark for remark in client.remarks() if remark != LARGE)
    assert len(stored) == CLIENTS // 2 * EACH
    assert "unavailable" not in server.stderr
    assert "the reply is too large and was skipped" in server.stderr
    client.do("DEL", "guestbook_remarks")
    assert fetch(server, "/guestbook").status == 200


@of("preforking", "epoll")
def test_large_replies_keep_the_connection(start: Start, own: PrivateRedis) -> None:
    """A reply that is too large is skipped, and later replies on its connection are used."""
    server = start("--workers", "1", redis=own.url())
    client = own.client()
    assert fetch(server, "/guestbook").status == 200
    before = client.connections()
    for _ in range(30):  # 1.5 MB, in small parts
        client.do("RPUSH", "guestbook_remarks", b"y" * 50_000)
    for _ in range(5):
        response = fetch(server, "/guestbook")
        assert (response.status, response.field("Retry-After")) == (502, None)
        assert fetch(server, "/go/none").status == 404
    assert client.connections() == before


@of("prethreading", "epoll")
def test_killed_connections_are_no_outage(start: Start, own: PrivateRedis) -> None:
    """CLIENT KILL fails only the requests on the killed connections; the next ones connect."""
    server = start("--workers", "8", redis=own.url())
    own.client().do("SET", "link:name", "/there")
    assert fetch(server, "/go/name").status == 302
    statuses: list[int] = []
    over = threading.Event()

    def visit() -> None:
        while not over.is_set():
            statuses.append(fetch(server, "/go/name").status)

    killer = own.client()
    with ThreadPoolExecutor(8) as pool:
        visits = [pool.submit(visit) for _ in range(8)]
        for _ in range(50):
            killer.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            time.sleep(0.02)
        over.set()
    assert [one.result() for one in visits] == [None] * 8
    assert "unavailable" not in server.stderr, server.stderr
    assert set(statuses) <= {302, 503}
    assert statuses.count(503) <= 50 * 8, server.stderr


@of("preforking", "epoll")
@undisturbed_test(0.7)
def test_a_slow_loss_of_a_new_connection_is_no_outage(start: Start) -> None:
    """If Redis closes a new connection before its first reply, however late, only the request on
    it fails, provided that Redis replied shortly before the connection began."""
    numbers = itertools.count()

    def script(conversation: Conversation) -> None:
        number = next(numbers)
        if conversation.next_command() is None:
            return
        if number == 1:
            time.sleep(0.4)  # longer than a server waits for a sign of Redis
        else:
            conversation.send(b"$6\r\n/there\r\n")

    with FalseRedis(script) as false:
        server = start("--workers", "1", redis=false.url)
        statuses = [fetch(server, "/go/name").status]
        time.sleep(0.1)  # the server notices that its first connection was closed
        statuses += [fetch(server, "/go/name").status for _ in range(2)]
        assert statuses == [302, 503, 302], server.stderr
        assert "unavailable" not in server.stderr


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.parametrize(("pause", "status"), [(0, 302), (0.8, 503)])
def test_one_deadline_for_a_call(start: Start, pause: float, status: int) -> None:
    """AUTH, SELECT and the command share one timeout of 2 s; they do not have one each."""

    def reply(words: list[bytes]) -> bytes:
        return link(words) if words[0] == b"GET" else b"+OK\r\n"

    with FalseRedis(replying(reply, pause)) as false:
        url = false.url.replace("redis://", "redis://:secret@").removesuffix("0") + "1"
        assert fetch(start("--workers", "1", redis=url), "/go/name").status == status
