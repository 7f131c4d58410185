# SPDX-License-Identifier: MIT
"""Many connections to one server, held open by this process; each sends one request."""

import select
from urllib.parse import urlsplit

from bench.load.client import Client, NoAnswer
from bench.load.probe import request_for
from bench.records.errors import NoFigure
from bench.records.workloads import Workload

PATIENCE = 10.0
PER_ADDRESS = 5_000
"""Connections from one local address: few of its 28,000 ports, so a free one is found fast."""


class Crowd:
    """Many connections to a server. Use in a `with` block."""

    def __init__(self, url: str, workload: Workload, count: int) -> None:
        """Open `count` connections that will request the workload at `url`. To a server on this
        machine each PER_ADDRESS of them have their own local address. Raises NoFigure."""
        self._clients: list[Client] = []
        to = urlsplit(url)
        address = (to.hostname or "", to.port or 80)
        here = address[0].startswith("127.")
        self._request = request_for(url, workload, "HTTP/1.1", ["Connection: keep-alive"])
        try:
            for number in range(count):
                source = f"127.0.0.{2 + number // PER_ADDRESS}" if here else ""
                self._clients.append(Client(address, PATIENCE, source=source))
        except OSError as error:
            self._close()
            raise NoFigure(f"connection {len(self._clients) + 1:,}: {error}") from error

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def ask(self) -> None:
        """Send a request on every connection. Raises NoFigure."""
        try:
            for client in self._clients:
                client.send(self._request)
        except OSError as error:
            raise NoFigure(f"a request could not be sent: {error}") from error

    def listen(self) -> None:
        """Read the response on every connection. Raises NoFigure if it is cut off or an error."""
        for number, client in enumerate(self._clients, 1):
            try:
                answer = client.answer()
            except NoAnswer as error:
                raise NoFigure(f"answer {number:,}: {error}") from error
            if not 200 <= answer.status < 400 or answer.field("Content-Length") is None:
                first = answer.head.splitlines()[0].decode(errors="replace")
                raise NoFigure(f"answer {number:,}: {first}")

    def answered(self) -> int:
        """Return how many connections have received something."""
        return self._ready(select.POLLIN)

    def still_open(self) -> int:
        """Return how many connections the server has not closed."""
        return len(self._clients) - self._ready(select.POLLRDHUP)

    def _ready(self, event: int) -> int:
        watched = select.poll()
        for client in self._clients:
            watched.register(client.socket, event)
        return len(watched.poll(0))

    def _close(self) -> None:
        for client in self._clients:
            client.close()
