# SPDX-License-Identifier: MIT
"""A client that sends bytes unchanged, and returns exactly the bytes that the server sends."""

import contextlib
import re
import socket
from dataclasses import dataclass
from urllib.parse import quote_plus

from bench.load.client import Client as PlainClient
from bench.load.client import NoAnswer

from .sockets import is_given_up, is_read
from .timing import TIMEOUT, deadline_in, wait_until

CRLF = b"\r\n"
FORM = ("Content-Type", "application/x-www-form-urlencoded")


class EndOfStreamError(Exception):
    """The server closed the connection before the response was complete; `received`: its bytes."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"closed after {len(received)} bytes: {received[:300]!r}")
        self.received = received


@dataclass(frozen=True)
class Response:
    """One response as received. `head` includes the empty line."""

    head: bytes
    body: bytes

    @property
    def status_line(self) -> str:
        return self.head.split(CRLF, 1)[0].decode("ascii")

    @property
    def status(self) -> int:
        match = re.fullmatch(r"HTTP/1\.1 ([1-5][0-9][0-9]) [ -~]+", self.status_line)
        assert match is not None, f"bad status line: {self.status_line!r}"
        return int(match[1])

    @property
    def fields(self) -> list[tuple[str, str]]:
        pairs = []
        for line in self.head.split(CRLF)[1:-2]:
            match = re.fullmatch(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([!-~\x80-\xff \t]*)", line)
            assert match is not None, f"bad field line: {line!r}"
            pairs.append((match[1].decode(), match[2].decode("latin-1").strip()))
        return pairs

    def field(self, name: str) -> str | None:
        """Return the value of a field that occurs at most once; None if it is absent."""
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None

    @property
    def closes(self) -> bool:
        return (self.field("Connection") or "").lower() == "close"

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


class Client(PlainClient):
    """One connection, as a context manager. Each read has a deadline."""

    def __init__(self, address: tuple[str, int], receive_buffer: int = 0) -> None:
        super().__init__(address, TIMEOUT, receive_buffer)
        self._port = address[1]

    def send_if_open(self, data: bytes) -> bool:
        """Send all data; return False if the server has closed the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def _more(self, until: float) -> None:
        """Receive at least one byte. Raise EndOfStreamError or TimeoutError."""
        try:
            super()._more(until)
        except NoAnswer as end:
            if end.in_time:
                raise EndOfStreamError(end.received) from None
            raise TimeoutError(f"not in time; so far: {end.received[:300]!r}") from None

    def read_head(self, seconds: float = TIMEOUT) -> bytes:
        """Return the bytes of one response head. Raise EndOfStreamError or TimeoutError."""
        end = deadline_in(seconds)
        while (size := self._received.find(b"\r\n\r\n")) < 0:
            self._more(end)
        return self._take(size + 4)

    def read_exactly(self, size: int, seconds: float = TIMEOUT) -> bytes:
        """Return `size` bytes. Raise EndOfStreamError or TimeoutError."""
        end = deadline_in(seconds)
        while len(self._received) < size:
            self._more(end)
        return self._take(size)

    def read(self, method: str = "GET", seconds: float = TIMEOUT) -> Response:
        """Return one response, also an interim one. Raise EndOfStreamError or TimeoutError."""
        head = self.read_head(seconds)
        response = Response(head, b"")
        if response.status < 200 or response.status in (204, 304) or method == "HEAD":
            return response
        length = response.field("Content-Length")
        assert length is not None, f"no Content-Length: {head!r}"
        return Response(head, self.read_exactly(int(length), seconds))

    def exchange(self, data: bytes, method: str = "GET") -> Response:
        self.send_if_open(data)
        return self.read(method)

    def read_to_end(self) -> bytes:
        """Return all bytes until the server closes. Raise TimeoutError."""
        end = deadline_in(TIMEOUT)
        with contextlib.suppress(EndOfStreamError):
            while True:
                self._more(end)
        return self._take(len(self._received))

    def is_quiet(self, seconds: float) -> bool:
        """Return whether nothing is received within `seconds` of real time, not even a FIN."""
        if self._received:
            return False
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b"never"
        except (TimeoutError, BlockingIOError):
            return True
        except ConnectionResetError:
            return False

    def sip(self, size: int) -> None:
        """Receive up to `size` bytes without waiting; later reads return these bytes."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            self._received += self.socket.recv(size)

    def send_read(self, data: bytes) -> None:
        self.send(data)
        self.wait_until_read()

    def wait_until_read(self) -> None:
        wait_until(lambda: is_read(self._port, self.socket), "the server reads")

    def wait_until_given_up(self) -> None:
        """Wait until the server has closed the connection, without reading the response."""
        wait_until(lambda: is_given_up(self._port, self.socket), "the server closes")


Fields = tuple[tuple[str, str], ...]


def request(method: str, target: str, fields: Fields = (), body: bytes | None = None) -> bytes:
    """Return the bytes of an HTTP/1.1 request with Host and, for a body, Content-Length."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *(f"{k}: {v}" for k, v in fields)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + (body or b"")


def split_responses(data: bytes) -> list[Response]:
    """Split a stream of responses to GET or POST requests."""
    responses = []
    while data:
        head, mark, data = data.partition(b"\r\n\r\n")
        assert mark, f"not a response: {head[:300]!r}"
        response = Response(head + mark, b"")
        length = int(response.field("Content-Length") or 0)
        if response.status in (204, 304):
            length = 0
        assert len(data) >= length, f"cut short: {head!r} and {len(data)} bytes"
        responses.append(Response(head + mark, data[:length]))
        data = data[length:]
    return responses


def form(**values: str | bytes) -> bytes:
    """Encode a form as a browser does; underscores in names become hyphens."""
    pairs = (f"{k.replace('_', '-')}={quote_plus(v)}" for k, v in values.items())
    return "&".join(pairs).encode("ascii")


# ---- Requests and times that several test files share ----

WORKERS = 4
CLOSE = (("Connection", "close"),)
DIGITS, VISIT, ELSEWHERE = (
    request("GET", path, CLOSE) for path in ("/t/digits.txt", "/guestbook", "/t/plain")
)
KEPT = request("GET", "/t/digits.txt")
HALF = DIGITS[:-2]
# Seconds: slightly less than the timeouts for a request, for an idle client, and for Redis' reply.
REQUEST_TIME, IDLE_TIME, REDIS_TIME = 8, 4, 1.5


def answer(clients: list[Client]) -> None:
    """Send the rest of the half requests, and assert that each response has status 200."""
    for client in clients:
        assert client.exchange(b"\r\n").status == 200
