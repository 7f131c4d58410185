# SPDX-License-Identifier: MIT
"""Well-behaved visitors, whose responses show the state of a server.

The program is `python -m bench.torture.visitors ORDER`; ORDER is a `VisitOrder` in JSON. Each
visitor has one page. It connects, sends a request, reads until the server closes, pauses, and
repeats. All together send at most `count / think` requests a second, far below a server's capacity,
so the server causes every missing response. `mark` makes the remarks unique.

It prints a line for each exchange (`bench.torture.answers`) and runs until SIGTERM. Requests that
are then under way do not count.
"""

import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.torture.answers import (
    Exchange,
    Outcome,
    Page,
    content_of,
    judge,
    late_line,
    leave_nothing,
)

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
