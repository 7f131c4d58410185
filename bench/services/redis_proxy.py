# SPDX-License-Identifier: MIT
"""A proxy in front of Redis: it delays each reply by a fixed time, or sends false replies.

The command is `python -m bench.services.redis_proxy ADDRESS HOST PORT MILLISECONDS [split]`: the
ADDRESS to listen on, and HOST and PORT of the real Redis. With `split`, the last byte of each piece
of data from Redis is sent a little later. The proxy prints its port when it listens, and runs until
a signal ends it. The delay does not limit the rate, because replies that arrive together also leave
together.

With `split`, two words in commands have an effect. A command with `mismatched` gets a reply of a
wrong type, and the next command on that connection gets an additional reply first, as after a
timeout. A command with `halved` gets the first half of a reply, and its connection is closed.

After SIGUSR1 the proxy sends false replies. First it closes all connections, so that no false reply
overtakes a true reply. On new connections no command reaches Redis, and each command gets the next
false reply. After SIGUSR2 all replies are true again. The first reply to each RPUSH never looks
like success. So a server that reports a stored remark meanwhile has assigned a reply to the wrong
command.

The proxy has one loop and no library, because it shares the CPU of the load with Redis and ab.
"""

import collections
import contextlib
import itertools
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence

CHUNK = 65536
BACKLOG = 4096
PIECES_SECONDS = 0.001

WRONG_TYPE_AND_MORE = {b"RPUSH": b"$2\r\nno\r\n:99\r\n", b"GET": b"*0\r\n:99\r\n"}
"""A reply of a wrong type for the command, followed by a second, unexpected reply."""
OTHERWISE = b"$2\r\nno\r\n:99\r\n"
REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
NO_REDIS = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
MISMATCHED, MISMATCH, LATE, HALVED = b"mismatched", b"*0\r\n", b":99\r\n", b"halved"
HALF = b"*2\r\n$5\r\nhal"
"""The first half of a reply, after which the proxy closes the connection."""


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
        """A connection, its partner, and whether the connection leads to Redis, by descriptor."""
        self._due: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
        """The delayed replies and the times at which they are due, the earliest first."""
        self._lying = False
        self._number = itertools.count()
        self._mismatched: set[socket.socket] = set()
        """The clients to which the proxy must still send the additional reply."""

    def lie(self, *_: object) -> None:
        """Close all connections, and send false replies on new connections."""
        self._lying = True
        for held in list(self._partners.values()):
            shut(held[0])

    def be_honest(self, *_: object) -> None:
        """Forward all data unchanged again."""
        self._lying = False

    def run(self) -> None:
        """Forward data until the process ends."""
        while True:
            # The timeout of select has a finer resolution than that of epoll (1 ms).
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
                data = one.recv(CHUNK, socket.MSG_DONTWAIT)
            except BlockingIOError:  # the event was for a closed connection with this descriptor
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
        """Forward a client's commands to Redis, or answer them with false replies."""
        if not self._lying:
            if client in self._mismatched:
                self._mismatched.remove(client)
                send(client, LATE)
            if self._split and MISMATCHED in commands:
                self._mismatched.add(client)
                send(client, MISMATCH)
            elif self._split and HALVED in commands:
                send(client, HALF)
                shut(client, redis)
            else:
                send(redis, commands)
            return
        for command in commands_in(commands):
            wrong = WRONG_TYPE_AND_MORE.get(command, OTHERWISE)
            lie = (wrong, REFUSED, NO_REDIS, HALF)[next(self._number) % 4]
            send(client, lie)
            if lie is HALF:
                shut(client, redis)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:  # the client has left
            return
        try:
            redis = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        redis.settimeout(None)
        for one, other, from_redis in ((client, redis, False), (redis, client, True)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._partners[one.fileno()] = (one, other, from_redis)
            self._set.register(one, select.EPOLLIN)

    def _close(self, *pair: socket.socket) -> None:
        for one in pair:
            self._partners.pop(one.fileno(), None)
            self._mismatched.discard(one)
            one.close()


def send(to: socket.socket, data: bytes) -> None:
    """Send all data. If the socket buffer is full, wait; this is rare, because data are small."""
    with contextlib.suppress(OSError):  # the peer has closed, which another event reports
        to.sendall(data)


def commands_in(data: bytes) -> list[bytes]:
    """Return the names of the commands in `data`. Each command must be complete."""
    lines = data.split(b"\r\n")
    starts = (at for at, line in enumerate(lines[:-2]) if re.fullmatch(rb"\*\d+", line))
    return [lines[at + 2].upper() for at in starts]


def shut(*both: socket.socket) -> None:
    """Shut down sockets, so that the event loop closes them."""
    for one in both:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def main(arguments: Sequence[str]) -> None:
    """Run the proxy until a signal ends this process."""
    address, host, port, milliseconds, *split = arguments
    proxy = Proxy(address, (host, int(port)), float(milliseconds) / 1000, split=bool(split))
    signal.signal(signal.SIGUSR1, proxy.lie)
    signal.signal(signal.SIGUSR2, proxy.be_honest)
    print(proxy.port, flush=True)
    proxy.run()


if __name__ == "__main__":
    main(sys.argv[1:])
