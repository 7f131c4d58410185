# SPDX-License-Identifier: MIT
"""Byte ranges: RFC 9110, sections 13.1.5 and 14."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from ..client import Client, fetch, request
from ..harness import Server
from ..site import HUGE_MARK, HUGE_SIZE, MODIFIED, big_pattern, eighty_kilobytes

pytestmark = pytest.mark.shared_code

DIGITS = "/t/digits.txt"
DATE = formatdate(MODIFIED, usegmt=True)
FIRST_THREE = ("Range", "bytes=0-2")


PARTIAL = [
    ("bytes=0-4", 0, 4),
    ("bytes=3-3", 3, 3),
    ("bytes=9-9", 9, 9),
    ("bytes=5-", 5, 9),
    ("bytes=0-", 0, 9),
    ("bytes=-1", 9, 9),
    ("bytes=-4", 6, 9),
    ("bytes=-10", 0, 9),
    ("bytes=-11", 0, 9),
    ("bytes=-99999999999999999999", 0, 9),
    ("bytes=7-10", 7, 9),
    ("bytes=7-99999999999999999999", 7, 9),
    ("bytes=007-008", 7, 8),
    ("Bytes=1-2", 1, 2),
]


@pytest.mark.parametrize(("value", "first", "last"), PARTIAL)
def test_partial(server: Server, value: str, first: int, last: int) -> None:
    """A single range is answered with 206 and only those bytes."""
    response = fetch(server, DIGITS, ("Range", value))
    assert response.status == 206
    assert response.field("Content-Range") == f"bytes {first}-{last}/10"
    assert response.body == b"0123456789"[first : last + 1]
    assert response.field("ETag") == fetch(server, DIGITS).field("ETag")


UNSATISFIABLE = ["bytes=10-", "bytes=10-10", "bytes=99-100", "bytes=-0"]


@pytest.mark.parametrize("value", UNSATISFIABLE)
def test_not_satisfiable(server: Server, value: str) -> None:
    """A range that begins after the end of the file is 416, with the file's size."""
    response = fetch(server, DIGITS, ("Range", value))
    assert response.status == 416
    assert response.field("Content-Range") == "bytes */10"


IGNORED = [
    "bytes=0-1,3-4",
    "bytes=0-1, -1",
    "bytes=",
    "bytes=-",
    "bytes=abc",
    "bytes=5-2",
    "bytes=1-2x",
    "bytes=x1-2",
    "bytes=+1-2",
    "bytes=1--2",
    "bytes 0-4",
    "bytes",
    "items=0-4",
    "0-4",
    "",
]


@pytest.mark.parametrize("value", IGNORED)
def test_ignored(server: Server, value: str) -> None:
    """Several ranges or an invalid one are ignored: the response is the whole file."""
    response = fetch(server, DIGITS, ("Range", value))
    assert response.status == 200
    assert response.body == b"0123456789"
    assert response.field("Content-Range") is None


def test_range_without_end_of_number(server: Server) -> None:
    """A first position larger than any integer is 416 or ignored; it never overflows."""
    response = fetch(server, DIGITS, ("Range", "bytes=18446744073709551616-"))
    assert response.status in (200, 416)
    assert response.status == 416 or response.body == b"0123456789"


def test_empty_file(server: Server) -> None:
    """An empty file has no first byte; its last N bytes are the whole file."""
    assert fetch(server, "/t/empty.txt", ("Range", "bytes=0-")).status in (200, 416)
    last = fetch(server, "/t/empty.txt", ("Range", "bytes=-5"))
    assert (last.status, last.field("Content-Length")) == (200, "0")
    assert last.field("Content-Range") is None


def test_head_ignores_range(server: Server) -> None:
    """Ranges are ignored for HEAD, because they are defined for GET only (RFC 9110, section
    14.2)."""
    with Client(server) as client:
        response = client.exchange(request("HEAD", DIGITS, (FIRST_THREE,)), "HEAD")
    assert (response.status, response.field("Content-Length")) == (200, "10")


def test_if_range(server: Server) -> None:
    """The range counts only if If-Range matches; otherwise the whole file is sent."""
    etag = fetch(server, DIGITS).field("ETag") or ""
    cases = {
        etag: 206,
        DATE: 200,  # another version may have the same second
        '"other"': 200,
        f"W/{etag}": 200,
        formatdate(MODIFIED - 1, usegmt=True): 200,
        formatdate(MODIFIED + 1, usegmt=True): 200,
        "nonsense": 200,
    }
    for value, status in cases.items():
        response = fetch(server, DIGITS, FIRST_THREE, ("If-Range", value))
        assert response.status == status, value
        assert response.body == (b"012" if status == 206 else b"0123456789")


def test_if_range_without_range(server: Server) -> None:
    """If-Range without Range is ignored."""
    assert fetch(server, DIGITS, ("If-Range", '"other"')).status == 200


def test_not_modified_before_range(server: Server) -> None:
    """304 has precedence over 206 and 416 (RFC 9110, section 13.2.2)."""
    etag = fetch(server, DIGITS).field("ETag") or ""
    assert fetch(server, DIGITS, FIRST_THREE, ("If-None-Match", etag)).status == 304
    assert fetch(server, DIGITS, FIRST_THREE, ("If-Modified-Since", DATE)).status == 304
    behind = ("Range", "bytes=50-")
    assert fetch(server, DIGITS, behind, ("If-None-Match", etag)).status == 304


def test_range_of_other_resources(server: Server) -> None:
    """Range is ignored for errors, redirects and generated pages."""
    assert fetch(server, "/t/none", FIRST_THREE).status == 404
    assert fetch(server, "/t/sub", FIRST_THREE).status == 301
    assert fetch(server, "/guestbook", FIRST_THREE).status in (200, 206)


def test_ranges_of_a_large_file(server: Server) -> None:
    """Ranges inside a file sent with sendfile, one after another, are correct."""
    with_80k = eighty_kilobytes()
    for first, last in ((0, 0), (1, 40000), (65535, 65537), (79999, 79999), (16383, 79999)):
        response = fetch(server, "/t/80k.bin", ("Range", f"bytes={first}-{last}"))
        assert response.body == with_80k[first : last + 1]
    middle = 60 * (1 << 20) - 100
    response = fetch(server, "/t/big.bin", ("Range", f"bytes={middle}-{middle + 299999}"))
    assert response.body == big_pattern(middle, 300000)


def test_range_beyond_four_gigabytes(server: Server) -> None:
    """Positions may be larger than 32 bits."""
    with Client(server) as client:
        client.send(request("HEAD", "/t/huge.bin"))
        assert client.read("HEAD").field("Content-Length") == str(HUGE_SIZE)
    size = len(HUGE_MARK)
    for value in (f"bytes=-{size}", f"bytes={HUGE_SIZE - size}-"):
        response = fetch(server, "/t/huge.bin", ("Range", value))
        assert response.status == 206
        assert response.body == HUGE_MARK
        last = HUGE_SIZE - 1
        expected = f"bytes {HUGE_SIZE - size}-{last}/{HUGE_SIZE}"
        assert response.field("Content-Range") == expected
