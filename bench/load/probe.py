# SPDX-License-Identifier: MIT
"""A first, single request: the reference for all later answers."""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.host.project import ROOT
from bench.records.errors import NoFigure
from bench.records.workloads import FORM, Workload

SECONDS = 10.0
SURPLUS_SECONDS = 0.2
"""The time to wait for surplus bytes after the announced length has been received."""


class ProbeError(NoFigure):
    """No correct answer. `label` names the error in one or two words, the message in a sentence."""

    def __init__(self, label: str, text: str) -> None:
        super().__init__(text)
        self.label = label


@dataclass(frozen=True)
class FirstAnswer:
    """The answer to the first request."""

    status: int
    head: bytes
    """With the empty line at its end."""
    body: bytes

    @property
    def body_bytes(self) -> int:
        """The length of the body."""
        return len(self.body)

    @property
    def bytes(self) -> int:
        """The length of head and body."""
        return len(self.head) + len(self.body)


def probe(
    url: str, workload: Workload, status: int | None, keep_alive: bool = False
) -> FirstAnswer:
    """Send one request as ab does, and read until the server closes or no more bytes come.

    Raises ProbeError if there is no answer, if the status is not `status` (None: any but an error),
    or if the body is not as long as Content-Length says, which ab does not check.
    """
    parts = urlsplit(url)
    fields = ["User-Agent: probe", "Accept: */*"]
    if keep_alive:
        fields.insert(0, "Connection: Keep-Alive")
    request = request_for(url, workload, "HTTP/1.0", fields)
    received = _exchange(parts.hostname or "", parts.port or 80, request)
    head, gap, body = received.partition(b"\r\n\r\n")
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", head)
    if not match or not gap:
        words = f"{len(received):,} bytes, no HTTP head" if received else "the connection closed"
        raise ProbeError("no answer", f"a first request got no answer: {words}")
    answer = FirstAnswer(int(match[1]), head + gap, body)
    wrong = answer.status >= 400 if status is None else answer.status != status
    if wrong:
        wanted = f" and not {status}" if status else ""
        raise ProbeError(f"status {answer.status}", f"a first request got {answer.status}{wanted}")
    _check_length(head, body)
    return answer


def require_content(answer: FirstAnswer, workload: Workload) -> None:
    """Raise ProbeError unless a redirect has the right target and a page has the right content. Not
    for baselines: their fixed answer has neither."""
    if workload.leads:
        found = re.search(rb"^location:\s*(\S+)\s*$", answer.head, re.IGNORECASE | re.MULTILINE)
        to = found[1].decode("latin-1") if found else ""
        if urlsplit(to).path != workload.leads:
            words = f"to {to}" if to else "nowhere"
            raise ProbeError("wrong place", f"it leads {words} and not to {workload.leads}")
    if workload.file and answer.body != (ROOT / "public" / workload.file).read_bytes():
        words = f"{answer.body_bytes:,} bytes that are not public/{workload.file}"
        raise ProbeError("wrong page", f"a first request got {words}")
    if workload.contains.encode() not in answer.body:
        raise ProbeError("wrong page", f"a first request got a page without {workload.contains!r}")


def _check_length(head: bytes, body: bytes) -> None:
    announced = _announced(head)
    if announced is not None and announced != len(body):
        raise ProbeError(
            "wrong length", f"Content-Length says {announced:,}, but {len(body):,} bytes came"
        )


def _announced(head: bytes) -> int | None:
    """Return the Content-Length in a head; None if there is none."""
    match = re.search(rb"^content-length:\s*(\d+)\s*$", head, re.IGNORECASE | re.MULTILINE)
    return int(match[1]) if match else None


def _complete(received: bytes) -> bool:
    """Return whether the announced length has been received."""
    head, gap, body = received.partition(b"\r\n\r\n")
    announced = _announced(head) if gap else None
    return announced is not None and len(body) >= announced


def request_for(url: str, workload: Workload, version: str, fields: Sequence[str]) -> bytes:
    """Return the request that a generator sends for a URL. Host includes the port, because some
    servers repeat it in the target of a redirect; a form is sent by POST."""
    to = urlsplit(url)
    target = to._replace(scheme="", netloc="").geturl()
    method, body = ("GET", b"") if workload.form is None else ("POST", workload.form.encode())
    lines = [f"{method} {target} {version}", f"Host: {to.netloc}", *fields]
    if workload.form is not None:
        lines += [f"Content-Type: {FORM}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _exchange(host: str, port: int, request: bytes) -> bytes:
    received = b""
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as connection:
            connection.sendall(request)
            while piece := connection.recv(65536):
                received += piece
                if _complete(received):
                    connection.settimeout(SURPLUS_SECONDS)
    except OSError as error:
        if not received:
            words = f"a first request got no answer: {error or type(error).__name__}"
            raise ProbeError("no answer", words) from error
    return received
