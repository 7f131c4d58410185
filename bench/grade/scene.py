# SPDX-License-Identifier: MIT
"""The scene of a check: a running server with its files, its Redis and its clients."""

import contextlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from bench.grade.building import Built, Expected
from bench.grade.findings import Failed, FaultName
from bench.grade.sandbox import Limits
from bench.grade.server import GradedServer
from bench.grade.threads import kept_lock
from bench.host.process import StartError
from bench.host.sockets import end
from bench.load.client import Client, NoAnswer, NotHttp, Response, request
from bench.records.words import plural
from bench.services.redis_server import PrivateRedis, SlowRedis

CLOSE = "Connection: close"
FORM = "Content-Type: application/x-www-form-urlencoded"
INVALID = b"GET / HTTP/1.1\r\nBroken\r\n\r\n"
SMALL_BUFFER = 16_384
"""The receive buffer of a slow client in bytes."""
_STRANGE = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
"""Bytes that no line of a head may have (RFC 9110, section 5.5)."""
_REQUEST_LINE = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[^\r]*")
Found = TypeVar("Found")


def rejects_valid(status: int, right: int) -> bool:
    """Return whether a status rejects a request as wrong, although the status `right` accepts it.
    Status 408 only means that a request was too late."""
    return right < 400 <= status < 500 and status != HTTPStatus.REQUEST_TIMEOUT


@dataclass(kw_only=True)
class Scene(GradedServer):
    """A graded server with its Redis and clients. Methods raise Failed after a wrong response."""

    redis: PrivateRedis
    dice: random.Random
    stalled_by: str = "none"  # The value of stalled_by in the server's tests.toml.
    slow: SlowRedis | None = None  # A proxy between the server and `redis`.
    killed: int = 0
    """The number of connections to Redis that were open when the grader killed Redis."""
    built: Built | None = None
    """The copy of the sources, from which the server can be built with other flags."""
    sent_file: bool = False  # Whether the server has sent a correct file, set by the gate check.
    answered: list[int] = field(default_factory=list)
    """The statuses of the final responses (not 1xx) that clients have received with `talk`."""

    @property
    def several(self) -> bool:
        """Return whether the server's tests.toml says that it serves several clients at once."""
        return self.stalled_by != "one"

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port on which the server listens."""
        assert self.running is not None
        parts = urlsplit(self.running.url)
        return parts.hostname or "", parts.port or 80

    @property
    def redis_port(self) -> int | None:
        """Return the port of the server's Redis, or of the proxy in front of Redis."""
        return urlsplit(self.redis_url).port

    def client(self, buffer: int = 0) -> Client:
        """Return a new connection to the server. Raises Failed if no connection can be made."""
        try:
            return Client(self.address, self.timeout, buffer)
        except OSError as error:
            self.alive()
            raise Failed(
                "no-answer", f"a client could not connect: {error.strerror or error}", sure=False
            ) from error

    @contextlib.contextmanager
    def clients(self, count: int, data: bytes = b"") -> Iterator[list[Client]]:
        """Yield connected clients, each of which has sent `data`."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(count)]
            for client in clients:
                client.send(data)
            yield clients

    def let_go(self, port: int) -> bool:
        """Return whether the server has closed its descriptor for the client on this port."""
        own = end(self.address[1], port)
        return own is None or own.inode == 0

    def get(
        self, path: str, *fields: str, method: str = "GET", fault: FaultName = "no-answer"
    ) -> Response:
        """Send a request on a new connection; return the response. `fault`: see `talk`."""
        return self.ask(request(method, path, CLOSE, *fields), method, fault)

    def ask(self, data: bytes, method: str = "GET", fault: FaultName = "no-answer") -> Response:
        """Send any bytes on a new connection; return the response. `fault`: see `talk`."""
        with self.client() as client:
            return self.talk(client, data, method, fault)

    def talk(
        self, client: Client, data: bytes, method: str = "GET", fault: FaultName = "no-answer"
    ) -> Response:
        """Send bytes on an open connection; return the response. `fault`: if no response comes."""
        try:
            answer = client.ask(data, method)
        except (NoAnswer, OSError) as error:
            self.alive()
            received, in_time, is_cut = b"", False, False
            if isinstance(error, NoAnswer):
                received, in_time = error.received, error.in_time
                is_cut = bool(error.head) and not client.broke
            if (extra := received.find(b"HTTP/1.")) > 0:
                raise Failed(
                    "wrong-length",
                    f"{plural(extra, 'byte')} came after the Content-Length bytes of the previous "
                    f"response: {received[: min(extra, 40)]!r}",
                    client.port,
                ) from error
            # If there is no request line, the data are a later part of a request.
            first = _REQUEST_LINE.match(data)
            asked = f"`{first[0][:60].decode('latin-1')}`: " if first else ""
            fault = "bad-head" if isinstance(error, NotHttp) else fault
            failed = Failed(fault, f"{asked}{error}", client.port, sure=in_time, is_cut=is_cut)
            failed.locked = () if in_time else kept_lock(self.pids())
            raise failed from error
        strange = next((line for line in answer.head.split(b"\r\n") if _STRANGE.search(line)), None)
        if strange is not None:
            raise Failed("bad-head", f"the head has invalid bytes: {strange[:60]!r}", client.port)
        if answer.status >= 200:
            self.answered.append(answer.status)
        return answer

    def file(self, path: str = "") -> None:
        """Request a small file. Raise Failed unless it arrives complete and correct."""
        path = path or self.site.first
        self.require(self.site.file(path), self.get(path))

    def require(
        self,
        one: Expected,
        answer: Response,
        fault: FaultName = "wrong-answer",
        port: int = 0,
        sure: bool = True,
    ) -> None:
        """Raise Failed unless a response is as expected. `fault`: the fault of a wrong response,
        unless only its Content-Length is wrong, or a valid request is rejected."""
        if told := one.wrong_length(answer):
            there = f"{one.name} has {len(one.body or b'')} bytes"
            raise Failed("wrong-length", f"{there}; the head said Content-Length: {told[:30]}")
        if wrong := one.wrong(answer):
            right = one.status if isinstance(one.status, int) else one.status[0]
            named = "wrong-answer" if rejects_valid(answer.status, right) else fault
            raise Failed(named, f"{one.name} was answered {wrong}", port, sure)

    @contextlib.contextmanager
    def unanswered(
        self,
        fault: FaultName,
        seen: str,
        port: int = 0,
        *,
        sure: bool | None = None,
        also_in_time: bool = True,
        also_late: bool = True,
    ) -> Iterator[None]:
        """Report a missing response in the `with` block as this fault. `seen` and `sure`: see
        `Failed`; `sure` None: unchanged. `also_in_time`: whether to report this fault also if the
        connection ended before the timeout; `also_late`: also if it did not end."""
        try:
            yield
        except Failed as failed:
            self.alive()
            if failed.fault == "no-answer" and (also_in_time if failed.sure else also_late):
                failed.fault, failed.seen, failed.port = fault, f"{seen} ({failed.seen})", port
                failed.sure = failed.sure if sure is None else sure
            raise

    @contextlib.contextmanager
    def control(
        self, usual: Callable[["Scene"], object], how: str, limits: Limits | None = None
    ) -> Iterator[None]:
        """After a failure in the `with` block, call `usual` on a new server with the usual limits
        (or with `limits`): it makes the same requests without this check's situation. If they fail,
        too, raise their failure, because the situation is not the cause. `how`: e.g. "while no call
        failed"."""
        same = self.dice.getstate()
        try:
            yield
        except Failed as failed:
            self.alive()
            failed.locked = failed.locked or kept_lock(self.pids())
            self.stop()
            self.redis.prepare()
            self.dice.setstate(same)
            new = replace(
                self.of(self.server), limits=limits or Limits(), trace=None, gives_up="crash"
            )
            try:
                with new.started(), new.guarded():
                    usual(new)
            except StartError:
                pass
            except Failed as plain:
                if not plain.locked:
                    plain.proof = f"the same requests, {how}", [plain.seen]
                plain.afterwards = True
                raise plain from failed
            raise

    def together(self, what: Sequence[Callable[[], Found]]) -> list[Found]:
        """Call each function in its own thread, and return the results in order. Raises the first
        error."""
        with ThreadPoolExecutor(len(what)) as actors:
            return [one.result() for one in [actors.submit(act) for act in what]]
