# SPDX-License-Identifier: MIT
"""Static files: types, index pages, redirects to the slash, validators and 304."""

from __future__ import annotations

import itertools
import re
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from ..client import Client, Response, fetch, request, send
from ..harness import Server
from ..site import MODIFIED, TYPES, eighty_kilobytes

pytestmark = pytest.mark.shared_code

DIGITS = "/t/digits.txt"
DATE = formatdate(MODIFIED, usegmt=True)


def _etag(server: Server, target: str = DIGITS) -> str:
    value = fetch(server, target).field("ETag")
    assert value is not None
    return value


@pytest.mark.parametrize("name", TYPES)
def test_content_type(server: Server, name: str) -> None:
    """The Content-Type depends on the suffix of the name."""
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
    """The suffix is not case-sensitive."""
    photo = site / "public" / "t" / f"PHOTO-{server.name}.JPG"
    photo.write_bytes(b"photo")
    assert fetch(server, f"/t/{photo.name}").field("Content-Type") == "image/jpeg"


def test_fields_of_a_file(server: Server) -> None:
    """A file has all fields that caches and downloads need."""
    response = fetch(server, DIGITS)
    assert response.status == 200
    assert response.body == b"0123456789"
    assert response.field("Content-Length") == "10"
    assert response.field("Last-Modified") == DATE
    assert response.field("Accept-Ranges") == "bytes"
    assert re.fullmatch(r'"[!#-~]+"', response.field("ETag") or "")


def test_eighty_kilobytes(server: Server) -> None:
    """A file of many segments arrives whole, several times on one connection."""
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
    """The project's own index page and picture are served unchanged."""
    index = (site / "public" / "index.html").read_bytes()
    assert fetch(server, "/").body == index
    assert fetch(server, "/index.html").body == index
    picture = fetch(server, "/tux.png")
    assert picture.field("Content-Type") == "image/png"
    assert picture.body.startswith(b"\x89PNG")


def test_index_of_a_folder(server: Server) -> None:
    """A folder is served as its index.html; there is no listing."""
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
    """The redirect to the slash never names another host and never adds a field."""
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
    """A path below a file is 404."""
    assert fetch(server, "/t/digits.txt/").status == 404
    assert fetch(server, "/t/digits.txt/more").status == 404


def test_dot_segments(server: Server) -> None:
    """Dot segments are removed as in RFC 3986, section 5.2.4."""
    for target in (
        "/t/./digits.txt",
        "/t/sub/../digits.txt",
        "/./t/digits.txt",
        "/x/../t/digits.txt",
    ):
        assert fetch(server, target).body == b"0123456789", target
    assert fetch(server, "/t/sub/../sub/.").body == b"<!DOCTYPE html><title>sub</title>"


def test_not_modified(server: Server) -> None:
    """A client that has the current ETag or date gets 304 (RFC 9110, section 13.1)."""
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
    """A client with another ETag or date, or with an invalid date, gets the file."""
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
    """The two obsolete date formats are accepted (RFC 9110, section 5.6.7)."""
    moment = parsedate_to_datetime(DATE)
    for form in ("%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"):
        field = ("If-Modified-Since", moment.strftime(form))
        assert fetch(server, DIGITS, field).status == 304, field


def test_etag_before_date(server: Server) -> None:
    """If-None-Match decides alone if both fields are present (RFC 9110, section 13.2.2)."""
    etag, old = _etag(server), formatdate(MODIFIED - 9999, usegmt=True)
    other = ("If-None-Match", '"other"')
    assert fetch(server, DIGITS, other, ("If-Modified-Since", DATE)).status == 200
    assert fetch(server, DIGITS, ("If-None-Match", etag), ("If-Modified-Since", old)).status == 304


def test_head_not_modified(server: Server) -> None:
    """HEAD is also answered with 304."""
    fields = (("If-None-Match", _etag(server)),)
    with Client(server) as client:
        assert client.exchange(request("HEAD", DIGITS, fields), "HEAD").status == 304


def test_preconditions_that_must_hold(server: Server) -> None:
    """A failed If-Match or If-Unmodified-Since gives 412 (RFC 9110, sections 13.1.1 and 13.1.4)."""
    old = formatdate(MODIFIED - 1, usegmt=True)
    assert fetch(server, DIGITS, ("If-Match", _etag(server))).status == 200
    assert fetch(server, DIGITS, ("If-Match", "*")).status == 200
    assert fetch(server, DIGITS, ("If-Match", '"other"')).status == 412
    # A weak tag means that two versions are equivalent, not that they are identical.
    assert fetch(server, DIGITS, ("If-Match", f"W/{_etag(server)}")).status == 412
    assert fetch(server, DIGITS, ("If-Match", f"W/{_etag(server)}, {_etag(server)}")).status == 200
    assert fetch(server, DIGITS, ("If-Unmodified-Since", DATE)).status == 200
    assert fetch(server, DIGITS, ("If-Unmodified-Since", old)).status == 412


@pytest.mark.parametrize(
    ("name", "listed", "not_listed"), [("If-Match", 200, 412), ("If-None-Match", 304, 200)]
)
def test_tags_in_several_lines(server: Server, name: str, listed: int, not_listed: int) -> None:
    """Several lines of a list field are one list, also with other fields between them (RFC 9110,
    section 5.3)."""
    tags = [(name, tag) for tag in ('"a"', '"b", "c"', _etag(server))]
    for order in itertools.permutations(tags):
        first, second, third = order
        assert fetch(server, DIGITS, first, ("X-Other", "1"), second, third).status == listed
    assert fetch(server, DIGITS, *tags[:2]).status == not_listed


def test_what_is_no_list(server: Server) -> None:
    """A field that is no list is ignored if it comes twice: RFC 9110, sections 5.3, 13.1.3 and
    13.1.4."""
    old, both = formatdate(MODIFIED - 1, usegmt=True), 2
    range_, etag = ("Range", "bytes=0-2"), ("If-Range", _etag(server))
    assert fetch(server, DIGITS, *[("If-Modified-Since", DATE)] * both).status == 200
    assert fetch(server, DIGITS, *[("If-Unmodified-Since", old)] * both).status == 200
    assert fetch(server, DIGITS, *[range_] * both).status == 200
    assert fetch(server, DIGITS, range_, etag).status == 206
    assert fetch(server, DIGITS, range_, *[etag] * both).status == 200
    types = [("Content-Type", "application/x-www-form-urlencoded")] * both
    assert send(server, request("POST", "/guestbook", tuple(types), b"x=1")).status == 415
