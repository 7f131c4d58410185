# SPDX-License-Identifier: MIT
"""The guestbook page: remarks, count, data of other programs, the template."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..client import fetch, request, send, sign
from ..conftest import Start
from ..harness import Server
from ..markup import part, remarks, remarks_html
from ..redisbox import PrivateRedis, RedisClient
from ..site import TEMPLATE
from ..timing import wait_until

pytestmark = pytest.mark.shared_code

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</p></li></ul><h1>out</h1>",
    "</textarea><script>alert(1)</script>",
    "&lt;b&gt; &amp;amp; &#60; &copy",
    "<!-- --> ]]> <?php ?>",
    "javascript:alert(1)",
    "$VISITOR_COUNT$",
    "$GUEST_REMARKS$ $GUEST_NAME$",
    "%s %n %% \\n \\0",
    "a\tb  c",
    "ünïcödé 日本語 🐧 \u200eשלום\u200f",
    "*1\r\n$8\r\nFLUSHALL\r\n",
]


def test_empty(server: Server, store: RedisClient) -> None:
    page = fetch(server, "/guestbook")
    assert page.status == 200
    assert page.field("Content-Type") == "text/html; charset=utf-8"
    nothing = '<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>'
    assert nothing in page.text
    assert part(page.text, "count") == "1"
    assert store.number("visitor_count") == 1


def test_exact_page(server: Server, store: RedisClient) -> None:
    """The page is the template with its placeholders filled in, and nothing else changed."""
    store.do("RPUSH", "guestbook_remarks", "first - A", "second - B")
    filled = {
        "$GUEST_REMARKS$": '<li class="remark"><p>second - B</p></li>'
        '<li class="remark"><p>first - A</p></li>',
        "$VISITOR_COUNT$": "1",
        "$REMARKS_COUNT$": "2",
        "$GUEST_NAME$": "",
        "$GUEST_NAME_ERROR$": "",
        "$GUEST_REMARKS_TYPED$": "",
        "$GUEST_REMARKS_ERROR$": "",
    }
    expected = TEMPLATE
    for name, value in filled.items():
        expected = expected.replace(name, value)
    got = fetch(server, "/guestbook").text
    assert got.replace("</li>\n", "</li>") == expected.replace("</li>\n", "</li>")


@pytest.mark.parametrize("text", NASTY)
def test_remark_is_only_text(server: Server, store: RedisClient, text: str) -> None:
    """Each remark appears to a reader exactly as it was written."""
    assert sign(server, text, text).status == 303
    stored = store.remarks()
    page = fetch(server, "/guestbook").text
    assert [s.decode() for s in stored] == remarks(page)
    shown = remarks(page)[0].replace("\r\n", "\n")
    assert shown == f"{text.strip()} - {text.strip()}".replace("\r\n", "\n")
    source = remarks_html(page)[0]
    assert not set(source) & set("<>\"'"), source
    assert page.count("<li") == 1
    assert part(page, "count") == "1"


def test_newest_first_and_only_fifty(server: Server, store: RedisClient) -> None:
    """The latest fifty are shown, the newest on top."""
    for number in range(60):
        store.do("RPUSH", "guestbook_remarks", f"remark {number} - Ann")
    expected = [f"remark {number} - Ann" for number in range(59, 9, -1)]
    assert remarks(fetch(server, "/guestbook").text) == expected
    sign(server, "Bob", "the newest")
    expected = ["the newest - Bob", *expected[:-1]]
    assert remarks(fetch(server, "/guestbook").text) == expected


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("0", "1"),
        ("98", "99"),
        ("998", "999"),
        ("999", "1,000"),
        ("12344", "12,345"),
        ("999999", "1,000,000"),
        ("1234566", "1,234,567"),
        ("9223372036854775806", "9,223,372,036,854,775,807"),
        ("-9223372036854775808", "-9,223,372,036,854,775,807"),
        ("-1001", "-1,000"),
        ("-2", "-1"),
    ],
)
def test_count(server: Server, store: RedisClient, before: str, shown: str) -> None:
    """The count increases by one with each visit and has thousands separators."""
    store.do("SET", "visitor_count", before)
    assert part(fetch(server, "/guestbook").text, "count") == shown


def test_each_visitor_has_his_own_number(server: Server, store: RedisClient) -> None:
    """Simultaneous visitors get different numbers, and no number is left out."""
    target = request("GET", "/guestbook", (("Connection", "close"),))

    def visit(_number: int) -> int:
        return int(part(send(server, target).text, "count").replace(",", ""))

    with ThreadPoolExecutor(32) as pool:
        shown = list(pool.map(visit, range(960)))
    assert sorted(shown) == list(range(1, 961))
    assert store.number("visitor_count") == 960


def test_number_of_remarks(server: Server, store: RedisClient) -> None:
    """The page shows how many remarks there are, including those that it does not show."""
    assert part(fetch(server, "/guestbook").text, "written") == "0"
    store.do("RPUSH", "guestbook_remarks", *(f"remark {n} - Ann" for n in range(1234)))
    assert part(fetch(server, "/guestbook").text, "written") == "1,234"
    assert part(sign(server, "", "x").text, "written") == "1,234"


def test_who_counts(server: Server, store: RedisClient) -> None:
    """GET, HEAD and a refused form count as visits; a remark and other pages do not."""
    fetch(server, "/guestbook")
    fetch(server, "/guestbook", method="HEAD")
    assert sign(server, "", "").status == 400
    assert store.number("visitor_count") == 3
    assert sign(server, "Ann", "hello").status == 303
    for target in ("/", "/t/digits.txt", "/sorted", "/t/plain", "/go/x", "/t/none"):
        fetch(server, target)
    assert store.number("visitor_count") == 3


def test_query_is_no_other_page(server: Server, store: RedisClient) -> None:
    """A query after /guestbook, or an escaped letter in it, does not change the page."""
    for target in ("/guestbook?", "/guestbook?x=1", "/%67uestbook", "/x/../guestbook"):
        assert 'id="count"' in fetch(server, target).text, target
    assert store.number("visitor_count") == 4
    for target in ("/guestbook/", "/guestbook/x", "/guestbookx", "/Guestbook"):
        assert fetch(server, target).status == 404, target


LEGACY = [
    b"plain - Someone",
    b"no separator at all",
    b"",
    b" - ",
    b"invalid \xff\xfe\x80 bytes - X",
    b"cut off \xe6\x97",
    b"overlong \xc0\xbc script \xe0\x80\xbc - X",
    b"surrogate \xed\xa0\x80 - X",
    b"latin \xe9t\xe9 - Ren\xe9",
    b"nul \0 byte - X",
    b"control \x01\x1b[31m - X",
    b"two\r\nlines - X",
    b"$VISITOR_COUNT$ $GUEST_REMARKS$ - $GUEST_NAME$",
    b"<b>bold</b> & - <i>x</i>",
    "C1 \u0080\u0085\u009b31m\u009f - X".encode(),
    "turned \u202aa\u202bb\u202cc\u202dd\u202ee - \u2066f\u2067g\u2068h\u2069i".encode(),
]


def test_data_of_other_programs(server: Server, store: RedisClient) -> None:
    """Data of other programs is shown, escaped, whatever its bytes; the other remarks are
    unchanged."""
    for item in LEGACY:
        store.do("RPUSH", "guestbook_remarks", "before", item, "after")
    page = fetch(server, "/guestbook")
    assert page.status == 200
    text = page.body.decode("utf-8")  # the page says it is UTF-8, so it must be
    shown = remarks(text)[::-1]
    assert shown[0::3] == ["before"] * len(LEGACY)
    assert shown[2::3] == ["after"] * len(LEGACY)
    assert shown[1] == "plain - Someone"
    assert re.fullmatch("invalid .* bytes - X", shown[13])
    assert shown[37] == "$VISITOR_COUNT$ $GUEST_REMARKS$ - $GUEST_NAME$"
    assert shown[40] == "<b>bold</b> & - <i>x</i>"
    assert shown[43] == "C1 \ufffd\ufffd\ufffd31m\ufffd - X"
    turned = re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", LEGACY[15].decode())
    assert shown[46] == turned
    assert not any(byte in page.body for byte in (b"\0", b"\x01", b"\x1b"))
    assert not re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_long_data_of_other_programs(server: Server, store: RedisClient) -> None:
    """Fifty remarks longer than the form allows are shown, too."""
    for number in range(50):
        store.do("RPUSH", "guestbook_remarks", f"{number} " + "x" * 8000)
    shown = remarks(fetch(server, "/guestbook").text)
    assert [len(r) for r in shown] == [8000 + len(f"{n} ") for n in range(49, -1, -1)]


def test_keys_of_a_wrong_type(server: Server, store: RedisClient) -> None:
    """A key of a wrong type is an error of that page only, while it lasts."""
    store.do("SET", "guestbook_remarks", "a string")
    assert fetch(server, "/guestbook").status == 502
    assert sign(server, "Ann", "lost").status == 502
    store.do("DEL", "guestbook_remarks")
    assert fetch(server, "/guestbook").status == 200
    store.do("SET", "visitor_count", "many")
    assert fetch(server, "/guestbook").status == 502
    store.do("DEL", "visitor_count")
    assert fetch(server, "/guestbook").status == 200


def test_three_commands(server: Server, store: RedisClient, redis: PrivateRedis) -> None:
    """A visit is three commands, a remark one, and all else but /go/ none."""
    wanted = {"lrange": 1, "incr": 1, "llen": 1}
    for make, expected in (
        (lambda: fetch(server, "/guestbook"), wanted),
        (lambda: sign(server, "", "x"), wanted),
        (lambda: sign(server, "Ann", "x"), {"rpush": 1}),
        (lambda: fetch(server, "/go/name"), {"get": 1}),
        (lambda: fetch(server, "/sorted"), {}),
        (lambda: fetch(server, "/t/digits.txt"), {}),
        (lambda: fetch(server, "/t/plain"), {}),
    ):
        store.do("CONFIG", "RESETSTAT")
        make()
        assert store.commands() == expected


def _own_root(site: Path, folder: Path, template: str) -> Path:
    """Return a root with another template."""
    shutil.copytree(site / "public" / "t" / "sub", folder / "public")
    path = folder / "templates" / "guestbook" / "index.html"
    path.parent.mkdir(parents=True)
    path.write_text(template, encoding="utf-8")
    (folder / "redirects").write_text("# none\n", encoding="utf-8")
    return path


def test_template_of_the_original(start: Start, site: Path, tmp_path: Path) -> None:
    """A template with only the remarks and the count works."""
    _own_root(site, tmp_path, "<ul>$GUEST_REMARKS$</ul><b>$VISITOR_COUNT$</b>")
    server = start(root=tmp_path)
    assert fetch(server, "/guestbook").text.endswith("</ul><b>1</b>")
    assert sign(server, "", "").status == 400


def test_template_changes(start: Start, site: Path, tmp_path: Path) -> None:
    """A changed template is read again; while it is missing, only this page fails."""
    path = _own_root(site, tmp_path, "first $VISITOR_COUNT$")
    server = start(root=tmp_path)
    for _ in range(5):
        assert fetch(server, "/guestbook").text.startswith("first ")
    new = path.with_suffix(".new")
    new.write_text("a second one: $VISITOR_COUNT$", encoding="utf-8")
    new.rename(path)
    for _ in range(10):
        assert fetch(server, "/guestbook").text.startswith("a second one: ")
    path.write_text("third one, in place $VISITOR_COUNT$ ", encoding="utf-8")
    wait_until(lambda: fetch(server, "/guestbook").text.startswith("third"), "the third")
    path.unlink()
    assert fetch(server, "/guestbook").status in (200, 500, 503)
    assert fetch(server, "/page.html").status == 200
    path.write_text("fourth $VISITOR_COUNT$", encoding="utf-8")
    wait_until(lambda: fetch(server, "/guestbook").text.startswith("fourth"), "the fourth")
