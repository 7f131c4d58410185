# SPDX-License-Identifier: MIT
"""Requests, limits and clients that several test files share."""

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.subjects.declared import limits_of

from .client import Client, fetch, request
from .harness import REPOSITORY, Server

WORKERS = 4
CLOSE = (("Connection", "close"),)
DIGITS, VISIT, ELSEWHERE = (
    request("GET", path, CLOSE) for path in ("/t/digits.txt", "/guestbook", "/t/plain")
)
KEPT = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]
of, of_kind = pytest.mark.of_servers, pytest.mark.of_kind
shared = functools.partial(pytest.param, marks=pytest.mark.shared_code)
"""Makes a parameter that is tested only with the servers of the mark shared_code."""
# Seconds: slightly less than the timeouts for a request, for an idle client, and for Redis' reply.
REQUEST_TIME, IDLE_TIME, REDIS_TIME = 8, 4, 1.5


def limit(name: str) -> int:
    """Return a number that lib/config.h or ops/limits.h defines."""
    texts = "".join((REPOSITORY / file).read_text() for file in ("lib/config.h", "ops/limits.h"))
    return int(limits_of(texts)[name])


@contextlib.contextmanager
def crowd(server: Server, count: int, data: bytes) -> Iterator[list[Client]]:
    """Yield connected clients, each of which has sent `data`."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(count)]
        for client in clients:
            client.send(data)
        yield clients


@contextlib.contextmanager
def silent(server: Server, count: int, data: bytes = HALF) -> Iterator[list[Client]]:
    """Yield clients whose data, usually half a request, the server has read."""
    with crowd(server, count, data) as clients:
        for client in clients:
            client.wait_until_read()
        yield clients


def answer(clients: list[Client]) -> None:
    """Send the rest of the half requests, and assert that each response has status 200."""
    for client in clients:
        assert client.exchange(b"\r\n").status == 200


def statuses(server: Server, target: str, count: int, at_once: int) -> Counter[int]:
    """Send `count` requests, `at_once` of them at the same time, each on a new connection. Return
    how often each status was the response."""
    with ThreadPoolExecutor(at_once) as pool:
        return Counter(pool.map(lambda _: fetch(server, target).status, range(count)))
