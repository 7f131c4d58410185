# SPDX-License-Identifier: MIT
"""Well-behaved visitors, by whom is told how a server does.

Started as `python -m bench.torture.visitors ORDER`, where ORDER is a `VisitOrder` in JSON. Each
visitor has one page. He connects, asks, reads until the server closes, thinks for a moment, and
asks again: so all of them together ask for no more than COUNT / THINK pages a second, far less than
a server can do, and what they do not get is what the server did not give. Remarks are told apart by
MARK.

Prints a line for each answer (`bench.torture.answers`) and runs until SIGTERM. What is under way at
that moment does not count.
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
"""Whoever wakes as late as this has not been let run: so it is told."""
PAUSE = 0.02
"""Where nobody listens it is tried again after so long."""


@dataclass(frozen=True)
class VisitOrder:
    """What the visitors are to do."""

    host: str
    port: int
    count: int
    think: float
    """Seconds between an answer and the next request."""
    patience: float
    """Seconds without a byte after which a visitor gives up."""
    mark: str
    pages: tuple[Page, ...]
    """Dealt round to the visitors."""

    def order(self) -> str:
        """As a word on a command line."""
        return json.dumps(asdict(self))


class Visitor:
    """One of them."""

    def __init__(self, number: int, visit: VisitOrder, told: "queue.SimpleQueue[Exchange]") -> None:
        self._number, self._visit, self._told = number, visit, told
        self._page = visit.pages[number % len(visit.pages)]
        self._file = content_of(self._page)
        self._requests = 0

    def run(self) -> None:
        """For ever."""
        time.sleep(self._visit.think * self._number / self._visit.count)  # not all at once
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
            return "refused", "nobody listens"
        except OSError as error:
            what = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            return "failed", f"{what}, after {len(received)} bytes"
        return judge(received, self._page, self._file)


def main(arguments: Sequence[str]) -> None:
    """Until SIGTERM."""
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
    os._exit(0)  # threads that wait for a server must not be waited for


def write(told: "queue.SimpleQueue[Exchange]") -> None:
    """Tell what there is."""
    lines = []
    while not told.empty():
        lines.append(told.get().line())
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
