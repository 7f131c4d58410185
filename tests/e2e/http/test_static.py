# SPDX-License-Identifier: MIT
"""Static files: types, index pages, redirects to the slash, validators and 304."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from .. import processes
from ..client import Client, EndOfStreamError, Response, fetch, request, send
from ..harness import Server
from ..site import MODIFIED, TYPES, eighty_kilobytes
from ..timing import wait_until

DIGITS = "/t/digits.txt"
DATE = formatdate(MODIFIED, usegmt=True)


def _etag(server: Server, target: str = DIGITS) -> str:
    value = fetch(server, target).field("ETag")
    assert value is not None
    return value


@pytest.mark.parametrize("name", TYPES)
def test_content_type(server: Server, name: str) -> None:
    """The type follows from the end of the name."""
    response = fetch(server, f"/t/types/{name}")
    assert response.status == 200
    assert response.body == b"content of " + name.encode()
    kind = response.field("Content-Type") or ""
    accepted = {TYPES[name]}
    if name == "a.xml":
        accepted.add("text/xml")
    if name == "a.ico":
        accepted.add("image/vnd.microsoft.icon")
    assert kind.split(";")[0] in accepted
    if TYPES[name].startswith("text/"):
        assert kind.endswith("; charset=utf-8")


def test_type_in_capitals(server: Server, site: Path) -> None:
    """Names written by cameras and old systems have the same types."""
    photo = site / "public" / "t" / f"PHOTO-{server.name}.JPG"
    photo.write_bytes(b"photo")
    assert fetch(server, f"/t/{photo.name}").field("Content-Type") == "image/jpeg"


def test_fields_of_a_file(server: Server) -> None:
    """A file comes with all fields that caches and downloads need."""
    response = fetch(server, DIGITS)
    assert response.status == 200
    assert response.body == b"0123456789"
    assert response.field("Content-Length") == "10"
    assert response.field("Last-Modified") == DATE
    assert response.field("Accept-Ranges") == "bytes"
    assert re.fullmatch(r'"[!#-~]+"', response.field("ETag") or "")


def test_eighty_kilobytes(server: Server) -> None:
    """A file of many segments comes whole, again and again on one connection."""
    with Client(server) as client:
        for _ in range(3 if server.kind.keeps_alive else 1):
            assert client.exchange(request("GET", "/t/80k.bin")).body == eighty_kilobytes()


def test_empty_file(server: Server) -> None:
    """An empty file is a response with an empty body."""
    response = fetch(server, "/t/empty.txt")
    assert (response.status, response.field("Content-Length")) == (200, "0")


@pytest.mark.parametrize(
    "target",
    [
        "/t/with%20space.txt",
        "/t/plus+sign.txt",
        "/t/plus%2Bsign.txt",
        "/t/percent%2541.txt",
        "/t/%C3%BCn%C3%AFcode.txt",
        "/t/%c3%bcn%c3%afcode.txt",
    ],
)
def test_names_that_need_escapes(server: Server, target: str) -> None:
    """Escapes are decoded exactly once, and a plus stays a plus."""
    assert fetch(server, target).body == b"inside\n"


def test_project_pages(server: Server, site: Path) -> None:
    """The project's own index page and picture are served as they are."""
    index = (site / "public" / "index.html").read_bytes()
    assert fetch(server, "/").body == index
    assert fetch(server, "/index.html").body == index
    picture = fetch(server, "/tux.png")
    assert picture.field("Content-Type") == "image/png"
    assert picture.body.startswith(b"\x89PNG")


def test_index_of_a_folder(server: Server) -> None:
    """A folder is its index.html; there is no listing."""
    assert fetch(server, "/t/sub/").body == b"<!DOCTYPE html><title>sub</title>"
    assert fetch(server, "/t/sub/").field("Content-Type") == "text/html; charset=utf-8"
    assert fetch(server, "/t/no-index/").status == 404
    assert fetch(server, "/t/no-index/file.txt").status == 200


def _redirects_to(response: Response) -> str:
    assert response.status == 301
    return response.field("Location") or ""


def test_slash_is_added(server: Server) -> None:
    """A folder without its slash is redirected, so that relative links in it work."""
    assert _redirects_to(fetch(server, "/t/sub")) == "/t/sub/"
    assert _redirects_to(fetch(server, "/t/white%20space")) == "/t/white%20space/"
    assert _redirects_to(fetch(server, "/t/sub?a=b")) in ("/t/sub/?a=b", "/t/sub/")


def test_slash_redirect_stays_here(server: Server) -> None:
    """The redirect never becomes another host's address, nor a field of its own."""
    for target in ("//t/sub", "///t/sub", "/t/../t/sub", "//t//sub", "/%2ft/sub"):
        response = fetch(server, target)
        if response.status == 301:
            location = response.field("Location") or ""
            assert location.startswith("/")
            assert not location.startswith("//")
        else:
            assert response.status in (400, 404)
    response = fetch(server, "/t/cr%0D%0AX-Injected:%201")
    assert response.field("X-Injected") is None
    assert b"\r\nX-Injected" not in response.head


def test_file_is_no_folder(server: Server) -> None:
    """Nothing lies below a file."""
    assert fetch(server, "/t/digits.txt/").status == 404
    assert fetch(server, "/t/digits.txt/more").status == 404


def test_dot_segments(server: Server) -> None:
    """Dot segments are removed as RFC 3986, 5.2.4, says."""
    for target in (
        "/t/./digits.txt",
        "/t/sub/../digits.txt",
        "/./t/digits.txt",
        "/x/../t/digits.txt",
    ):
        assert fetch(server, target).body == b"0123456789", target
    assert fetch(server, "/t/sub/../sub/.").body == b"<!DOCTYPE html><title>sub</title>"


def test_not_modified(server: Server) -> None:
    """A copy with the same ETag or date is not sent again (RFC 9110, 13.1)."""
    etag = _etag(server)
    for fields in (
        ("If-None-Match", etag),
        ("If-None-Match", f"W/{etag}"),
        ("If-None-Match", f'"other", {etag}'),
        ("If-None-Match", f'"a,b" , W/{etag}, "c"'),
        ("If-None-Match", "*"),
        ("If-Modified-Since", DATE),
        ("If-Modified-Since", formatdate(MODIFIED + 5000, usegmt=True)),
    ):
        response = fetch(server, DIGITS, fields)
        assert response.status == 304, fields
        assert response.field("ETag") == etag
        assert response.field("Content-Length") in (None, "10")
        assert response.field("Date") is not None


def test_modified(server: Server) -> None:
    """Any other copy is replaced, and nonsense is no date."""
    for fields in (
        ("If-None-Match", '"other"'),
        ("If-None-Match", '"other", "another"'),
        ("If-None-Match", _etag(server)[:-2] + '"'),
        ("If-None-Match", _etag(server).strip('"')),
        ("If-None-Match", ""),
        ("If-Modified-Since", formatdate(MODIFIED - 1, usegmt=True)),
        ("If-Modified-Since", "yesterday"),
        ("If-Modified-Since", ""),
        ("If-Modified-Since", str(MODIFIED)),
    ):
        response = fetch(server, DIGITS, fields)
        assert response.status == 200, fields
        assert response.body == b"0123456789"


def test_all_forms_of_dates(server: Server) -> None:
    """The two obsolete forms of dates are understood as well (RFC 9110, 5.6.7)."""
    moment = parsedate_to_datetime(DATE)
    for form in ("%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"):
        field = ("If-Modified-Since", moment.strftime(form))
        assert fetch(server, DIGITS, field).status == 304, field


def test_etag_before_date(server: Server) -> None:
    """If-None-Match decides alone when both are there (RFC 9110, 13.2.2)."""
    etag, old = _etag(server), formatdate(MODIFIED - 9999, usegmt=True)
    other = ("If-None-Match", '"other"')
    assert fetch(server, DIGITS, other, ("If-Modified-Since", DATE)).status == 200
    assert fetch(server, DIGITS, ("If-None-Match", etag), ("If-Modified-Since", old)).status == 304


def test_head_not_modified(server: Server) -> None:
    """HEAD is answered with 304 as well."""
    fields = (("If-None-Match", _etag(server)),)
    with Client(server) as client:
        assert client.exchange(request("HEAD", DIGITS, fields), "HEAD").status == 304


def test_preconditions_that_must_hold(server: Server) -> None:
    """If-Match and If-Unmodified-Since answer 412 when they fail (RFC 9110, 13.1.1, 13.1.4)."""
    old = formatdate(MODIFIED - 1, usegmt=True)
    assert fetch(server, DIGITS, ("If-Match", _etag(server))).status == 200
    assert fetch(server, DIGITS, ("If-Match", "*")).status == 200
    assert fetch(server, DIGITS, ("If-Match", '"other"')).status == 412
    # A weak tag says that two versions are alike, and not that they are the same.
    assert fetch(server, DIGITS, ("If-Match", f"W/{_etag(server)}")).status == 412
    assert fetch(server, DIGITS, ("If-Match", f"W/{_etag(server)}, {_etag(server)}")).status == 200
    assert fetch(server, DIGITS, ("If-Unmodified-Since", DATE)).status == 200
    assert fetch(server, DIGITS, ("If-Unmodified-Since", old)).status == 412


@pytest.mark.parametrize(
    ("name", "listed", "not_listed"), [("If-Match", 200, 412), ("If-None-Match", 304, 200)]
)
def test_tags_in_several_lines(server: Server, name: str, listed: int, not_listed: int) -> None:
    """The lines of a list are one list, whatever stands between them (RFC 9110, 5.3)."""
    tags = [(name, tag) for tag in ('"a"', '"b", "c"', _etag(server))]
    for order in itertools.permutations(tags):
        first, second, third = order
        assert fetch(server, DIGITS, first, ("X-Other", "1"), second, third).status == listed
    assert fetch(server, DIGITS, *tags[:2]).status == not_listed


def test_what_is_no_list(server: Server) -> None:
    """Two dates, ranges or types are as good as none: RFC 9110, 5.3, 13.1.3 and 13.1.4."""
    old, both = formatdate(MODIFIED - 1, usegmt=True), 2
    range_, etag = ("Range", "bytes=0-2"), ("If-Range", _etag(server))
    assert fetch(server, DIGITS, *[("If-Modified-Since", DATE)] * both).status == 200
    assert fetch(server, DIGITS, *[("If-Unmodified-Since", old)] * both).status == 200
    assert fetch(server, DIGITS, *[range_] * both).status == 200
    assert fetch(server, DIGITS, range_, etag).status == 206
    assert fetch(server, DIGITS, range_, *[etag] * both).status == 200
    types = [("Content-Type", "application/x-www-form-urlencoded")] * both
    assert send(server, request("POST", "/guestbook", tuple(types), b"x=1")).status == 415


def test_changed_file(server: Server, site: Path) -> None:
    """A changed file is served as it is now, with another ETag; a deleted one is not."""
    path = site / "public" / "t" / f"changing-{server.name}.txt"
    target = f"/t/{path.name}"
    path.write_bytes(b"first")
    os.utime(path, (MODIFIED, MODIFIED))
    before = fetch(server, target)
    assert before.body == b"first"
    path.write_bytes(b"other")
    wait_until(lambda: fetch(server, target).body == b"other", "the new content")
    assert fetch(server, target).field("ETag") != before.field("ETag")
    new = path.with_suffix(".new")
    new.write_bytes(b"replaced by another file")
    new.rename(path)
    wait_until(lambda: fetch(server, target).body == b"replaced by another file", "the new file")
    path.unlink()
    wait_until(lambda: fetch(server, target).status == 404, "404 for a deleted file")


@pytest.mark.parametrize("instead", ["nothing", "folder", "link that leads out", "another file"])
def test_deleted_file_is_let_go(server: Server, site: Path, instead: str) -> None:
    """Who asks for it is told that it has gone, and its place on the disk is free again."""
    path = site / "public" / "t" / f"deleted-{server.name}.bin"
    path.write_bytes(eighty_kilobytes())
    with Client(server) as client:
        asked = request("GET", f"/t/{path.name}")
        for status, field in (
            (412, ("If-Match", '"x"')),
            (416, ("Range", "bytes=90000-")),
            (200, ("Range", "x")),
        ):
            raw = request("GET", f"/t/{path.name}", (field,))
            # By the same worker, if that is possible.
            one = client.exchange(raw) if server.kind.keeps_alive else send(server, raw)
            assert one.status == status
        path.unlink()
        if instead == "folder":
            path.mkdir()
        elif instead == "link that leads out":
            path.symlink_to("/etc/passwd")
        elif instead == "another file":
            path.write_bytes(b"another")
        assert client.exchange(asked).status == {"folder": 301, "another file": 200}.get(
            instead, 404
        )
        for pid in server.pids():
            for name in processes.descriptors(pid):
                assert not name.endswith(f"{path.name} (deleted)")
    path.rmdir() if instead == "folder" else path.unlink(missing_ok=True)


def test_file_from_the_future(server: Server, site: Path) -> None:
    """No Last-Modified lies in the future, whatever a file is dated (RFC 9110, 8.8.2.1)."""
    path = site / "public" / "t" / f"future-{server.name}.txt"
    path.write_bytes(b"future")
    future = 4_000_000_000  # the year 2096
    os.utime(path, (future, future))
    target = f"/t/{path.name}"
    for _ in range(2):
        modified = parsedate_to_datetime(fetch(server, target).field("Last-Modified") or "")
        assert modified.timestamp() <= time.time()
    field = ("If-Modified-Since", formatdate(future, usegmt=True))
    assert fetch(server, target, field).status == 304
    path.unlink()


def test_change_is_seen_at_once(server: Server, site: Path) -> None:
    """A request that is sent behind a change gets the file as it is now, even where the change came
    within one tick of the clock that files are dated by, or while others are sent the same file."""
    path = site / "public" / "t" / f"counting-{server.name}.txt"
    target = f"/t/{path.name}"
    path.write_bytes(b"0000")
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            with Client(server) as client:
                assert client.exchange(request("GET", target)).body.isdigit()
                # A kept connection may be closed for others who wait.
                with contextlib.suppress(EndOfStreamError, ConnectionError):
                    for _ in range(19 if server.kind.keeps_alive else 0):
                        assert client.exchange(request("GET", target)).body.isdigit()

    with ThreadPoolExecutor() as pool, path.open("r+b", buffering=0) as file:
        others = [pool.submit(ask_on) for _ in range(3)]
        try:
            for number in range(1, 200):
                os.pwrite(file.fileno(), b"%04d" % number, 0)
                assert fetch(server, target).body == b"%04d" % number
        finally:
            over.set()
        for other in others:
            other.result()
    path.unlink()


def test_change_within_a_round(server: Server, site: Path) -> None:
    """An event loop looks at a file once in a round. Who is accepted in a long round, and has seen
    the file change, gets what he has seen."""
    if not server.kind.keeps_alive:
        pytest.skip("one client would hold up all others")
    path = site / "public" / "t" / f"round-{server.name}.txt"
    wanted, long = request("GET", f"/t/{path.name}"), request("GET", "/sorted") * 16
    before, behind = b"before" * 4000, b"behind" * 4000  # long: kept open, whatever its time
    path.write_bytes(before)
    path.with_suffix(".new").write_bytes(behind)
    with ExitStack() as stack:
        first, *busy = [stack.enter_context(Client(server)) for _ in range(10)]
        for client in (first, *busy):
            assert client.exchange(wanted).body == before
        busy[0].send(long)  # while this is computed, the next round fills: in this order
        first.send(wanted)
        for client in busy[1:]:
            client.send(long)
        last = stack.enter_context(Client(server))
        last.send(wanted)
        assert first.read().body == before
        path.with_suffix(".new").rename(path)
        assert fetch(server, f"/t/{path.name}").body == behind
    path.unlink()


@pytest.mark.of_servers("poll", "epoll")
def test_change_in_a_long_round(server: Server, site: Path) -> None:
    """Whoever is served last in a round of an event loop, in the next second, is told the Date of
    that second: no Last-Modified is later (RFC 9110, 8.8.2.1)."""
    path = site / "public" / "t" / f"second-{server.name}.txt"
    path.write_bytes(b"x")
    with ExitStack() as stack:
        first, *busy, last = [stack.enter_context(Client(server)) for _ in range(120)]
        for client in (first, *busy, last):
            client.exchange(request("HEAD", DIGITS), "HEAD")
        time.sleep(-(time.time() + 0.15) % 1)
        for client in (first, *busy):  # while the first is served the next round fills
            client.send(request("GET", "/sorted") * 16)
        last.send(request("GET", f"/t/{path.name}"))
        while last.is_quiet(0.01):
            path.write_bytes(b"x")
        response = last.read()
    date, modified = (
        parsedate_to_datetime(response.field(name) or "") for name in ("Date", "Last-Modified")
    )
    assert modified <= date
    path.unlink()


def test_file_that_shrinks(server: Server, site: Path) -> None:
    """A file cut short while it is sent ends that connection, not the server."""
    path = site / "public" / "t" / f"shrinking-{server.name}.bin"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    with Client(server, receive_buffer=4096) as client:
        client.send(request("GET", f"/t/{path.name}"))
        client.read_exactly(2000)
        os.truncate(path, 1000)
        assert len(client.read_to_end()) < 50_000_000
    path.unlink()
    assert fetch(server, DIGITS).status == 200
