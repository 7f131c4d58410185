# SPDX-License-Identifier: MIT
"""Something between the servers and Redis that can begin to lie.

Started as `python -m bench.torture.liar HOST PORT` (of the real Redis); prints the line `port N` of
127.0.0.1 when it listens, and runs until it is ended. Everything is passed on until SIGUSR1. Then
all connections are cut, lest a lie overtake a true reply that is still under way; on those made
afterwards no command reaches Redis, and each is answered by the next lie. SIGUSR2 ends that.

No lie can be taken for the answer "stored": a server that says so all the same has mistaken the
reply to one command for that to another.
"""

import contextlib
import itertools
import signal
import socket
import sys
import threading
from collections.abc import Sequence

WRONG_TYPE_AND_MORE = {b"RPUSH": b"$2\r\nno\r\n:99\r\n", b"GET": b"*0\r\n:99\r\n"}
"""A reply of another type than the command has, and behind it one that nobody has asked for."""
OTHERWISE = b"$2\r\nno\r\n:99\r\n"
REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
NO_REDIS = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
HALF = b"*2\r\n$5\r\nhal"


class Liar:
    """All connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.lying = False
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._number = itertools.count()

    def run(self) -> None:
        """For ever."""
        while True:
            server, _ = self._listener.accept()
            try:
                redis = socket.create_connection(self._target, timeout=5)
            except OSError:
                server.close()
                continue
            redis.settimeout(None)
            for one in (server, redis):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add((server, redis))
            for work in (self._commands, self._replies):
                threading.Thread(target=work, args=(server, redis), daemon=True).start()

    def lie(self, *_: object) -> None:
        """From now on."""
        self.lying = True
        for pair in list(self._open):
            shut(*pair)

    def be_honest(self, *_: object) -> None:
        """From now on."""
        self.lying = False

    def _commands(self, server: socket.socket, redis: socket.socket) -> None:
        """From the server to Redis, or into our own ear."""
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not self.lying:
                    redis.sendall(data)
                    continue
                for command in commands_in(data):
                    lie, last = self._lie(command)
                    server.sendall(lie)
                    if last:
                        shut(server, redis)
        self._open.discard((server, redis))
        shut(server, redis)

    def _replies(self, server: socket.socket, redis: socket.socket) -> None:
        """From Redis to the server."""
        with contextlib.suppress(OSError):
            while data := redis.recv(65536):
                server.sendall(data)
        shut(server, redis)

    def _lie(self, command: bytes) -> tuple[bytes, bool]:
        """The next one, and whether the connection ends with it."""
        match next(self._number) % 4:
            case 0:
                return WRONG_TYPE_AND_MORE.get(command, OTHERWISE), False
            case 1:
                return REFUSED, False
            case 2:
                return NO_REDIS, False
            case _:
                return HALF, True


def commands_in(data: bytes) -> list[bytes]:
    """The names of the commands, which all begin in `data`: servers send small ones in one
    piece."""
    names, lines = [], data.split(b"\r\n")
    for at, line in enumerate(lines[:-2]):
        if line.startswith(b"*") and line[1:].isdigit():
            names.append(lines[at + 2].upper())
    return names


def shut(*both: socket.socket) -> None:
    """End both, which wakes who reads from them."""
    for one in both:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def main(arguments: Sequence[str]) -> None:
    """Run until ended by a signal."""
    liar = Liar((arguments[0], int(arguments[1])))
    signal.signal(signal.SIGUSR1, liar.lie)
    signal.signal(signal.SIGUSR2, liar.be_honest)
    print(f"port {liar.port}", flush=True)
    liar.run()


if __name__ == "__main__":
    main(sys.argv[1:])
