# SPDX-License-Identifier: MIT
"""Helpers for tests of the servers' opening comments: quote them, open many connections."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from .client import Client, request
from .harness import REPOSITORY, Server

WORKERS = 4
CLOSE = (("Connection", "close"),)
DIGITS, VISIT, ELSEWHERE = (
    request("GET", path, CLOSE) for path in ("/t/digits.txt", "/guestbook", "/t/plain")
)
KEPT = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]
of = pytest.mark.of_servers
# Slightly less than the timeout for half a request.
HALF_TIME = 8


def _words(text: str) -> str:
    """Return the text on one line, without comment marks and Markdown."""
    text = re.sub(r"^ \*", "", text, flags=re.MULTILINE)
    return " ".join(re.sub(r"[`*]|\]\([^)]*\)|\[", "", text).split())


def says(*sentences: str) -> None:
    """Assert that each sentence is in an opening comment, the README or an explanation."""
    documents = [REPOSITORY / "README.md", *REPOSITORY.glob("docs/explanation/*.md")]
    sources = [*REPOSITORY.glob("[0-9][0-9]_*/main.c"), *documents]
    texts = [_words(path.read_text(encoding="utf-8")) for path in sources]
    for sentence in sentences:
        assert any(_words(sentence) in text for text in texts), f"not in a comment: {sentence}"


def limit(name: str) -> int:
    """Return a number that lib/config.h or ops/limits.h defines."""
    texts = "".join((REPOSITORY / file).read_text() for file in ("lib/config.h", "ops/limits.h"))
    found = re.search(rf"^#define {name} +(\d+)", texts, re.M)
    assert found is not None, f"no header defines {name}"
    return int(found[1])


@contextlib.contextmanager
def crowd(server: Server, count: int, data: bytes) -> Iterator[list[Client]]:
    """Yield clients that have sent something, one after another."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(count)]
        for client in clients:
            client.send(data)
        yield clients


def answer(clients: list[Client]) -> None:
    """Send the rest of the half requests, and return the responses."""
    for client in clients:
        assert client.exchange(b"\r\n").status == 200
