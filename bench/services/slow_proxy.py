# SPDX-License-Identifier: MIT
"""A slow Redis: passes everything on at once, and every reply a fixed time later.

Started as `python -m bench.services.slow_proxy ADDRESS HOST PORT MILLISECONDS` (ADDRESS to listen
on, HOST and PORT of the real one); prints its port when it listens, and runs until it is
ended. It delays, it does not limit: replies that come together also leave together, so a pipelined
connection is slowed once, not once a reply.

One loop and no library, since it runs on the CPU of the load: Redis, ab and this share it.
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


class Proxy:
    """All connections, each with a partner on the other side."""

    def __init__(self, address: str, target: tuple[str, int], delay: float) -> None:
        """`delay` in seconds. Listens on a free port of the address."""
        self._target, self._delay = target, delay
        self._listener = socket.create_server((address, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._set = select.epoll()
        self._set.register(self._listener, select.EPOLLIN)
        self._partners: dict[int, tuple[socket.socket, socket.socket, bool]] = {}
        """By descriptor: itself, its partner, whether it is the side of Redis."""
        self._due: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
        """What is held back, in the order in which it is due (the delay is the same for all)."""

    def run(self) -> None:
        """For ever."""
        while True:
            # epoll's own timeout is in whole milliseconds; select's is finer.
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            if select.select([self._set], [], [], wait)[0]:
                for descriptor, _ in self._set.poll(0):
                    self._serve(descriptor)
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, client, reply = self._due.popleft()
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
        """What a client has sent goes on to Redis; `bench.torture.liar` does otherwise."""
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
    """Send it all. Commands and pages are small; should a buffer be full, wait for it."""
    view = memoryview(data)
    with contextlib.suppress(OSError):  # the other side has gone, which its own event will tell
        while view:
            try:
                view = view[to.send(view) :]
            except BlockingIOError:
                writable = select.poll()
                writable.register(to, select.POLLOUT)
                writable.poll(1000)


def main(arguments: Sequence[str]) -> None:
    """Run until ended by a signal."""
    address, host, port, milliseconds = arguments
    proxy = Proxy(address, (host, int(port)), float(milliseconds) / 1000)
    print(proxy.port, flush=True)
    proxy.run()


if __name__ == "__main__":
    main(sys.argv[1:])
