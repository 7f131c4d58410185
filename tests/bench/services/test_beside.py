# SPDX-License-Identifier: MIT
"""Services during a load: the slow Redis, the idle connections. These start real processes."""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.host.process import Child
from bench.host.signals import SignalWatch
from bench.load.idle import IdleConnections
from bench.services.redis_server import SlowRedis

DELAY = 0.02


@pytest.fixture
def echo() -> Iterator[int]:
    """Yield the port of a server that sends back what it receives."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client:
            while data := client.recv(65536):
                client.sendall(data)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=5)


def test_each_reply_comes_later_and_none_is_lost(echo: int) -> None:
    url = f"redis://user:word@127.0.0.1:{echo}/3"
    with SlowRedis(url, DELAY * 1000, (), SignalWatch()) as slow:
        assert isinstance(slow, SlowRedis)
        assert slow.url.startswith("redis://user:word@127.0.0.1:")
        assert slow.url.endswith("/3")
        with connect(slow.url) as client:
            for number in range(5):
                begin = time.monotonic()
                client.sendall(b"%d" % number)
                assert client.recv(10) == b"%d" % number
                assert time.monotonic() - begin >= DELAY
            client.sendall(b"x" * 1_000_000)
            got = 0
            while got < 1_000_000:
                got += len(client.recv(65536))


def test_a_reply_comes_in_two_pieces(echo: int) -> None:
    with SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch(), split=True) as slow:
        assert isinstance(slow, SlowRedis)
        with connect(slow.url) as client:
            for _ in range(20):
                client.sendall(b"12345")
                first = client.recv(10)
                if first != b"12345":  # a paused machine may merge them
                    break
            assert (first, client.recv(10)) == (b"1234", b"5")


def test_connections_are_delayed_side_by_side(echo: int) -> None:
    with SlowRedis(f"redis://127.0.0.1:{echo}", 1000, (), SignalWatch()) as slow:
        assert isinstance(slow, SlowRedis)
        clients = [connect(slow.url) for _ in range(50)]
        begin = time.monotonic()
        for client in clients:
            client.sendall(b"?")
        for client in clients:
            assert client.recv(1) == b"?"
        assert time.monotonic() - begin < 25, "50 seconds of waiting are one"
        for client in clients:
            client.close()


def test_an_end_is_passed_on(echo: int) -> None:
    with SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch()) as slow:
        assert isinstance(slow, SlowRedis)
        with connect(slow.url) as client:
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


def server(mode: str) -> tuple[Child, int]:
    script = str(Path(__file__).parents[1] / "broken_server.py")
    child = Child([sys.executable, script, mode, "0"])
    while "url" not in child.stdout or not child.stdout.endswith("\n"):
        time.sleep(0.01)
    return child, int(child.stdout.strip().rstrip("/").rsplit(":", 1)[1])


def test_idle_connections_are_held_and_counted() -> None:
    child, port = server("good")
    try:
        with IdleConnections(f"http://127.0.0.1:{port}/any", 40, (), SignalWatch()) as idle:
            assert isinstance(idle, IdleConnections)
            time.sleep(0.2)
            report = idle.end()
    finally:
        child.end()
    assert (report.asked, report.held, report.reopened) == (40, 40, 0)
    assert (report.requests, report.requests_during) == (40, 0)


def test_what_had_no_room_at_first_was_not_closed_by_the_server() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/any"
        with IdleConnections(url, 20, (), SignalWatch()) as idle:
            assert isinstance(idle, IdleConnections)
            listener.settimeout(10)
            taken = [listener.accept()[0] for _ in range(20)]
            time.sleep(0.5)
            report = idle.end()
    for client in taken:
        client.close()
    assert (report.held, report.reopened) == (20, 0)


def test_idle_connections_that_the_server_closes_are_opened_anew() -> None:
    child, port = server("drops")  # each hundredth answer is a closed connection
    try:
        with IdleConnections(f"http://127.0.0.1:{port}/any", 150, (), SignalWatch()) as idle:
            assert isinstance(idle, IdleConnections)
            time.sleep(0.5)
            report = idle.end()
    finally:
        child.end()
    assert report.held == 150
    assert report.reopened + report.requests >= 150
