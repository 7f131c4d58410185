# SPDX-License-Identifier: MIT
"""All servers give the same response, byte for byte.

What may differ is removed first: Date, Connection and what depends on it. The visitor number is set
to the same value before each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cases import SYNTAX
from ..client import FORM, Client, form, request
from ..conftest import WORKERS, binary_path, chosen_servers
from ..harness import Server
from ..pages.test_guestbook import LEGACY, NASTY
from ..pages.test_guestbook_form import FORMS, INCOMPLETE, ODD, OTHER_TYPES
from ..redisbox import PrivateRedis, RedisClient
from ..site import TYPES
from ..smuggling import SMUGGLING
from .test_http_bodies import BODIES, CHUNKED
from .test_ranges import IGNORED, PARTIAL, UNSATISFIABLE
from .test_redirects import TABLE
from .test_static_safety import CLIMBING, STRANGE

pytestmark = pytest.mark.xdist_group("equality")

Everyone = list[tuple[Server, RedisClient]]


@pytest.fixture(scope="module")
def everyone(
    request: pytest.FixtureRequest,
    site: Path,
    redis: PrivateRedis,
    database_numbers: Iterator[int],
) -> Iterator[Everyone]:
    """Yield all servers, each with its own database."""
    started: Everyone = []
    for name in chosen_servers(request.config):
        client = redis.client(next(database_numbers))
        server = Server(
            binary_path(request.config, name), site, redis.url(client.database), WORKERS
        )
        started.append((server.start(), client))
    yield started
    try:
        for server, client in started:
            client.close()
            server.finish()
    finally:
        for server, _ in started:
            server.kill()


def _prepare(client: RedisClient) -> None:
    client.do("FLUSHDB")
    client.do("SET", "visitor_count", 41233)
    client.do("SET", "link:home", "/guestbook")
    client.do("SET", "link:evil", "/a\r\nX-Injected: 1")
    client.do("RPUSH", "link:list", "a")
    for item in LEGACY + [text.encode() for text in NASTY]:
        client.do("RPUSH", "guestbook_remarks", item)


def _normal(data: bytes) -> bytes:
    """Return the bytes of responses without the lines that may differ."""
    lines = data.split(b"\r\n")
    dropped = (b"Date: ", b"Connection: ")
    return b"\r\n".join(line for line in lines if not line.startswith(dropped))


def _first_response(server: Server, raw: bytes) -> bytes:
    method = "HEAD" if raw.startswith(b"HEAD") else "GET"
    with Client(server) as client:
        response = client.exchange(raw, method)
        return _normal(response.head + response.body)


def _everything(server: Server, raw: bytes) -> bytes:
    with Client(server) as client:
        client.send_if_open(raw)
        return _normal(client.read_to_end())


def _assert_same(answers: dict[str, object]) -> None:
    first, expected = next(iter(answers.items()))
    for name, answer in answers.items():
        assert answer == expected, f"{name} answers differently from {first}"


def _post(body: bytes) -> bytes:
    return request("POST", "/guestbook", (FORM,), body)


def _get(target: str, *fields: tuple[str, str]) -> bytes:
    return request("GET", target, fields)


REQUESTS = {
    **{f"syntax: {case.name}": case.raw for case in SYNTAX},
    **{f"type of {name}": _get(f"/t/types/{name}") for name in TYPES},
    **{f"path {target}": _get(target) for target in CLIMBING + STRANGE},
    **{
        f"GET {target}": _get(target)
        for target in (
            *("/", "/index.html", "/tux.png", "/t/80k.bin", "/t/sub", "/t/sub?x=1", "/t/sub/"),
            *("/t/no-index/", "/t/odd/fifo", "/t/links/inside.txt", "/t/links/outside.txt"),
            *("/guestbook", "/guestbook?x", "/guestbook/", "/sorted", "/sorted?x", "/t/none"),
            *("/t/plain", "/t/moved", "/t/other", "/t/permanent", "/go/home", "/go/none"),
            *("/go/evil", "/go/list", "/go/", "/go", "/go/a/b", "/a#b", "/t/digits.txt#x", "//"),
            *("/%", "/%00", "/ü", "/%c3%bc", "/" + "n" * 300, "/go/" + "x" * 300, "/?", "/t//sub"),
        )
    },
    **{
        f"HEAD {target}": request("HEAD", target)
        for target in ("/", "/t/80k.bin", "/guestbook", "/sorted", "/t/plain", "/go/home", "/x")
    },
    **{
        f"{name}: {value}": _get("/t/digits.txt", (name, value))
        for name, value in (
            *(("Range", v) for v in (*(row[0] for row in PARTIAL), *IGNORED, *UNSATISFIABLE)),
            ("If-None-Match", "*"),
            ("If-None-Match", '"x"'),
            ("If-Modified-Since", "Sat, 01 Jan 2050 00:00:00 GMT"),
            ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("If-Match", '"x"'),
            ("Host", "twice"),
            ("Upgrade", "h2c"),
            ("Accept", "image/png"),
            ("Accept-Encoding", "identity;q=0"),
            ("Content-Length", "0"),
        )
    },
    **{f"redirect {row[0]}": _get(row[0]) for row in TABLE},
    **{
        f"chunked: {name}": request("POST", "/guestbook", (FORM, CHUNKED)) + body
        for name, body in BODIES.items()
    },
    **{
        f"form {number}: {body[:40]!r}": _post(body)
        for number, body in enumerate([*(row[0] for row in FORMS + INCOMPLETE), *ODD])
    },
    **{
        f"type {kind}": request("POST", "/guestbook", (("Content-Type", kind),), b"x")
        for kind in OTHER_TYPES
    },
    "remark": _post(form(guest_name="Ann", guest_remarks="Hi")),
    "long name": _post(form(guest_name="ü" * 101, guest_remarks="Hi")),
    "long remarks": _post(form(guest_name="Ann", guest_remarks="🐧" * 1001)),
    "markup in the form": _post(form(guest_name='"><b>', guest_remarks="")),
    "no type": request("POST", "/guestbook", (), b"x"),
    "1.0": b"GET /t/digits.txt HTTP/1.0\r\n\r\n",
    "1.0 keep-alive": b"GET /t/digits.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_same_response(everyone: Everyone, name: str) -> None:
    """All servers send the same bytes and leave the same data in Redis."""
    answers: dict[str, object] = {}
    for server, client in everyone:
        _prepare(client)
        answer = _first_response(server, REQUESTS[name])
        assert answer.startswith(b"HTTP/1.1 ")
        answers[server.name] = (answer, client.number("visitor_count"), client.remarks())
    _assert_same(answers)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in SMUGGLING])
def test_same_refusal(everyone: Everyone, case: object) -> None:
    """All servers send the same bytes until the connection ends."""
    raw = getattr(case, "raw", b"")
    answers: dict[str, object] = {s.name: _everything(s, raw) for s, _ in everyone}
    assert all(str(answer) for answer in answers.values())
    _assert_same(answers)
