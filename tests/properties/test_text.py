# SPDX-License-Identifier: MIT
"""Our parsers and Python's modules interpret forms, paths, HTML, dates and ETags in the same
way."""

import html
import posixpath
import re
from datetime import datetime, timezone
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import parse_qsl, quote_from_bytes, unquote_to_bytes
from urllib.request import parse_http_list

from hypothesis import example, given
from hypothesis import strategies as st

from .conftest import Parsers

# ---- Forms: urllib.parse ----

encoded = st.text("abc%&=+;012fF \t\x00é", max_size=40).map(lambda text: text.encode("latin-1"))
names = st.sampled_from([b"a", b"b", b"a b", b"", b"%", b"a=b", b"\xe9"])


@given(encoded, names)
@example(b"a=1&a=2", b"a")
@example(b"a&b=2", b"a")
@example(b"=x", b"")
@example(b"&", b"")
@example(b"&=0", b"")
def test_form(parsers: Parsers, body: bytes, name: bytes) -> None:
    """The first field with a name has the same value for our parser and urllib."""
    pairs = parse_qsl(
        body.decode("latin-1"), keep_blank_values=True, encoding="latin-1", separator="&"
    )
    values = [v.encode("latin-1") for k, v in pairs if k.encode("latin-1") == name]
    got = parsers.call("form", name + b"\n" + body)
    assert got["found"] == bool(values)
    if values:
        assert bytes.fromhex(got["value"]) == values[0]


# ---- Paths: urllib.parse and posixpath ----


@given(
    st.lists(st.sampled_from(["a", "b", ".", "..", "", "%2e", "%2E%2e", "%2f", "%C3%A9", "..."]))
)
def test_path(parsers: Parsers, segments: list[str]) -> None:
    """A path is normalised like in posixpath; a path that leaves the root is rejected."""
    target = "/" + "/".join(segments)
    got = parsers.call("path", target.encode())
    decoded = unquote_to_bytes(target)
    # No segment of this test has the name of this root.
    below = posixpath.normpath(b"/root/" + decoded)
    depth, climbs = 0, False
    for segment in decoded.split(b"/"):
        depth += {b"": 0, b".": 0, b"..": -1}.get(segment, 1)
        climbs = climbs or depth < 0
    if climbs:
        assert got == -400
        return
    text = bytes.fromhex(got)
    assert b"/root" + text.rstrip(b"/") == below
    assert text.endswith(b"/") == bool(re.search(rb"(^|/)(\.{1,2})?$", decoded))


@given(st.binary(max_size=30))
def test_escaped_path(parsers: Parsers, name: bytes) -> None:
    """A client can request a file name of any bytes except NUL, and except dot segments."""
    got = parsers.call("path", b"/" + quote_from_bytes(name, safe="").encode())
    if b"\0" in name:
        assert got == -400
    elif b"/" not in name and name not in (b"", b".", b".."):
        assert bytes.fromhex(got) == b"/" + name


# ---- HTML: the html module ----

NONCHARACTERS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
UNWANTED = (
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef{NONCHARACTERS}]"
)


@given(st.text(max_size=40))
@example("a\x85b\u202ec\u2067d\u200fe\uffff")
def test_html(parsers: Parsers, text: str) -> None:
    """The page shows the text, with U+FFFD instead of UNWANTED characters and of surrogates."""
    shown = parsers.text("html", text.encode("utf-8", "surrogatepass")).decode("utf-8")
    assert not set(shown) & set("<>\"'")
    expected = re.sub(UNWANTED, "\ufffd", text)
    # A surrogate is not a character: its three bytes are not UTF-8.
    assert html.unescape(shown) == re.sub("[\ud800-\udfff]", "\ufffd" * 3, expected)


@given(st.binary(max_size=40))
def test_html_of_any_bytes(parsers: Parsers, data: bytes) -> None:
    """Invalid bytes and unwanted characters become U+FFFD; all other characters are unchanged."""
    shown = html.unescape(parsers.text("html", data).decode("utf-8"))
    assert not re.search(UNWANTED, shown)
    good = data.decode("utf-8", "ignore")
    kept = re.sub(UNWANTED + "|\ufffd", "", good)
    assert shown.replace("\ufffd", "") == kept


# ---- Dates: email.utils ----

moments = st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=timezone.utc)
)


@given(moments)
def test_date_of_three_forms(parsers: Parsers, moment: datetime) -> None:
    """Our parser reads all three formats of dates and writes the first: RFC 9110, section 5.6.7."""
    seconds = int(moment.timestamp())
    text = format_datetime(moment, usegmt=True)
    assert parsers.call("date", text.encode()) == seconds
    assert parsers.call("date", moment.strftime("%a %b %e %H:%M:%S %Y").encode()) == seconds
    if 1969 <= moment.year < 2069:  # this format has two digits for the year
        old = moment.strftime("%A, %d-%b-%y %H:%M:%S GMT")
        assert parsers.call("date", old.encode()) == seconds
    if seconds >= 0:
        assert parsers.text("format_date", b"%d" % seconds) == text.encode()


@given(moments, st.data())
def test_spoiled_date(parsers: Parsers, moment: datetime, data: st.DataObject) -> None:
    """A string that our parser accepts as a date is the same date for email.utils."""
    text = format_datetime(moment, usegmt=True)
    at = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.sampled_from(["", " ", "0", "9", "J", "\t", "+0100", "60"]))
    text = text[:at] + put + text[at + data.draw(st.integers(0, 2)) :]
    got = parsers.call("date", text.encode())
    if got is not None:
        theirs = parsedate_to_datetime(text)
        assert got == int(theirs.replace(tzinfo=timezone.utc).timestamp())


# ---- Entity tags: urllib.request ----

opaque = st.text("ab,* \\;/W", max_size=4).map(lambda text: '"' + text.replace("\\", "") + '"')
tags = st.tuples(st.sampled_from(["", "W/"]), opaque).map("".join)
ours = st.text("ab", min_size=1, max_size=2).map(lambda text: f'"{text}"')
commas = st.sampled_from([",", ", ", " ,\t", ",,", ", ,"])


@given(st.lists(tags, max_size=5), st.lists(commas, min_size=5, max_size=5), ours)
def test_entity_tags(parsers: Parsers, listed: list[str], between: list[str], etag: str) -> None:
    """A tag matches a list that contains the tag: RFC 9110, section 8.8.3.2."""
    value = "".join(tag + comma for tag, comma in zip(listed, between, strict=False))
    elements = parse_http_list(value)
    assert [e for e in elements if e] == listed  # urllib finds the tags of the list
    got = parsers.call("etags", f"{etag}\n{value}".encode())
    assert got == {
        "weakly": etag in [e.removeprefix("W/") for e in listed],
        "strongly": etag in listed,
    }
