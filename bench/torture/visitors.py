# SPDX-License-Identifier: MIT
"""Well-behaved visitors, whose responses show the state of a server.

The program is `python -m bench.torture.visitors ORDER`; ORDER is a `VisitOrder` in JSON. Each
visitor has one page. It connects, sends a request, reads until the server closes, pauses, and
repeats. All together send at most `count / think` requests a second, far below a server's capacity,
so the server causes every missing response. `mark` makes the remarks unique.

It prints a line for each exchange and runs until SIGTERM. Requests that are then under way do not
count. This module imports nothing that loads slowly, because its program starts for each
configuration; the crowds and the measurement use its pages and outcomes, too.
"""

import json
import os
import queue
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from bench.load.client import RESET, request

Outcome = Literal["good", "unavailable", "refused", "failed", "wrong"]
"""good: complete and correct. unavailable: a complete 502 or 503. refused: no process listens.
failed: reset, cut off, or too late. wrong: complete, but not the requested page."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
UNAVAILABLE = (502, 503)
ANNOUNCED = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Page:
    """A page to request, and the properties of its correct response."""

    name: str
    path: str
    status: int
    posts: bool = False
    """Each request adds a remark to the guestbook."""
    file: str | None = None
    """The body must be equal to this file."""

    def request(self, remark: str = "", keep_alive: bool = False) -> bytes:
        """Return the bytes of a complete request."""
        kept = f"Connection: {'keep-alive' if keep_alive else 'close'}"
        if not self.posts:
            return request("GET", self.path, kept)
        body = f"guest-name=Visitor&guest-remarks={remark}".encode()
        return request("POST", self.path, kept, f"Content-Type: {FORM}", body=body)


class Exchange(NamedTuple):
    """The result of one request. Times are of CLOCK_MONOTONIC, which all processes share."""

    begun: float
    ended: float
    page: str
    outcome: Outcome
    detail: str
    """The text of an accepted remark, or the reason why the outcome is not good."""

    def line(self) -> str:
        """Return the exchange as a line of text."""
        return f"{self.begun:.5f} {self.ended:.5f} {self.page} {self.outcome} {self.detail}\n"


LATE = "late "


def late_line(since: float, until: float) -> str:
    """Return a line which says that the visitors' process got no CPU time meanwhile."""
    return f"{LATE}{since:.5f} {until:.5f}\n"


def late_in(text: str, begin: float, end: float) -> float:
    """Return for how many seconds between `begin` and `end` the visitors got no CPU time."""
    spans = [line.split() for line in text.splitlines() if line.startswith(LATE)]
    whole = [(float(words[1]), float(words[2])) for words in spans if len(words) == 3]
    return sum(max(0.0, min(until, end) - max(since, begin)) for since, until in whole)


def answers_in(text: str) -> list[Exchange]:
    """Return the exchanges in lines of text; an incomplete last line is left out."""
    found = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        if line.startswith(LATE):
            continue
        begun, ended, page, outcome, detail = line.split(" ", 4)
        if outcome not in OUTCOMES:
            raise ValueError(f"not the line of an exchange: {line!r}")
        found.append(Exchange(float(begun), float(ended), page, outcome, detail))
    return found


def judge(received: bytes, page: Page, file: bytes | None = None) -> tuple[Outcome, str]:
    """Return the outcome of all bytes up to the end of a connection, and the reason if it is not
    good. `file`: the content of `page.file`."""
    head, gap, body = received.partition(b"\r\n\r\n")
    found = STATUS.match(head)
    if not gap or not found:
        cut = f"cut off in the head, after {len(received)} bytes"
        return "failed", cut if received else "closed without an answer"
    length, status = ANNOUNCED.search(head), int(found[1])
    if length and len(body) < int(length[1]):
        return "failed", f"cut off at {len(body)} of {int(length[1])} bytes"
    if status in UNAVAILABLE:
        return "unavailable", str(status)
    wrong = ""
    if length and len(body) > int(length[1]):
        wrong = f"{len(body)} bytes, but Content-Length: {int(length[1])}"
    elif status != page.status:
        wrong = f"status {status}"
    elif file is not None and body != file:
        wrong = "another body"
    return ("wrong" if wrong else "good"), wrong


def leave_nothing(connection: socket.socket) -> None:
    """Make close() send a reset, so that no connection is left in TIME_WAIT: there would be too
    many. Call this after the server has ended its side."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def content_of(page: Page) -> bytes | None:
    """Return the expected body, or None if it is not known."""
    return Path(page.file).read_bytes() if page.file else None


WRITE_SECONDS = 0.02
LATE_SECONDS = 4 * WRITE_SECONDS
"""Later wake-ups are reported as CPU starvation."""
PAUSE = 0.02
"""The pause after a refused connection."""


@dataclass(frozen=True)
class VisitOrder:
    """The parameters of the visitors."""

    host: str
    port: int
    count: int
    think: float
    """Seconds between a response and the next request."""
    patience: float
    """A visitor's timeout: seconds without a byte."""
    mark: str
    pages: tuple[Page, ...]
    """The visitors' pages, assigned in turn."""

    def order(self) -> str:
        """Return the parameters as a word for the command line."""
        return json.dumps(asdict(self))


class Visitor:
    """A visitor, which runs in a thread."""

    def __init__(self, number: int, visit: VisitOrder, told: "queue.SimpleQueue[Exchange]") -> None:
        self._number, self._visit, self._told = number, visit, told
        self._page = visit.pages[number % len(visit.pages)]
        self._file = content_of(self._page)
        self._requests = 0

    def run(self) -> None:
        """Send requests for ever."""
        time.sleep(self._visit.think * self._number / self._visit.count)  # spread the first ones
        while True:
            answer = self._ask()
            self._told.put(answer)
            time.sleep(max(self._visit.think, PAUSE * (answer.outcome == "refused")))

    def _ask(self) -> Exchange:
        self._requests += 1
        remark = f"{self._visit.mark}-{self._number}-{self._requests}"
        begun = time.monotonic()
        outcome, detail = self._exchange(self._page.request(remark))
        if outcome == "good" and self._page.posts:
            detail = remark
        return Exchange(begun, time.monotonic(), self._page.name, outcome, detail)

    def _exchange(self, request: bytes) -> tuple[Outcome, str]:
        address, received = (self._visit.host, self._visit.port), b""
        try:
            with socket.create_connection(address, self._visit.patience) as connection:
                connection.sendall(request)
                while piece := connection.recv(65536):
                    received += piece
                leave_nothing(connection)
        except ConnectionRefusedError:
            return "refused", "no process listens"
        except OSError as error:
            what = "no response in time" if isinstance(error, TimeoutError) else str(error)
            return "failed", f"{what}, after {len(received)} bytes"
        return judge(received, self._page, self._file)


def main(arguments: Sequence[str]) -> None:
    """Run the visitors until SIGTERM."""
    said = json.loads(arguments[0])
    visit = VisitOrder(**{**said, "pages": tuple(Page(**page) for page in said["pages"])})
    told: queue.SimpleQueue[Exchange] = queue.SimpleQueue()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    for number in range(visit.count):
        visitor = Visitor(number, visit, told)
        threading.Thread(target=visitor.run, daemon=True).start()
    last = time.monotonic()
    while not ended.wait(WRITE_SECONDS):
        now = time.monotonic()
        if now - last > LATE_SECONDS:
            print(late_line(last, now), end="")
        last = now
        write(told)
    write(told)
    os._exit(0)  # do not join threads that wait for a server


def write(told: "queue.SimpleQueue[Exchange]") -> None:
    """Print the finished exchanges."""
    lines = []
    while not told.empty():
        lines.append(told.get().line())
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
