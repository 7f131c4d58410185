# SPDX-License-Identifier: MIT
"""Services during a load: the slow Redis, the idle connections. These start real processes."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from bench.host.signals import SignalWatch
from bench.load.running import IdleConnections
from bench.services.redis_server import SlowRedis

from ..measuring import broken_server

DELAY = 0.02


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it receives."""

    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 100


@pytest.fixture
def echo() -> Iterator[int]:
    """Yield the port of a server that sends back what it receives."""
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=5)


def test_each_reply_comes_later_and_none_is_lost(echo: int) -> None:
    url = f"redis://user:word@127.0.0.1:{echo}/3"
    with SlowRedis(url, DELAY * 1000, (), SignalWatch()) as slow:
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
    slow = SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch(), split=True)
    with slow, connect(slow.url) as client:
        for _ in range(20):
            client.sendall(b"12345")
            first = client.recv(10)
            if first != b"12345":  # a paused machine may merge them
                break
        assert (first, client.recv(10)) == (b"1234", b"5")


def test_connections_are_delayed_side_by_side(echo: int) -> None:
    with SlowRedis(f"redis://127.0.0.1:{echo}", 1000, (), SignalWatch()) as slow:
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
    slow = SlowRedis(f"redis://127.0.0.1:{echo}", 1, (), SignalWatch())
    with slow, connect(slow.url) as client:
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("good", 40),
        ("drops", 150),  # each hundredth answer is a closed connection, which is opened again
    ],
)
def test_idle_connections_are_held_and_counted(mode: str, count: int) -> None:
    with broken_server(mode) as url, IdleConnections(f"{url}any", count, (), SignalWatch()) as idle:
        time.sleep(0.5)
        report = idle.end()
    assert (report.asked, report.held) == (count, count)
    if mode == "good":
        assert (report.reopened, report.requests, report.requests_during) == (0, 40, 0)
    assert report.reopened + report.requests >= count


def test_what_had_no_room_at_first_was_not_closed_by_the_server() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/any"
        with IdleConnections(url, 20, (), SignalWatch()) as idle:
            listener.settimeout(10)
            taken = [listener.accept()[0] for _ in range(20)]
            time.sleep(0.5)
            report = idle.end()
    for client in taken:
        client.close()
    assert (report.held, report.reopened) == (20, 0)
