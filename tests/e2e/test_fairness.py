# SPDX-License-Identifier: MIT
"""What one client may not do to the server or to the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from .client import Client, request
from .conftest import Start
from .harness import Server, architecture
from .timing import TRIES, wait_until

PIPELINED = 600
# Computed as for GET, and so short an answer that all of them fit into the kernel's buffers: the
# server never has to wait for the client.
SORTED = request("HEAD", "/sorted")


def test_empty_body_in_a_later_segment(server: Server) -> None:
    """The request's fields are good although its input has moved since they were read."""
    head = (
        b"POST /guestbook HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: text/plain\r\nX: " + b"y" * 1500 + b"\r\n\r\n"
    )
    with Client(server) as client:
        client.send(head)
        client.wait_until_read()
        client.send(b"0\r\n\r\n")
        assert client.read().status == 415


def _is_served_among_many(server: Server) -> bool:
    """Whether the server's log has another client's request before the last of a long pipeline.

    It has not if this process came too late with that request.
    """
    first = request("POST", "/guestbook", (("Content-Type", "text/plain"),), b"a" * 65000)
    with Client(server) as greedy, Client(server) as other:
        greedy.send(first[:-1])  # grows the server's buffer, so that all the rest fits at once
        greedy.wait_until_read()
        greedy.send(b"a" + SORTED * PIPELINED)
        assert greedy.read().status == 415
        assert greedy.read("HEAD").status == 200
        other.send(request("GET", "/redirect"))
        closed = any(greedy.read("HEAD").closes for _ in range(1, PIPELINED))
        assert other.read().status == 302
    if closed:  # a fixed number of workers keeps nobody while others wait
        return server.kind.has_workers
    wait_until(lambda: server.stdout.count(" /") == PIPELINED + 2, "all are in the log")
    return " /redirect " not in server.stdout.splitlines()[-1]


def test_pipeline_does_not_stop_the_others(binary: Path, start: Start) -> None:
    """Another client is answered before hundreds of computed pages are done for the first."""
    if not architecture(binary.name).keeps_alive:
        pytest.skip("one connection after another is what it does")
    assert any(_is_served_among_many(start("--log", "--workers", "16")) for _ in range(TRIES))
