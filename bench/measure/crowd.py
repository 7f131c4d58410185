"""Many connections to one server, held open by this very process."""

import re
import resource
import socket
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from bench.measure.load import NoFigure

PER_ADDRESS = 5_000
"""Connections from one local address: a port range of 28,000 is searched quickly for these."""

SPARE_DESCRIPTORS = 300
"""For the server's own files and for ours."""

_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>: choose the port at connect, for the pair of addresses
_REQUEST = b"GET /guestbook HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


def possible(wanted: int) -> int:
    """How many connections the limit of descriptors allows, `wanted` at most.

    Raises the soft limit to the hard one, for us and for the server that will be started.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard - SPARE_DESCRIPTORS)


class Crowd:
    """`count` connections to a server on 127.0.0.1. Use in a `with` block."""

    def __init__(self, url: str, count: int) -> None:
        """Connect them all. Raises NoFigure."""
        self._sockets: list[socket.socket] = []
        port = urlsplit(url).port or 80
        try:
            for number in range(count):
                self._sockets.append(_connect(port, f"127.0.0.{2 + number // PER_ADDRESS}"))
        except OSError as error:
            self._close()
            raise NoFigure(f"connection {len(self._sockets) + 1:,}: {error}") from error

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._close()

    def ask(self) -> None:
        """Every client sends a request for the guestbook. Raises NoFigure."""
        try:
            for connection in self._sockets:
                connection.sendall(_REQUEST)
        except OSError as error:
            raise NoFigure(f"a request could not be sent: {error}") from error

    def listen(self) -> None:
        """Every client reads its whole response, which must be a 200. Raises NoFigure."""
        for number, connection in enumerate(self._sockets, 1):
            try:
                _read_page(connection)
            except (OSError, ValueError) as error:
                raise NoFigure(f"answer {number:,}: {error}") from error

    def still_open(self) -> int:
        """How many of them the server has not closed."""
        return sum(_is_open(connection) for connection in self._sockets)

    def _close(self) -> None:
        for connection in self._sockets:
            connection.close()


def wait_until_calm(pid: int, seconds: float) -> None:
    """Wait until a process has used no CPU time for a while, `seconds` at the most."""
    deadline, used = time.monotonic() + seconds, -1
    while time.monotonic() < deadline and (now := _nanoseconds(pid)) != used:
        used = now
        time.sleep(0.1)


def _connect(port: int, source: str) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(10)
    connection.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    try:
        connection.bind((source, 0))
        connection.connect(("127.0.0.1", port))
    except OSError:
        connection.close()
        raise
    return connection


def _read_page(connection: socket.socket) -> None:
    got = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            raise ValueError("the server closed the connection")
        got += piece
        head, separator, body = got.partition(b"\r\n\r\n")
        if not separator:
            continue
        if not head.startswith(b"HTTP/1.1 200 "):
            raise ValueError(head.splitlines()[0].decode(errors="replace"))
        length = _LENGTH.search(head + b"\r\n")
        if length and len(body) >= int(length[1]):
            return


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _nanoseconds(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
