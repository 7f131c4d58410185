# SPDX-License-Identifier: MIT
"""A client that sends exactly the given bytes, and reads with a deadline."""

import contextlib
import re
import socket
import struct
import time
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from typing import TypeVar

RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that makes close() send a reset, see socket(7)."""
CHUNK = 65536
_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>: the kernel chooses the port in connect(), not in bind()
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?: |\r\n|$)")
_LENGTH = re.compile("[0-9]{1,18}")
_GAP = b"\r\n\r\n"
"""The end of a head."""
Same = TypeVar("Same", bound="Client")


class NoAnswer(Exception):
    """There is no complete, valid answer; the message gives the reason. If only the body is
    incomplete, `head` has the head, and `received` the bytes of the body so far."""

    head = b""

    def __init__(self, why: str, received: bytes | bytearray, in_time: bool) -> None:
        super().__init__(why)
        self.received, self.in_time = bytes(received), in_time

    def __str__(self) -> str:
        count = f"{len(self.received)} bytes"
        return f"{self.args[0]} after {f'the head and {count} of the body' if self.head else count}"


class NotHttp(NoAnswer):
    """The first received line is not the status line of an HTTP response."""


@dataclass(frozen=True)
class Response:
    """A response as received."""

    status: int
    head: bytes  # The status line and the header fields, without the empty line at the end.
    body: bytes

    @staticmethod
    def of(received: bytes) -> "Response | None":
        """Return the response made of a connection's bytes; None without a complete HTTP head."""
        head, gap, body = received.partition(_GAP)
        found = _STATUS.match(head)
        return Response(int(found[1]), head, body) if gap and found else None

    @property
    def size(self) -> int:
        """Return the length of head and body."""
        return len(self.head) + len(_GAP) + len(self.body)

    @property
    def announced(self) -> int | None:
        """Return the value of Content-Length; None if the field is missing or not a number."""
        said = self.field("Content-Length")
        return int(said) if said is not None and _LENGTH.fullmatch(said) else None

    def field(self, name: str) -> str | None:
        """Return the value of the first header field with this name; None without such a field."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.strip().lower() == name.lower():
                return value.strip()
        return None

    @property
    def date(self) -> int | None:
        """Return the field Date (RFC 9110, 6.6.1) as a Unix time; None without a valid date."""
        found = parsedate_tz(self.field("Date") or "")
        return mktime_tz(found) if found else None

    @property
    def closes(self) -> bool:
        """Return whether the response announces the end of the connection."""
        return (self.field("Connection") or "").lower() == "close"


class Client:
    """A connection to a server, with TCP_NODELAY. Use it in a `with` block. If the connection
    breaks, methods raise OSError, or the error that their docstring names."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout: float,
        buffer: int = 0,
        source: str = "",
        connect: float | None = None,
    ) -> None:
        """Connect. `timeout`: the seconds for each whole answer; `buffer`: the size of the receive
        buffer (0: the default); `source`: the local address ("": any); `connect`: the seconds for
        connecting (None: `timeout`)."""
        self._timeout = timeout
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(timeout if connect is None else connect)
        try:
            if source:
                self.socket.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
                self.socket.bind((source, 0))
            self.socket.connect(address)
        except BaseException:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.socket.getsockname()[1]
        self._received = bytearray()
        self.broke = False
        """Whether the connection ended with an error, usually a reset."""

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        self.socket.settimeout(self._timeout)
        self.socket.sendall(data)

    def reset(self) -> None:
        """Close the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self.socket.close()

    def __enter__(self: Same) -> Same:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, data: bytes, method: str = "GET") -> Response:
        """Send a request and return the answer. Raises NoAnswer."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send(data)  # the server may answer before it has read all data
        return self.answer(method)

    def answer(self, method: str = "GET") -> Response:
        """Return the next answer. Raises NoAnswer."""
        until = time.monotonic() + self._timeout
        while _GAP not in self._received:
            self._more(until)
        head = self._take(self._received.index(_GAP))
        answer = Response.of(head + self._take(len(_GAP)))
        if answer is None:
            raise NotHttp("the response is not HTTP", head, True)
        length = answer.field("Content-Length")
        if method == "HEAD" or answer.status in (204, 304) or length is None:
            return answer
        if not _LENGTH.fullmatch(length):
            raise NoAnswer(f"Content-Length is {length[:60]!r}, which is not a number", head, True)
        try:
            while len(self._received) < int(length):
                self._more(until)
        except NoAnswer as error:
            error.head = head + _GAP
            raise
        return Response(answer.status, head, self._take(int(length)))

    def _take(self, size: int) -> bytes:
        """Remove the first `size` received bytes and return them."""
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def ends(self, seconds: float | None = None) -> bool:
        """Return whether the server closes the connection within `seconds` (None: the timeout)."""
        return self.rest(seconds)[1]

    def rest(self, seconds: float | None = None) -> tuple[bytes, bool]:
        """Return all bytes until the server closes or the time ends, and True if it has closed."""
        end = self.until_end(seconds)
        return end.received, end.in_time

    def until_end(self, seconds: float | None = None) -> NoAnswer:
        """Read until the server closes or the time ends. Return the reason, with all bytes."""
        until = time.monotonic() + (self._timeout if seconds is None else seconds)
        try:
            while True:
                self._more(until)
        except NoAnswer as end:
            return end

    def _more(self, until: float) -> None:
        left = until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self.socket.settimeout(left)
            piece = self.socket.recv(CHUNK)
        except TimeoutError:
            raise NoAnswer("no complete response in time", self._received, False) from None
        except OSError as error:
            self.broke = True
            why = f"the connection broke ({error.strerror})"
            raise NoAnswer(why, self._received, True) from error
        if not piece:
            raise NoAnswer("the connection ended", self._received, True)
        self._received += piece


def request(
    method: str,
    path: str,
    *fields: str,
    body: bytes | None = None,
    host: str = "localhost",
    version: str = "HTTP/1.1",
) -> bytes:
    """Return the bytes of a request. `fields`: header lines except Host and Content-Length."""
    lines = [f"{method} {path} {version}", f"Host: {host}", *fields]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
