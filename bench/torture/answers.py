# SPDX-License-Identifier: MIT
"""What is asked, and what came of it: the words that the visitors, the crowds and the run share.

Imports nothing that loads slowly: the programs that use it are started for every cell.
"""

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from bench.load.client import RESET, request

Outcome = Literal["good", "unavailable", "refused", "failed", "wrong"]
"""good: whole and right. unavailable: a whole 502 or 503. refused: nobody listens. failed: reset,
cut off, or not there in time. wrong: whole, and not what was asked for."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
UNAVAILABLE = (502, 503)
ANNOUNCED = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Page:
    """Something to ask for, and how its right answer is told."""

    name: str
    path: str
    status: int
    posts: bool = False
    """Each request leaves a remark in the guestbook."""
    file: str | None = None
    """The body must be this file's, byte for byte."""

    def request(self, remark: str = "", keep_alive: bool = False) -> bytes:
        """A whole request."""
        kept = f"Connection: {'keep-alive' if keep_alive else 'close'}"
        if not self.posts:
            return request("GET", self.path, kept)
        body = f"guest-name=Visitor&guest-remarks={remark}".encode()
        return request("POST", self.path, kept, f"Content-Type: {FORM}", body=body)


class Exchange(NamedTuple):
    """What became of one request. Times are those of CLOCK_MONOTONIC, which all processes share."""

    begun: float
    ended: float
    page: str
    outcome: Outcome
    detail: str
    """Of a remark that was accepted its text; of what is not good why."""

    def line(self) -> str:
        """As a line of text."""
        return f"{self.begun:.5f} {self.ended:.5f} {self.page} {self.outcome} {self.detail}\n"


LATE = "late "


def late_line(since: float, until: float) -> str:
    """Says that the visitors themselves were not let run."""
    return f"{LATE}{since:.5f} {until:.5f}\n"


def late_in(text: str, begin: float, end: float) -> float:
    """For how many seconds of a time that was so."""
    spans = [line.split() for line in text.splitlines() if line.startswith(LATE)]
    whole = [(float(words[1]), float(words[2])) for words in spans if len(words) == 3]
    return sum(max(0.0, min(until, end) - max(since, begin)) for since, until in whole)


def answers_in(text: str) -> list[Exchange]:
    """The answers in lines of text; a last line without its end is left out."""
    found = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        if line.startswith(LATE):
            continue
        begun, ended, page, outcome, detail = line.split(" ", 4)
        if outcome not in OUTCOMES:
            raise ValueError(f"no line of an answer: {line!r}")
        found.append(Exchange(float(begun), float(ended), page, outcome, detail))
    return found


def judge(received: bytes, page: Page, file: bytes | None = None) -> tuple[Outcome, str]:
    """What all bytes up to the end of a connection are; of what is not good also why. `file`: the
    content of `page.file`."""
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
        wrong = f"{len(body)} bytes where {int(length[1])} were announced"
    elif status != page.status:
        wrong = f"status {status}"
    elif file is not None and body != file:
        wrong = "another body"
    return ("wrong" if wrong else "good"), wrong


def leave_nothing(connection: socket.socket) -> None:
    """Close sends a reset from now on, and nothing is left in TIME_WAIT: there would soon be more
    of that than of all else. To be called when the server has ended its side."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def content_of(page: Page) -> bytes | None:
    """What the body must be, where that is known."""
    return Path(page.file).read_bytes() if page.file else None
