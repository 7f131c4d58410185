# SPDX-License-Identifier: MIT
"""One client must not stop the server or the other clients."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..client import Client, fetch, request
from ..conftest import Start
from ..harness import Server, architecture
from ..sockets import any_unread
from ..timing import TRIES, wait_until

PIPELINED = 600
# Computed as for GET, and so short that all responses fit into the kernel's buffers: the server
# never has to wait for the client.
SORTED = request("HEAD", "/sorted")
DIGITS = request("GET", "/t/digits.txt")


def test_empty_body_in_a_later_segment(server: Server) -> None:
    """A request's fields are valid although its input was moved after they were read."""
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
    """Return whether the log has another client's request before the last of a long pipeline.
    Without the fault, the log has it later only if this process sent that request too late."""
    first = request("POST", "/guestbook", (("Content-Type", "text/plain"),), b"a" * 65000)
    with Client(server) as greedy, Client(server) as other:
        greedy.send(first[:-1])  # grows the server's buffer, so that the rest fits
        greedy.wait_until_read()
        greedy.send(b"a" + SORTED * PIPELINED)
        assert greedy.read().status == 415
        assert greedy.read("HEAD").status == 200
        other.send(request("GET", "/redirect"))
        closed = any(greedy.read("HEAD").closes for _ in range(1, PIPELINED))
        assert other.read().status == 302
    if closed:  # a fixed number of workers keeps no client while others wait
        return server.kind.worker_per_client
    wait_until(lambda: server.stdout.count(" /") == PIPELINED + 2, "all are in the log")
    return " /redirect " not in server.stdout.splitlines()[-1]


def test_pipeline_does_not_stop_the_others(binary: Path, start: Start) -> None:
    """Another client is answered before hundreds of computed pages of the first are done."""
    if not architecture(binary.name).keeps_alive:
        pytest.skip("it serves one connection after another")
    assert any(_is_served_among_many(start("--log", "--workers", "16")) for _ in range(TRIES))


def _is_kept(server: Server, rounds: int, depth: int) -> bool:
    """Send batches of pipelined requests on one connection; return whether no response has
    close."""
    with Client(server) as client:
        for _ in range(rounds):
            client.send(DIGITS * depth)
            if any(client.read().closes for _ in range(depth)):
                return False
    return True


def test_connections_are_kept_while_workers_are_free(start: Start) -> None:
    """While more than half of the workers are free, no connection is closed for new clients.

    The new clients make one request each, so that sometimes a connection is not yet accepted by the
    worker that is free for it. It must not count as waiting for a worker. On a busy machine many
    workers may not have seen yet that their client has left: then the test tries again.
    """
    server = start("--workers", "16")
    if not server.kind.keeps_alive:
        pytest.skip("it closes after each response")

    def all_are_kept() -> bool:
        with ThreadPoolExecutor(6) as pool:
            kept = [pool.submit(_is_kept, server, 30, 8) for _ in range(4)]
            for _ in range(300):
                assert fetch(server, "/t/digits.txt").status == 200
            return all(one.result() for one in kept)

    assert any(all_are_kept() for _ in range(TRIES))


def _gives_way(server: Server) -> bool:
    """Return whether the first of two clients that hold both workers is closed for a third that
    waits. It is not if it is answered before the server has seen the third."""
    with Client(server) as first, Client(server) as second, Client(server) as third:
        for client in (first, second):
            assert not client.exchange(DIGITS).closes
            client.send(DIGITS[:-2])  # half a request: the idle timeout does not end it
            client.wait_until_read()
        third.send(DIGITS)
        wait_until(lambda: any_unread(server.port), "the third one's request is there")
        gives_way = first.exchange(DIGITS[-2:]).closes
        first.close()
        assert not third.read().closes, "no client waits any more"
        assert not second.exchange(DIGITS[-2:]).closes, "a worker is free"
        return gives_way


def test_connections_are_not_kept_while_one_waits(start: Start) -> None:
    """If all workers have a client and one more waits, the next response ends a connection."""
    server = start("--workers", "2")
    if not server.kind.worker_per_client:
        pytest.skip("it has a worker for each client")
    assert any(_gives_way(server) for _ in range(TRIES))
