# SPDX-License-Identifier: MIT
"""The table of redirects, short links, and the page of sorted words."""

from __future__ import annotations

import re

import pytest

from ..client import Client, fetch, request
from ..harness import Server
from ..redisbox import RedisClient

pytestmark = pytest.mark.shared_code

TABLE = [
    ("/t/plain", 302, "/guestbook"),
    ("/t/moved", 301, "https://example.com/new?x=1&y=2"),
    ("/t/found", 302, "/tux.png"),
    ("/t/other", 303, "/a.txt"),
    ("/t/temporary", 307, "/guestbook"),
    ("/t/permanent", 308, "/guestbook"),
    ("/t/./x/../plain", 302, "/guestbook"),
    ("/t/pl%61in", 302, "/guestbook"),
    ("/t/plain?x=1", 302, "/guestbook"),
]


@pytest.mark.parametrize(("path", "status", "target"), TABLE)
def test_table(server: Server, path: str, status: int, target: str) -> None:
    """A path of the table is answered with the status and the target of the table."""
    response = fetch(server, path)
    assert response.status == status
    assert response.field("Location") == target


def test_table_knows_whole_paths_only(server: Server) -> None:
    """A path that only begins like one of the table is not redirected."""
    for path in ("/t/plain/", "/t/plainer", "/t/plai", "/T/plain", "/t/plain/x"):
        assert fetch(server, path).status == 404


def test_short_link(server: Server, store: RedisClient) -> None:
    """A short link redirects to its target in Redis, also directly after a change."""
    store.do("SET", "link:home", "/guestbook")
    store.do("SET", "link:abroad", "https://example.com/a?b=c&d#e")
    assert fetch(server, "/go/home").status == 302
    assert fetch(server, "/go/home").field("Location") == "/guestbook"
    assert fetch(server, "/go/abroad").field("Location") == "https://example.com/a?b=c&d#e"
    store.do("SET", "link:loud", "HTTPS://EXAMPLE.COM/")
    assert fetch(server, "/go/loud").field("Location") == "HTTPS://EXAMPLE.COM/"
    store.do("SET", "link:" + "x" * 100, "/longest")
    assert fetch(server, "/go/" + "x" * 100).field("Location") == "/longest"
    store.do("SET", "link:home", "/elsewhere")
    assert fetch(server, "/go/home").field("Location") == "/elsewhere"
    store.do("DEL", "link:home")
    assert fetch(server, "/go/home").status == 404


def test_unknown_short_links(server: Server, store: RedisClient) -> None:
    """A name without a link is 404."""
    store.do("SET", "link:", "/empty")
    store.do("SET", b"link:\xff\xfe", "/no-text")
    store.do("SET", "link:" + "x" * 101, "/too-long")
    assert fetch(server, "/go/" + "x" * 101).status == 404
    for path in ("/go/nowhere", "/go/", "/go", "/go/%ff%fe", "/go/a%0db"):
        assert fetch(server, path).status in (400, 404), path
    assert fetch(server, "/go/" + "x" * 5000).status in (404, 414)


def test_escaped_short_links(server: Server, store: RedisClient) -> None:
    """A name is decoded before the look-up, and the query is no part of it."""
    store.do("SET", "link:a b", "/space")
    store.do("SET", "link:ü", "/umlaut")
    assert fetch(server, "/go/a%20b").field("Location") == "/space"
    assert fetch(server, "/go/%C3%BC").field("Location") == "/umlaut"
    assert fetch(server, "/go/%C3%BC?x=1").field("Location") == "/umlaut"


def test_no_commands_in_names(server: Server, store: RedisClient) -> None:
    """A name reaches Redis as one argument, whatever bytes it has."""
    for name in ("x%0D%0ASET%20evil%201", "x%0d%0a*3%0d%0a$3%0d%0aSET%0d%0a", "x%20evil", "*", "?"):
        assert fetch(server, f"/go/{name}").status in (400, 404)
    assert store.do("GET", "evil") is None
    assert store.do("DBSIZE") == 0
    assert fetch(server, "/guestbook").status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/a\r\nX-Injected: 1",
        "/a\nX-Injected: 1",
        "/a\rX-Injected: 1",
        "/a\r\n\r\n<script>alert(1)</script>",
        "/a\0X-Injected: 1",
        "\r\nX-Injected: 1",
    ],
)
def test_no_fields_in_targets(server: Server, store: RedisClient, target: str) -> None:
    """A stored target cannot add a field or end the head."""
    store.do("SET", "link:evil", target)
    with Client(server) as client:
        client.send(request("GET", "/go/evil", (("Connection", "close"),)))
        response = client.read()
        assert client.read_to_end() == b""
    assert response.status in (302, 404, 500, 502, 503)
    assert response.field("X-Injected") is None
    assert not re.search(rb"[\r\n\0]X-Injected", response.head)


@pytest.mark.parametrize("target", ["", "x" * 7000, "/ä ö", "/a b", '/"><script>alert(1)</script>'])
def test_odd_targets(server: Server, store: RedisClient, target: str) -> None:
    """Unusual targets give a valid response, and add no markup to its body."""
    store.do("SET", "link:odd", target)
    response = fetch(server, "/go/odd")
    assert response.status in (302, 404, 500, 502, 503)
    assert len(response.fields) > 3
    assert b"<script" not in response.body


def test_link_of_a_wrong_type(server: Server, store: RedisClient) -> None:
    """A link that is no string is an error of Redis, and the next request succeeds."""
    store.do("RPUSH", "link:list", "a", "b")
    response = fetch(server, "/go/list")
    assert response.status == 502
    assert response.field("Retry-After") is None
    assert fetch(server, "/guestbook").status == 200


def test_sorted(server: Server) -> None:
    """The page of words is always the same: 1,001 sorted strings."""
    first = fetch(server, "/sorted")
    assert first.status == 200
    assert first.field("Content-Type") == "text/html; charset=utf-8"
    assert fetch(server, "/sorted").body == first.body
    assert fetch(server, "/sorted", method="HEAD").field("Content-Length") == str(len(first.body))
    text = re.sub(r"(?s)<(head|style|title|h1|p|nav|header|footer)\b.*?</\1>", "", first.text)
    strings = [s.strip() for s in re.split(r"<[^>]*>", text) if s.strip()]
    assert len(strings) == 1001
    assert strings == sorted(strings)
    words = sorted(len(s.split()) for s in strings)
    assert words == [10] * 1000 + [1000]
    for one in strings:
        assert len({len(word) for word in one.split()}) == 1
        assert 1 <= len(one.split()[0]) <= 10
