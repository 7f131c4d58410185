# SPDX-License-Identifier: MIT
"""The crowds of the attacks: clients that harm a server.

The program is `python -m bench.torture.crowd ORDER`; ORDER is a `CrowdOrder` in JSON. It runs until
SIGTERM and then prints its result, a `Tally`, as one line of JSON. The number of connections at a
time is limited, and in a flood also the total.
"""

import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from bench.torture.visitors import OUTCOMES, Outcome, Page, content_of, judge, leave_nothing

CONNECT_SECONDS = 0.2
LOOK_SECONDS = 0.1
"""The interval in which a held connection sends a byte, and closed ones are replaced."""
MOST_FLOODED = 50_000
SMALL_BUFFER = 4096
"""The receive buffer of a client that does not read: the kernel accepts little data for it."""
PIPELINED = 20
"""The number of requests that a slow reader sends at once."""
PATIENCE = 5.0
"""The timeout in seconds of a client in a rush, for its whole response."""


@dataclass(frozen=True)
class CrowdOrder:
    """The parameters of a crowd."""

    kind: str
    """A key of KINDS."""
    host: str
    port: int
    count: int
    page: Page
    pause: float = 0.0
    """Seconds between two rushes."""
    rounds: int = 0
    """The number of rushes; 0: until SIGTERM."""

    @property
    def address(self) -> tuple[str, int]:
        """Return the address of the server."""
        return self.host, self.port

    def words(self) -> str:
        """Return the parameters as a word for the command line."""
        return json.dumps(asdict(self))


@dataclass
class Tally:
    """The result of a crowd."""

    opened: int = 0
    """The number of opened connections."""
    answers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    """The number of requests by outcome, of crowds that read responses."""
    why: dict[str, dict[str, int]] = field(default_factory=dict)
    """The number of failures by outcome and reason."""

    def count(self, outcome: Outcome, detail: str) -> None:
        """Count one more request."""
        self.answers[outcome] += 1
        if outcome != "good":
            counted = self.why.setdefault(outcome, {})
            counted[detail] = counted.get(detail, 0) + 1


Ended = Callable[[], bool]


HELD: dict[str, Callable[[Page], tuple[bytes, bytes]]] = {
    "connect-only": lambda _: (b"", b""),
    "idle": lambda page: (page.request(keep_alive=True), b""),
    "slow-heads": lambda _: (b"GET / HTTP/1.1\r\nHost: torture\r\nX: ", b"x"),
    "slow-readers": lambda page: (page.request(keep_alive=True) * PIPELINED, b""),
}
"""The crowds that hold connections: the bytes sent at first, and those sent repeatedly."""


def hold(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Keep all connections open and read nothing. Replace connections that the server closes."""
    first, then = HELD[order.kind](order.page)
    held: list[socket.socket] = []
    while not ended():
        while len(held) < order.count and not ended():
            connection = connected(order, SMALL_BUFFER)
            if connection is None:
                break
            tally.opened += 1
            if sent(connection, first):
                held.append(connection)
        until = time.monotonic() + LOOK_SECONDS
        gone = closed_among(held)
        held = [one for one in held if one not in gone and sent(one, then)]
        for one in gone:
            one.close()
        while not ended() and time.monotonic() < until:
            time.sleep(0.01)


def flood(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Connect, send a request and reset the connection, as fast as one core can."""
    request = order.page.request()
    while not ended() and tally.opened < MOST_FLOODED:
        connection = connected(order)
        if connection is not None:
            tally.opened += 1
            leave_nothing(connection)
            sent(connection, request)
            connection.close()


def rush(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Let all clients connect at the same time, send a request and read the response; repeat this.
    A rush that has begun is always completed."""
    file = content_of(order.page)
    for number in itertools.count(1):
        if ended() or 0 < order.rounds < number:
            return
        waiting: dict[int, tuple[socket.socket, bytearray]] = {}
        watched = select.epoll()
        for _ in range(order.count):
            connection = connected(order)
            if connection is None:
                tally.count("refused", "not connected")
                continue
            tally.opened += 1
            waiting[connection.fileno()] = (connection, bytearray())
            watched.register(connection, select.EPOLLIN)
        for connection, _ in waiting.values():
            sent(connection, order.page.request())
        read_all(waiting, watched, lambda data: tally.count(*judge(data, order.page, file)))
        for _ in waiting:
            tally.count("failed", f"no complete response within {PATIENCE:.0f} s")
        for connection, _ in waiting.values():
            connection.close()
        watched.close()
        until = time.monotonic() + order.pause
        while not ended() and time.monotonic() < until:
            time.sleep(0.01)


def read_all(
    waiting: dict[int, tuple[socket.socket, bytearray]],
    watched: select.epoll,
    done: Callable[[bytes], None],
) -> None:
    """Read every connection to its end, and remove finished ones from `waiting`."""
    deadline = time.monotonic() + PATIENCE
    while waiting and time.monotonic() < deadline:
        for descriptor, _ in watched.poll(0.05):
            connection, received = waiting[descriptor]
            try:
                piece = connection.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                piece = b""
            received += piece
            if not piece:
                done(bytes(received))
                del waiting[descriptor]
                leave_nothing(connection)
                connection.close()


KINDS: dict[str, Callable[[CrowdOrder, Tally, Ended], None]] = {
    **dict.fromkeys(HELD, hold),
    "flood": flood,
    "rush": rush,
}


def connected(order: CrowdOrder, receive_buffer: int = 0) -> socket.socket | None:
    """Return a new non-blocking connection, or None if it is not made within CONNECT_SECONDS."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(order.address)
    except OSError:
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def sent(connection: socket.socket, data: bytes) -> bool:
    """Send what the kernel accepts. After an error close the connection and return False."""
    if not data:
        return True
    try:
        connection.send(data)
    except BlockingIOError:
        return True
    except OSError:
        connection.close()
        return False
    return True


def closed_among(held: Sequence[socket.socket]) -> set[socket.socket]:
    """Return the connections that the server has ended or reset."""
    watched = select.poll()
    for one in held:
        watched.register(one, select.POLLRDHUP)
    ready = {descriptor for descriptor, _ in watched.poll(0)}
    return {one for one in held if one.fileno() in ready}


def main(arguments: Sequence[str]) -> None:
    """Run a crowd until SIGTERM and print its tally."""
    said = json.loads(arguments[0])
    order, tally, signals = CrowdOrder(**{**said, "page": Page(**said["page"])}), Tally(), []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    print(os.getpid(), flush=True)  # the handler for SIGTERM is installed
    KINDS[order.kind](order, tally, lambda: bool(signals))
    while not signals:  # some kinds end by themselves
        time.sleep(0.01)
    print(json.dumps(asdict(tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
