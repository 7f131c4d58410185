# SPDX-License-Identifier: MIT
"""A proxy between the server and Redis that can send false replies.

The program is `python -m bench.torture.liar HOST PORT` (of the real Redis). It prints its port on
127.0.0.1 when it listens, and runs until a signal ends it. It passes all data on until SIGUSR1.
Then it cuts all connections, so that no false reply overtakes a true one. On new connections no
command reaches Redis, and each gets the next false reply. SIGUSR2 ends this.

No false reply can be taken for a successful RPUSH. A server that reports a stored remark meanwhile
has assigned a reply to the wrong command.
"""

import contextlib
import itertools
import signal
import socket
import sys
from collections.abc import Sequence

from bench.services.slow_proxy import Proxy, send

WRONG_TYPE_AND_MORE = {b"RPUSH": b"$2\r\nno\r\n:99\r\n", b"GET": b"*0\r\n:99\r\n"}
"""A reply of a wrong type for the command, followed by a second, unexpected reply."""
OTHERWISE = b"$2\r\nno\r\n:99\r\n"
REFUSED = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
NO_REDIS = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
HALF = b"*2\r\n$5\r\nhal"


class Liar(Proxy):
    """The proxy with all its connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__("127.0.0.1", target, delay=0.0)
        self._lying = False
        self._number = itertools.count()

    def lie(self, *_: object) -> None:
        """Cut all connections, and send false replies from now on."""
        self._lying = True
        for held in list(self._partners.values()):
            shut(held[0])

    def be_honest(self, *_: object) -> None:
        """Pass all data on from now on."""
        self._lying = False

    def _ask(self, client: socket.socket, redis: socket.socket, commands: bytes) -> None:
        """Pass commands on to Redis, or answer them with false replies."""
        if not self._lying:
            super()._ask(client, redis, commands)
            return
        for command in commands_in(commands):
            lie, last = self._lie(command)
            send(client, lie)
            if last:
                shut(client, redis)

    def _lie(self, command: bytes) -> tuple[bytes, bool]:
        """Return the next false reply, and whether the connection ends after it."""
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
    """Return the names of the commands in `data`. Servers send small commands in one piece."""
    names, lines = [], data.split(b"\r\n")
    for at, line in enumerate(lines[:-2]):
        if line.startswith(b"*") and line[1:].isdigit():
            names.append(lines[at + 2].upper())
    return names


def shut(*both: socket.socket) -> None:
    """Shut sockets down; the event loop then closes them."""
    for one in both:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def main(arguments: Sequence[str]) -> None:
    """Run the proxy until a signal ends it."""
    liar = Liar((arguments[0], int(arguments[1])))
    signal.signal(signal.SIGUSR1, liar.lie)
    signal.signal(signal.SIGUSR2, liar.be_honest)
    print(liar.port, flush=True)
    liar.run()


if __name__ == "__main__":
    main(sys.argv[1:])
