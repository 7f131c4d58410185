# SPDX-License-Identifier: MIT
"""Requests, limits and crowds of clients."""

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
"""A parameter of a test that only servers with the mark shared_code get."""
# Slightly less than the server's timeout for a request, for the next one, and for a reply of Redis.
REQUEST_TIME, IDLE_TIME, REDIS_TIME = 8, 4, 1.5


def limit(name: str) -> int:
    """Return a number that lib/config.h or ops/limits.h defines."""
    texts = "".join((REPOSITORY / file).read_text() for file in ("lib/config.h", "ops/limits.h"))
    return int(limits_of(texts)[name])


@contextlib.contextmanager
def crowd(server: Server, count: int, data: bytes) -> Iterator[list[Client]]:
    """Yield clients that have sent something, one after another."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(count)]
        for client in clients:
            client.send(data)
        yield clients


@contextlib.contextmanager
def silent(server: Server, count: int, data: bytes = HALF) -> Iterator[list[Client]]:
    """Yield clients that have sent something, usually half a request, which the server has read."""
    with crowd(server, count, data) as clients:
        for client in clients:
            client.wait_until_read()
        yield clients


def answer(clients: list[Client]) -> None:
    """Send the rest of the half requests, and return the responses."""
    for client in clients:
        assert client.exchange(b"\r\n").status == 200


def statuses(server: Server, target: str, count: int, at_once: int) -> Counter[int]:
    """Return how often each status is the response to so many requests, of which some are sent at
    once, each on a connection of its own."""
    with ThreadPoolExecutor(at_once) as pool:
        return Counter(pool.map(lambda _: fetch(server, target).status, range(count)))
