# SPDX-License-Identifier: MIT
"""Clients in their own process: visitors, attackers, and idle connections.

The program is `python -m bench.load.crowd ORDER`; ORDER is a `CrowdOrder` in JSON. The program
prints a number when the crowd has begun, runs until SIGTERM, and prints its result, a `Tally`, as
one line of JSON. The number of open connections is limited; for a flood, also the total number.

Instead of a `Tally`, visitors print each `Exchange` and each `Late` as a line of JSON. A visitor
connects, requests its page, reads until the server closes, pauses, and repeats. All visitors
together send at most `count / pause` requests a second. This rate is far below a server's capacity,
so the server causes every missing response. Requests in progress at the end are ignored.

The module imports nothing that loads slowly, because the program starts for each configuration.
"""

import collections
import contextlib
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from bench.load.client import CHUNK, Client, Response, request

Outcome = Literal["good", "unavailable", "refused", "failed", "wrong"]
"""good: complete and correct. unavailable: a complete 502 or 503. refused: no process listens,
or a client of a rush could not connect. failed: reset, cut off, or too late. wrong: complete, but
not the page."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
UNAVAILABLE = (502, 503)
FORM = "application/x-www-form-urlencoded"
CONNECT_SECONDS = 0.2
AT_ONCE = 200
"""The maximum number of connections that are opened between two reads."""
LOOK_SECONDS = 0.1
"""The interval at which a slow client sends a byte, and closed connections are replaced."""
REFRESH_SECONDS = 3.5
"""The interval of requests on an idle connection, which servers would close after 5 s."""
OPENING_SECONDS = 3.0
"""The maximum time to wait for the first answers on idle connections."""
MOST_FLOODED = 50_000
SMALL_BUFFER = 4096
"""The size in bytes of the receive buffer of a client that does not read."""
PIPELINED = 20
"""The number of requests that a slow reader sends at once."""
RUSH_SECONDS = 5.0
"""The timeout of a client in the crowd "rush", for its whole response."""
WAKE_SECONDS = 0.02
LATE_SECONDS = 4 * WAKE_SECONDS
"""A longer interval between two wake-ups of the visitors' process is reported as CPU starvation."""
REFUSED_PAUSE = 0.02
"""The minimum pause after a refused connection."""


@dataclass(frozen=True)
class Page:
    """A page to request, and the properties of its correct response."""

    name: str
    path: str
    status: int = 200
    posts: bool = False  # Whether each request adds a remark to the guestbook.
    file: str | None = None  # The file whose content the body must have; None: any body.

    def request(self, remark: str = "", keep_alive: bool = False) -> bytes:
        """Return the bytes of a complete request."""
        kept = f"Connection: {'keep-alive' if keep_alive else 'close'}"
        if not self.posts:
            return request("GET", self.path, kept)
        body = f"guest-name=Visitor&guest-remarks={remark}".encode()
        return request("POST", self.path, kept, f"Content-Type: {FORM}", body=body)

    def content(self) -> bytes | None:
        """Return the expected body; None if the page has no file."""
        return Path(self.file).read_bytes() if self.file else None


@dataclass(frozen=True)
class CrowdOrder:
    """The parameters of a crowd."""

    kind: str  # A key of KINDS.
    host: str
    port: int
    count: int
    pages: tuple[Page, ...]
    """Visitor n always requests page n modulo the number of pages; other crowds: the first page."""
    pause: float = 0.0
    """Seconds between two rushes, or between a visitor's response and its next request."""
    rounds: int = 0  # The number of rushes; 0: until SIGTERM.
    timeout: float = RUSH_SECONDS
    """The timeout of a visitor, or of a client of a rush, for a whole response."""
    mark: str = ""  # A text that makes the visitors' remarks unique.

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
    answers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    """The number of requests by outcome, for crowds that read whole responses."""
    why: dict[str, dict[str, int]] = field(default_factory=dict)
    """The number of failures by outcome and reason."""
    held: int = 0  # The number of connections that are open at the end.
    requests: int = 0  # The number of answered requests on idle connections.
    reopened: int = 0
    """The number of new connections that replaced connections closed by the server."""

    def count(self, outcome: Outcome, detail: str) -> None:
        """Count one more request."""
        self.answers[outcome] += 1
        if outcome != "good":
            counted = self.why.setdefault(outcome, {})
            counted[detail] = counted.get(detail, 0) + 1


class Exchange(NamedTuple):
    """The result of one request. The times use CLOCK_MONOTONIC, which all processes share."""

    begun: float
    ended: float
    page: str
    outcome: Outcome
    detail: str  # The text of an accepted remark, or the reason why the outcome is not good.


class Late(NamedTuple):
    """A time in which the visitors' process got no CPU time."""

    since: float
    until: float


def exchanges_of(text: str) -> list[Exchange | Late]:
    """Return the results in the visitors' output (complete lines). The first line, a number, is no
    result."""
    said = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    return [Late(*one) if len(one) == 2 else Exchange(*one) for one in said]


def judge(received: bytes, page: Page, file: bytes | None = None) -> tuple[Outcome, str]:
    """Return the outcome of a request, and the reason if the outcome is not good. `received`: all
    bytes of the connection; `file`: the content of `page.file`."""
    answer = Response.of(received)
    if answer is None:
        cut = f"cut off in the head, after {len(received)} bytes"
        return "failed", cut if received else "closed without an answer"
    length, came = answer.announced, len(answer.body)
    if length is not None and came < length:
        return "failed", f"cut off at {came} of {length} bytes"
    if answer.status in UNAVAILABLE:
        return "unavailable", str(answer.status)
    wrong = ""
    if length is not None and came > length:
        wrong = f"{came} bytes, but Content-Length: {length}"
    elif answer.status != page.status:
        wrong = f"status {answer.status}"
    elif file is not None and answer.body != file:
        wrong = "another body"
    return ("wrong" if wrong else "good"), wrong


Ended = Callable[[float], bool]
"""Waits for SIGTERM, at most the given seconds, and returns whether it has arrived."""


def exchange(
    order: CrowdOrder, page: Page, file: bytes | None, remark: str = ""
) -> tuple[Outcome, str]:
    """Make one request on a new connection. Return the outcome and its reason. A client of a rush
    must connect in CONNECT_SECONDS, and accepts a complete response even if a reset follows."""
    rushes = order.kind == "rush"
    try:
        client = Client(order.address, order.timeout, connect=CONNECT_SECONDS if rushes else None)
    except ConnectionRefusedError:
        return "refused", "no process listens"
    except OSError as error:
        if rushes:
            return "refused", "not connected"
        return "failed", f"no request was sent: {error}"
    with client:
        try:
            client.send(page.request(remark))
        except OSError as error:
            if not rushes:
                return "failed", f"no request was sent: {error}"
        end = client.until_end()
        if not end.in_time or (client.broke and not rushes):
            return "failed", str(end)
        with contextlib.suppress(OSError):
            client.reset()  # so that no connection stays in TIME_WAIT
    return judge(end.received, page, file)


class Holder:
    """Opens connections, keeps them open, and replaces connections that the server closes."""

    def __init__(self, order: CrowdOrder, tally: Tally) -> None:
        self._order, self._tally = order, tally
        self._first, self._then, self._every = HELD[order.kind](order.pages[0])
        self._reads = order.kind == "kept"
        self._set = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self._due: collections.deque[tuple[float, socket.socket]] = collections.deque()
        """The time of the next bytes for each connection, the earliest first."""
        self._closed = 0
        """The number of connections that the server closed and that are not yet replaced."""

    def hold(self, ended: Ended) -> None:
        """Hold the connections until `ended` returns true."""
        if self._reads:
            self._await_answers(ended)
        print(self._tally.requests, flush=True)
        self._open_some()
        while not ended(0 if self._reads else LOOK_SECONDS):
            self._open_some()
            self._look(LOOK_SECONDS if self._reads else 0.0)
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                self._send(self._due.popleft()[1], self._then)
        self._tally.held = len(self._open)

    def _await_answers(self, ended: Ended) -> None:
        """Open all connections and wait at most OPENING_SECONDS for answers, because a server with
        too few workers does not answer all. `hold` opens missing connections later."""
        deadline = time.monotonic() + OPENING_SECONDS
        while self._tally.requests < self._order.count and time.monotonic() < deadline:
            if ended(0):
                return
            self._open_some()
            self._look(0.05 if len(self._open) == self._order.count else 0.0)
        self._tally.reopened = 0

    def _open_some(self) -> None:
        for _ in range(min(AT_ONCE, self._order.count - len(self._open))):
            try:
                buffer = 0 if self._reads else SMALL_BUFFER
                connection = Client(self._order.address, CONNECT_SECONDS, buffer).socket
            except OSError:
                return
            connection.setblocking(False)
            self._tally.opened += 1
            self._open[connection.fileno()] = connection
            self._set.register(connection, select.EPOLLIN if self._reads else select.EPOLLRDHUP)
            if self._closed:
                self._closed, self._tally.reopened = self._closed - 1, self._tally.reopened + 1
            self._send(connection, self._first)

    def _send(self, connection: socket.socket, data: bytes) -> None:
        """Send the bytes that fit into the socket buffer, and drop the rest."""
        if connection.fileno() < 0:
            return
        try:
            connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)
            return
        if self._then:
            self._due.append((time.monotonic() + self._every, connection))

    def _look(self, seconds: float) -> None:
        """Wait at most `seconds` for answers and closed connections, and handle them."""
        for descriptor, _ in self._set.poll(seconds):
            connection, data = self._open[descriptor], b""
            with contextlib.suppress(OSError):
                data = connection.recv(CHUNK) if self._reads else b""
            self._tally.requests += data.count(b"HTTP/1.1 ")
            if not data:
                self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._closed += self._open.pop(connection.fileno(), None) is not None
        connection.close()


HELD: dict[str, Callable[[Page], tuple[bytes, bytes, float]]] = {
    "connect-only": lambda _: (b"", b"", 0.0),
    "idle": lambda page: (page.request(keep_alive=True), b"", 0.0),
    "slow-heads": lambda _: (b"GET / HTTP/1.1\r\nHost: torture\r\nX: ", b"x", LOOK_SECONDS),
    "slow-readers": lambda page: (page.request(keep_alive=True) * PIPELINED, b"", 0.0),
    "kept": lambda page: (kept := page.request(keep_alive=True), kept, REFRESH_SECONDS),
}
"""The crowds that keep connections open: the first bytes, the repeated bytes, and the interval of
the repetitions. Only the crowd "kept" reads."""


def flood(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Connect, send a request and reset the connection; repeat this at full speed."""
    print(0, flush=True)
    wanted = order.pages[0].request()
    while not ended(0) and tally.opened < MOST_FLOODED:
        with contextlib.suppress(OSError), Client(order.address, CONNECT_SECONDS) as client:
            tally.opened += 1
            client.send(wanted)
            client.reset()


def rush(order: CrowdOrder, tally: Tally, ended: Ended) -> None:
    """Let all clients make a request at the same time, and repeat this. Complete the last rush
    before the end."""
    print(0, flush=True)
    page = order.pages[0]
    file = page.content()
    with ThreadPoolExecutor(order.count) as clients:
        for number in itertools.count(1):
            made = [clients.submit(exchange, order, page, file) for _ in range(order.count)]
            for outcome, reason in (one.result() for one in made):
                tally.opened += outcome != "refused"
                tally.count(outcome, reason)
            if ended(order.pause) or number == order.rounds:
                return


def visit(order: CrowdOrder, _: Tally, ended: Ended) -> None:
    """Run each visitor in its own thread."""
    print(0, flush=True)
    for number in range(order.count):
        threading.Thread(target=visitor, args=(number, order), daemon=True).start()
    last = time.monotonic()
    while not ended(WAKE_SECONDS):
        now = time.monotonic()
        if now - last > LATE_SECONDS:
            report(Late(last, now))
        last = now
    os._exit(0)  # do not join threads that wait for a server


def visitor(number: int, order: CrowdOrder) -> None:
    """Send one visitor's requests without end."""
    page = order.pages[number % len(order.pages)]
    file = page.content()
    time.sleep(order.pause * number / order.count)  # spread the first requests
    for requests in itertools.count(1):
        remark = f"{order.mark}-{number}-{requests}"
        begun = time.monotonic()
        outcome, detail = exchange(order, page, file, remark)
        if outcome == "good" and page.posts:
            detail = remark
        report(Exchange(begun, time.monotonic(), page.name, outcome, detail))
        time.sleep(max(order.pause, REFUSED_PAUSE * (outcome == "refused")))


def report(result: Exchange | Late) -> None:
    """Print a result with one system call, so that the lines of several threads do not mix."""
    os.write(1, json.dumps(result).encode() + b"\n")


KINDS: dict[str, Callable[[CrowdOrder, Tally, Ended], None]] = {
    **dict.fromkeys(HELD, lambda order, tally, ended: Holder(order, tally).hold(ended)),
    "flood": flood,
    "rush": rush,
    "visitors": visit,
}


def main(arguments: Sequence[str]) -> None:
    """Run a crowd until SIGTERM and print its tally."""
    said = json.loads(arguments[0])
    order = CrowdOrder(**{**said, "pages": tuple(Page(**page) for page in said["pages"])})
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    tally, over = Tally(), False

    def ended(seconds: float) -> bool:
        nonlocal over
        over = over or signal.sigtimedwait({signal.SIGTERM}, seconds) is not None
        return over

    KINDS[order.kind](order, tally, ended)
    while not ended(1.0):  # some kinds end by themselves
        pass
    print(json.dumps(asdict(tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
