# SPDX-License-Identifier: MIT
"""For each request of cases.py and cases.txt, all servers send the same, correct bytes. A server
with blocking I/O and a server with an event loop also get most requests in pieces, and with HEAD
instead of GET. The fields Date and Connection may differ and are not compared.
"""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ..client import Response, split_responses
from ..conftest import WORKERS, binary_path, chosen_servers, representatives
from ..harness import Server
from ..markup import assert_well_formed
from ..pages.test_guestbook import LEGACY, NASTY
from ..redisbox import PrivateRedis, RedisClient
from ..site import DATA, SECRET
from .cases import CASES, Case

pytestmark = pytest.mark.xdist_group("cases")
OF_REDIS = (b"guestbook", b"uestbook", b"/go")
# A group ends after this number of wrong cases, because each of them may wait for a timeout.
MOST_WRONG = 3
MAY_DIFFER = (b"Date: ", b"Connection: ")
LINKS = {
    **{name.encode(): target for name, target in DATA["links"].items()},
    b"x" * 100: "/longest",
    b"x" * 101: "/too-long",
    b"long": "/" + "x" * 7000,
    b"\xff\xfe": "/no-text",
}
"""The short links in Redis: target by name."""


class Answer(NamedTuple):
    """All bytes that a server sent, the visitor count, and the added remarks."""

    data: bytes
    count: int
    stored: tuple[bytes, ...]

    def same(self) -> tuple[bytes, int, tuple[bytes, ...]]:
        lines = self.data.split(b"\r\n")
        kept = b"\r\n".join(line for line in lines if not line.startswith(MAY_DIFFER))
        return kept, self.count, self.stored


class Asked:
    """A server with its own database."""

    def __init__(self, server: Server, store: RedisClient) -> None:
        self.server = server
        self.store = store

    def prepare(self) -> int:
        """Store the same data in Redis for each request; return the number of remarks."""
        old = [*LEGACY, *(text.encode() for text in NASTY)]
        self.store.do("FLUSHDB")
        links = itertools.chain(*((b"link:" + name, target) for name, target in LINKS.items()))
        self.store.do("MSET", "visitor_count", 41233, *links)
        self.store.do("RPUSH", "link:list", "a")
        self.store.do("RPUSH", "guestbook_remarks", *old)
        return len(old)

    def answer(self, case: Case, raw: bytes, piece: int) -> Answer:
        """Send a request in pieces of `piece` bytes, and read until the server closes."""
        asks_redis = any(word in raw for word in OF_REDIS)
        before = self.prepare() if asks_redis else 0
        with self.server.client() as client:
            for start in range(0, len(raw), piece):
                if not client.send_if_open(raw[start : start + piece]):
                    break
                # Let the server read, so that it does not get the whole head at once.
                if piece == 1 and start in (0, len(raw) - 2):
                    client.wait_until_read()
            if not case.closes:
                with contextlib.suppress(OSError):
                    client.half_close()
            data = client.read_to_end()
        if not asks_redis:
            return Answer(data, 0, ())
        assert self.store.do("EXISTS", "evil") == 0, "Redis executed a name as a command"
        return Answer(
            data, self.store.number("visitor_count"), tuple(self.store.remarks()[before:])
        )


class Everyone(NamedTuple):
    servers: list[Asked]
    representatives: list[Asked]
    etag: str


@pytest.fixture(scope="module")
def everyone(request: pytest.FixtureRequest, site: Path, redis: PrivateRedis) -> Iterator[Everyone]:
    """Yield all servers, each with its own database."""
    names = chosen_servers(request.config)
    with contextlib.ExitStack() as stack:
        servers = []
        for name in names:
            store = redis.client(redis.unused())
            path = binary_path(request.config, name)
            server = Server(path, site, redis.url(store.database), WORKERS)
            servers.append(Asked(stack.enter_context(server), store))
            stack.callback(store.close)
        etag = servers[0].server.get("/t/digits.txt").field("ETag")
        assert etag is not None
        few = representatives(request.config, "shared_code")
        yield Everyone(servers, [one for one in servers if one.server.name in few], etag)


def _filled(text: str, etag: str) -> str:
    """Replace {etag} by the entity tag, {etag-cut} by a shorter tag, {etag-bare} by the tag without
    quotes."""
    cut = text.replace("{etag-cut}", etag[:-2] + '"').replace("{etag-bare}", etag.strip('"'))
    return cut.replace("{etag}", etag)


def _assert_error_page(response: Response) -> None:
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    assert len(response.body) < 4096
    assert str(response.status) in response.text
    assert "Unknown" not in response.status_line
    assert_well_formed(response.text)


def _assert_right(case: Case, answer: Answer, etag: str) -> None:
    """Assert that there is one response, which this case and the rules for all cases allow."""
    if case.raw.startswith(b"HEAD "):
        assert answer.data.endswith(b"\r\n\r\n"), "HEAD has a body"
        response = Response(answer.data, b"")
    else:
        (response,) = split_responses(answer.data)
    assert response.status in case.statuses, response.status_line
    for name, value in case.fields.items():
        assert response.field(name) == (value and _filled(value, etag)), name
    assert case.body is None or response.body == case.body, response.body[:100]
    assert case.stored is None or answer.stored == case.stored
    assert len(answer.stored) == (case.raw.startswith(b"POST /guest") and response.status == 303)
    assert response.closes or not case.closes, response.head
    assert response.field("Server") == "ZeroHTTPd-Seven"
    assert response.field("Date") is not None
    assert response.field("X-Injected") is None
    assert not (response.field("Location") or "/").startswith("//")
    assert SECRET not in answer.data
    assert b"root:" not in answer.data
    assert b"<script>" not in response.body
    if response.status >= 400 and b'id="count"' not in response.body and response.body:
        _assert_error_page(response)


def _check(everyone: Everyone, case: Case, in_pieces: bool) -> None:
    raw = _filled(case.raw.decode("latin-1"), everyone.etag).encode("latin-1")
    answers = [one.answer(case, raw, len(raw)) for one in everyone.servers]
    _assert_right(case, answers[0], everyone.etag)
    for one, answer in zip(everyone.servers, answers, strict=True):
        assert answer.same() == answers[0].same(), f"{one.server.name} answers differently"
        assert b"\r\nConnection: close\r\n" in answer.data or not case.closes, one.server.name
    for one in everyone.representatives if in_pieces else ():
        answer = one.answer(case, raw, 1 if len(raw) < 500 else 700)
        _assert_right(case, answer, everyone.etag)
        if raw.startswith(b"GET ") and b"Range: " not in raw:
            head = one.answer(case, raw.replace(b"GET ", b"HEAD ", 1), len(raw) + 1)
            whole = answers[0].same()[0].partition(b"\r\n\r\n")[0]
            assert head.same()[0] == whole + b"\r\n\r\n", "HEAD differs from GET"


@pytest.mark.parametrize("group", CASES)
def test_cases(everyone: Everyone, group: str) -> None:
    """All servers answer each request of a table in the same way, and as the table says."""
    wrong = []
    for case in CASES[group]:
        try:
            _check(everyone, case, in_pieces=group != "one-byte")
        except (AssertionError, TimeoutError, ValueError) as error:
            wrong.append(f"{case.name}: {error}")
        if len(wrong) == MOST_WRONG:
            break
    assert not wrong, "\n".join(wrong)
