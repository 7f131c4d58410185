# SPDX-License-Identifier: MIT
"""Stalling: how a few silent or greedy clients affect all other clients."""

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..client import KEPT, REQUEST_TIME, Client, request
from ..harness import Server, Start, architecture, of, of_kind
from ..small import limited
from ..sockets import any_unread
from ..timing import TRIES, undisturbed_test, wait_until


def _assert_waits(client: Client, holders: list[Client]) -> None:
    """Assert that a client gets no response while other clients hold all workers."""
    if not client.is_quiet(1):
        served = not all(holder.is_quiet(0) for holder in holders)
        assert served, "more clients were served than there are workers"


@pytest.mark.slow
@undisturbed_test(REQUEST_TIME / 4)
def test_clients_that_say_nothing(binary: Path, start: Start) -> None:
    """Silent clients occupy no worker while others wait: the kernel waits for the first byte."""
    if architecture(binary.name).stalled_by == "none":
        pytest.skip("this server serves all clients at once")
    server, other = (start("--workers", "2", "--time-scale", "4") for _ in range(2))
    with server.crowd(12, b"") as quiet:
        assert quiet[0].read_to_end() == b""
        with other.silent(1) as (clock,):
            assert server.get("/t/digits.txt").status == 200
            assert clock.is_quiet(0), "each silent client had the timeout of a request"
        for client in quiet:
            assert client.read_to_end() == b""


@of("preforking", "prethreading", "epoll", "coroutines")
@pytest.mark.slow
@undisturbed_test(2.5)
def test_late_request(start: Start, arch: str) -> None:
    """A client that sends its request late is served if no other client waits: on a slow line its
    first packets may have been lost. An event loop serves more of them than it has descriptors."""
    is_loop = arch in ("epoll", "coroutines")
    prefix = limited(nofile=40) if is_loop else ()
    server = start("--workers", "2", "--time-scale", "8", prefix=prefix)
    with server.crowd(60 if is_loop else 1, b"") as clients:
        time.sleep(2)
        for client in clients:
            client.send(request("GET", "/redirect"))
        assert {client.read().status for client in clients} == {302}


@of_kind("not is_stalled_by_one")
def test_as_many_silent_clients_as_workers(start: Start) -> None:
    """Three silent clients stall three workers that serve one client each, but two do not."""
    server = start("--workers", "3")
    with server.silent(2) as held:
        assert server.statuses("/t/digits.txt", 10) == {200: 10}
        with server.silent(1) as (last,), server.client() as client:
            client.send(KEPT)
            if server.kind.worker_per_client:
                _assert_waits(client, [*held, last])
                last.close()
            assert client.read().status == 200


@pytest.mark.slow
def test_flood_of_silent_clients(start: Start) -> None:
    """A client with a request is served although many silent clients waited before it. The kernel
    cannot store so many connection requests, so it uses SYN cookies, and passes these clients to
    the server before they have sent data. If each of them occupied the worker of 01 for a second,
    other clients would wait for minutes.
    """
    server = start("--workers", "1", "--backlog", "64")
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex((server.host, server.port))
        assert server.statuses("/t/digits.txt", 5) == {200: 5}


# ---- Clients with many requests ----

PIPELINED = 600
# A HEAD costs as much as a GET, but all responses fit into the kernel's buffers, so the server
# never waits for the client.
SORTED = request("HEAD", "/sorted")


def _is_served_among_many(server: Server) -> bool:
    """Return whether the log has another client's request before the last request of a long
    pipeline. A correct server logs the other request last only if the test sent it late."""
    first = request("POST", "/guestbook", (("Content-Type", "text/plain"),), b"a" * 65000)
    with server.client() as greedy, server.client() as other:
        greedy.send_read(first[:-1])  # grows the server's buffer for the pipeline
        greedy.send(b"a" + SORTED * PIPELINED)
        assert greedy.read().status == 415
        assert greedy.read("HEAD").status == 200
        other.send(request("GET", "/redirect"))
        closed = any(greedy.read("HEAD").closes for _ in range(1, PIPELINED))
        assert other.read().status == 302
    if closed:  # while clients wait, a worker for one client closes its connection
        return server.kind.worker_per_client
    wait_until(lambda: server.stdout.count(" /") == PIPELINED + 2, "all requests are in the log")
    return " /redirect " not in server.stdout.splitlines()[-1]


@of_kind("keeps_alive")
def test_pipeline_does_not_stop_the_others(start: Start) -> None:
    """Another client gets its response before hundreds of computed pages of the first client."""
    assert any(_is_served_among_many(start("--log", "--workers", "16")) for _ in range(TRIES))


def _is_kept(server: Server, rounds: int, depth: int) -> bool:
    """Send batches of requests on one connection; return whether the server keeps the
    connection."""
    with server.client() as client:
        for _ in range(rounds):
            client.send(KEPT * depth)
            if any(client.read().closes for _ in range(depth)):
                return False
    return True


@of_kind("keeps_alive")
def test_connections_are_kept_while_workers_are_free(start: Start) -> None:
    """While more than half of the workers are free, no connection is closed for new clients.

    The new clients send one request each. A connection that a free worker has not accepted yet must
    not count as waiting. On a busy machine workers may not have noticed yet that their clients have
    left, so the test tries again.
    """
    server = start("--workers", "16")

    def all_are_kept() -> bool:
        with ThreadPoolExecutor(6) as pool:
            kept = [pool.submit(_is_kept, server, 30, 8) for _ in range(4)]
            assert server.statuses("/t/digits.txt", 300) == {200: 300}
            return all(one.result() for one in kept)

    assert any(all_are_kept() for _ in range(TRIES))


def _gives_way(server: Server) -> bool:
    """Let two clients occupy both workers, and a third client wait. Return whether the first is
    disconnected after its response. The result is False if the server has not noticed the third
    client yet."""
    with server.client() as first, server.client() as second, server.client() as third:
        for client in (first, second):
            assert not client.exchange(KEPT).closes
            client.send_read(KEPT[:-2])  # half a request, so the client is not idle
        third.send(KEPT)
        wait_until(lambda: any_unread(server.port), "the third request has arrived")
        gives_way = first.exchange(KEPT[-2:]).closes
        first.close()
        assert not third.read().closes, "no other client waits"
        assert not second.exchange(KEPT[-2:]).closes, "a worker is free"
        return gives_way


@of_kind("worker_per_client")
def test_connections_are_not_kept_while_one_waits(start: Start) -> None:
    """If all workers have a client and one more client waits, a worker closes its connection after
    the next response."""
    server = start("--workers", "2")
    assert any(_gives_way(server) for _ in range(TRIES))
