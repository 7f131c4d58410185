# SPDX-License-Identifier: MIT
"""Clients that do a server no good: the crowds of the attacks.

Started as `python -m bench.torture.crowd ORDER`, where ORDER is a `CrowdOrder` in JSON. Runs until
SIGTERM, and then prints what it has done as one line of JSON, a `Tally`. Every crowd is bounded:
in its number of connections, and the flood also in all that it opens.
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

from bench.torture.answers import OUTCOMES, Outcome, Page, content_of, judge, leave_nothing

CONNECT_SECONDS = 0.2
LOOK_SECONDS = 0.1
"""How often those that hold connections send a byte, and replace what the server has closed."""
MOST_FLOODED = 50_000
SMALL_BUFFER = 4096
"""Of a client that does not read: so little the kernel takes in its place."""
PIPELINED = 20
"""So many times a slow reader asks at once."""
PATIENCE = 5.0
"""Seconds that a client of a rush waits for the end of its answer."""


@dataclass(frozen=True)
class CrowdOrder:
    """What a crowd is to do."""

    kind: str
    """A key of KINDS."""
    host: str
    port: int
    count: int
    page: Page
    pause: float = 0.0
    """Seconds between two rushes."""
    rounds: int = 0
    """How many rushes; 0: until SIGTERM."""

    @property
    def address(self) -> tuple[str, int]:
        """Of the server."""
        return self.host, self.port

    def words(self) -> str:
        """As a word on a command line."""
        return json.dumps(asdict(self))


@dataclass
class Tally:
    """What a crowd has done."""

    opened: int = 0
    """Connections."""
    answers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    """Of those who wanted one, by outcome."""
    why: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of what is not good: by outcome, how often for which reason."""

    def count(self, outcome: Outcome, detail: str) -> None:
        """One more answer."""
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
"""Of those who hold connections: what each sends at first, and then again and again."""


def hold(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Keep all connections open, and read nothing. What the server has closed is opened anew."""
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
    """Connect, ask, and reset the connection, as fast as one core can."""
    request = order.page.request()
    while not ended() and tally.opened < MOST_FLOODED:
        connection = connected(order)
        if connection is not None:
            tally.opened += 1
            leave_nothing(connection)
            sent(connection, request)
            connection.close()


def rush(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """All come at the same moment, ask, read to the end and go; and again. A rush that has begun
    goes on to its end."""
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
            tally.count("failed", f"no whole answer within {PATIENCE:.0f} s")
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
    """Read every connection to its end, and take out of `waiting` those that are done."""
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
    """A new connection that does not block; None if there is none soon."""
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
    """Send what there is room for; False, and it is closed, if the server has closed it."""
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
    """Those that the server has ended, or reset."""
    watched = select.poll()
    for one in held:
        watched.register(one, select.POLLRDHUP)
    ready = {descriptor for descriptor, _ in watched.poll(0)}
    return {one for one in held if one.fileno() in ready}


def main(arguments: Sequence[str]) -> None:
    """Until SIGTERM."""
    said = json.loads(arguments[0])
    order, tally, signals = CrowdOrder(**{**said, "page": Page(**said["page"])}), Tally(), []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    print(os.getpid(), flush=True)  # from now on SIGTERM is understood
    KINDS[order.kind](order, tally, lambda: bool(signals))
    while not signals:  # some end by themselves
        time.sleep(0.01)
    print(json.dumps(asdict(tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
