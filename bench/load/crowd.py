# SPDX-License-Identifier: MIT
"""Many connections to one server, held open by this very process, each of which asks once."""

import re
import select
import socket
from urllib.parse import urlsplit

from bench.load.probe import request_for
from bench.records.errors import NoFigure
from bench.records.workloads import Workload

PER_ADDRESS = 5_000
"""Connections from one local address: a port range of 28,000 is searched quickly for these."""

_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>: choose the port at connect, for the pair of addresses
_NO_ERROR = re.compile(rb"HTTP/1\.1 [23]\d\d ")
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


class Crowd:
    """`count` connections to a server. Use in a `with` block."""

    def __init__(self, url: str, workload: Workload, count: int) -> None:
        """Connect them all; they will ask `url` for the workload. Raises NoFigure."""
        self._sockets: list[socket.socket] = []
        to = urlsplit(url)
        host, port = to.hostname or "", to.port or 80
        self._request = request_for(url, workload, "HTTP/1.1", ["Connection: keep-alive"])
        try:
            for number in range(count):
                self._sockets.append(_connect(host, port, number))
        except OSError as error:
            self._close()
            raise NoFigure(f"connection {len(self._sockets) + 1:,}: {error}") from error

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def ask(self) -> None:
        """Every client sends a request. Raises NoFigure."""
        try:
            for connection in self._sockets:
                connection.sendall(self._request)
        except OSError as error:
            raise NoFigure(f"a request could not be sent: {error}") from error

    def listen(self) -> None:
        """Every client reads its whole response, which must be no error. Raises NoFigure."""
        for number, connection in enumerate(self._sockets, 1):
            try:
                _read_page(connection)
            except (OSError, ValueError) as error:
                raise NoFigure(f"answer {number:,}: {error}") from error

    def answered(self) -> int:
        """To how many something has come already."""
        watched = select.poll()
        for connection in self._sockets:
            watched.register(connection, select.POLLIN)
        return len(watched.poll(0))

    def still_open(self) -> int:
        """How many of them the server has not closed."""
        return sum(_is_open(connection) for connection in self._sockets)

    def _close(self) -> None:
        for connection in self._sockets:
            connection.close()


def _connect(host: str, port: int, number: int) -> socket.socket:
    """The client of this number. On this machine each few thousand have an address of their own."""
    connection = socket.socket()
    connection.settimeout(10)
    connection.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    try:
        if host.startswith("127."):
            connection.bind((f"127.0.0.{2 + number // PER_ADDRESS}", 0))
        connection.connect((host, port))
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
        if not _NO_ERROR.match(head):
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
