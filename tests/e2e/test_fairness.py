# SPDX-License-Identifier: MIT
"""What one client may not do to the server or to the others."""

from __future__ import annotations

import threading
import time

import pytest

from .client import Client, fetch, request
from .harness import Server

PIPELINED = 600
SORTED = b"GET /sorted HTTP/1.1\r\nHost: test\r\n\r\n"


def test_empty_body_in_a_later_segment(server: Server) -> None:
    """The request's fields are good although its input has moved since they were read."""
    head = (
        b"POST /guestbook HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: text/plain\r\nX: " + b"y" * 1500 + b"\r\n\r\n"
    )
    with Client(server) as client:
        client.send(head)
        time.sleep(0.2)
        client.send(b"0\r\n\r\n")
        assert client.read().status == 415


def test_pipeline_does_not_stop_the_others(server: Server) -> None:
    """Another client is answered before hundreds of computed pages have gone out to the first."""
    if not server.kind.keeps_alive:
        pytest.skip("one connection after another is what it does")
    body = 65000
    first = request("POST", "/guestbook", [("Content-Type", "text/plain")], b"a" * body)
    answered: list[float] = []
    with Client(server) as greedy:
        greedy.send(first[:-1])  # grows the server's buffer, so that all the rest fits at once
        time.sleep(0.3)
        greedy.send(b"a" + SORTED * PIPELINED)

        def read_all() -> None:
            assert greedy.read().status == 415
            for _ in range(PIPELINED):
                greedy.read()
                answered.append(time.monotonic())

        reader = threading.Thread(target=read_all)
        reader.start()
        while not answered:
            time.sleep(0.001)
        assert fetch(server, "/redirect").status == 302
        before = len(answered)
        reader.join(120)
    assert len(answered) == PIPELINED
    assert before < PIPELINED - 1
