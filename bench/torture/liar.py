# SPDX-License-Identifier: MIT
"""Something between the servers and Redis that can begin to lie: a slow Redis that is not slow.

Started as `python -m bench.torture.liar HOST PORT` (of the real Redis); prints its port of
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
from collections.abc import Sequence

from bench.services.slow_proxy import Proxy, send

WRONG_TYPE_AND_MORE = {b"RPUSH": b"$2\r\nno\r\n:99\r\n", b"GET": b"*0\r\n:99\r\n"}
"""A reply of another type than the command has, and behind it one that nobody has asked for."""
OTHERWISE = b"$2\r\nno\r\n:99\r\n"
REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
NO_REDIS = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
HALF = b"*2\r\n$5\r\nhal"


class Liar(Proxy):
    """All connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__("127.0.0.1", target, delay=0.0)
        self._lying = False
        self._number = itertools.count()

    def lie(self, *_: object) -> None:
        """From now on."""
        self._lying = True
        for held in list(self._partners.values()):
            shut(held[0])

    def be_honest(self, *_: object) -> None:
        """From now on."""
        self._lying = False

    def _ask(self, client: socket.socket, redis: socket.socket, commands: bytes) -> None:
        """From the server to Redis, or into our own ear."""
        if not self._lying:
            super()._ask(client, redis, commands)
            return
        for command in commands_in(commands):
            lie, last = self._lie(command)
            send(client, lie)
            if last:
                shut(client, redis)

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
    """End both: the loop hears of it, and closes them."""
    for one in both:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def main(arguments: Sequence[str]) -> None:
    """Run until ended by a signal."""
    liar = Liar((arguments[0], int(arguments[1])))
    signal.signal(signal.SIGUSR1, liar.lie)
    signal.signal(signal.SIGUSR2, liar.be_honest)
    print(liar.port, flush=True)
    liar.run()


if __name__ == "__main__":
    main(sys.argv[1:])
