# SPDX-License-Identifier: MIT
"""A slow Redis: a proxy that forwards commands at once and each reply after a fixed delay.

It is started as `python -m bench.services.slow_proxy ADDRESS HOST PORT MILLISECONDS [split]`
(ADDRESS to listen on, HOST and PORT of the real Redis; with `split`, the last byte of what arrives
together is sent a little later); it prints its port when it listens, and runs until it is ended. It
delays without limiting the rate: replies that arrive together also leave together, so a pipelined
connection is delayed once, not once for each reply.

It has one loop and no library, because it shares the CPU of the load with Redis and ab.
"""

import collections
import contextlib
import select
import socket
import sys
import time
from collections.abc import Sequence

CHUNK = 65536
BACKLOG = 4096
PIECES_SECONDS = 0.001


class Proxy:
    """The proxy with its connections in pairs: one to a client, one to Redis."""

    def __init__(
        self, address: str, target: tuple[str, int], delay: float, *, split: bool = False
    ) -> None:
        """Listen on a free port of the address. `delay` is in seconds."""
        self._target, self._delay, self._split = target, delay, split
        self._listener = socket.create_server((address, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._set = select.epoll()
        self._set.register(self._listener, select.EPOLLIN)
        self._partners: dict[int, tuple[socket.socket, socket.socket, bool]] = {}
        """By descriptor: the connection, its partner, whether it is the connection to Redis."""
        self._due: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
        """The delayed replies in the order of their times (all have the same delay)."""

    def run(self) -> None:
        """Forward without end."""
        while True:
            # epoll's own timeout is in whole milliseconds; select's is finer.
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            if select.select([self._set], [], [], wait)[0]:
                for descriptor, _ in self._set.poll(0):
                    self._serve(descriptor)
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, client, reply = self._due.popleft()
                if self._split:
                    send(client, reply[:-1])
                    time.sleep(PIECES_SECONDS)
                    reply = reply[-1:]
                send(client, reply)

    def _serve(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._partners:
            one, other, from_redis = self._partners[descriptor]
            try:
                data = one.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._close(one, other)
            elif from_redis:
                self._due.append((time.monotonic() + self._delay, other, data))
            else:
                self._ask(one, other, data)

    def _ask(self, client: socket.socket, redis: socket.socket, commands: bytes) -> None:
        """Forward a client's commands to Redis; `bench.torture.liar` overrides this."""
        send(redis, commands)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                client, _ = self._listener.accept()
                try:
                    redis = socket.create_connection(self._target, timeout=5)
                except OSError:
                    client.close()
                    continue
                for one, other, from_redis in ((client, redis, False), (redis, client, True)):
                    one.setblocking(False)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._partners[one.fileno()] = (one, other, from_redis)
                    self._set.register(one, select.EPOLLIN)

    def _close(self, *pair: socket.socket) -> None:
        for one in pair:
            self._partners.pop(one.fileno(), None)
            one.close()


def send(to: socket.socket, data: bytes) -> None:
    """Send all data. Commands and pages are small; if a buffer is full, wait for it."""
    view = memoryview(data)
    with contextlib.suppress(OSError):  # the peer has closed; its own event reports that
        while view:
            try:
                view = view[to.send(view) :]
            except BlockingIOError:
                writable = select.poll()
                writable.register(to, select.POLLOUT)
                writable.poll(1000)


def main(arguments: Sequence[str]) -> None:
    """Run until a signal ends this process."""
    address, host, port, milliseconds, *split = arguments
    proxy = Proxy(address, (host, int(port)), float(milliseconds) / 1000, split=bool(split))
    print(proxy.port, flush=True)
    proxy.run()


if __name__ == "__main__":
    main(sys.argv[1:])
