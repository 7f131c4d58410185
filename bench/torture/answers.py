# SPDX-License-Identifier: MIT
"""Pages and outcomes of requests, shared by the visitors, the crowds and the measurement.

It imports nothing that loads slowly, because its programs start for each configuration.
"""

import re
import socket
from dataclasses import dataclass
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
