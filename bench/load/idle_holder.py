# SPDX-License-Identifier: MIT
"""Holds idle keep-alive connections open.

Started as `python -m bench.load.idle_holder HOST PORT COUNT PATH`. Each connection sends a request
when it is opened, and another every REFRESH seconds, because a server closes a connection that has
been idle for some seconds. A connection that was closed anyway is opened again.

It prints how many requests have been answered when all are open (if a server has fewer workers than
connections, the others wait). On SIGTERM it prints how many connections are open, how many requests
were answered and how many connections were opened again.
"""

import collections
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence

REFRESH = 3.5
"""Seconds. Below the 5 s after which an idle connection is closed."""
OPENING_SECONDS = 3.0
"""The maximum time to wait for the first answers."""
AT_ONCE = 200
"""The number of connections opened between two checks for answers."""


class Holder:
    """Opens the connections and keeps them open."""

    def __init__(self, address: tuple[str, int], count: int, path: str) -> None:
        self._address, self._count = address, count
        head = f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\nConnection: keep-alive\r\n\r\n"
        self._request = head.encode()
        self._set = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self._stale: collections.deque[tuple[float, socket.socket]] = collections.deque()
        """Connections by the time of their next request."""
        self.requests = self.reopened = 0
        self._closed = 0
        """Closed by the server, and not yet opened again."""
        self.ended = False

    @property
    def held(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def fill(self) -> None:
        """Open all and wait up to OPENING_SECONDS for answers. `hold` opens what is missing."""
        deadline = time.monotonic() + OPENING_SECONDS
        while self.held < self._count and time.monotonic() < deadline and not self.ended:
            self._open_some()
            self._read(0.0)
        while self.requests < self._count and time.monotonic() < deadline and not self.ended:
            self._read(0.05)
        self.reopened = 0

    def hold(self) -> None:
        """Keep the connections open until SIGTERM."""
        while not self.ended:
            self._read(0.1)
            self._open_some()
            now = time.monotonic()
            while self._stale and self._stale[0][0] <= now:
                self._ask(self._stale.popleft()[1])

    def _open_some(self) -> None:
        for _ in range(min(AT_ONCE, self._count - self.held)):
            try:
                connection = socket.create_connection(self._address, timeout=0.5)
            except OSError:
                return
            connection.setblocking(False)
            self._open[connection.fileno()] = connection
            self._set.register(connection, select.EPOLLIN)
            if self._closed:
                self._closed, self.reopened = self._closed - 1, self.reopened + 1
            self._ask(connection)

    def _ask(self, connection: socket.socket) -> None:
        if connection.fileno() < 0:
            return
        try:
            connection.send(self._request)
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)
            return
        self._stale.append((time.monotonic() + REFRESH, connection))

    def _read(self, wait: float) -> None:
        for descriptor, _ in self._set.poll(wait):
            connection = self._open.get(descriptor)
            if connection is None:
                continue
            try:
                data = connection.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                self.requests += data.count(b"HTTP/1.1 ")
            else:
                self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._closed += self._open.pop(connection.fileno(), None) is not None
        connection.close()


def main(arguments: Sequence[str]) -> None:
    """Hold the connections until SIGTERM."""
    host, port, count, path = arguments
    holder = Holder((host, int(port)), int(count), path)

    def end(*_: object) -> None:
        holder.ended = True

    signal.signal(signal.SIGTERM, end)
    holder.fill()
    print(holder.requests, flush=True)
    holder.hold()
    print(holder.held, holder.requests, holder.reopened, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
