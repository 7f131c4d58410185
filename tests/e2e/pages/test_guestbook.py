# SPDX-License-Identifier: MIT
"""The guestbook: remarks, count, data of other programs, the template, and the form."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..client import FORM, request
from ..harness import Server, Start
from ..http.cases import unescaped
from ..markup import part, remarks, remarks_html, typed
from ..redisbox import PrivateRedis, RedisClient
from ..site import DATA
from ..timing import wait_until

pytestmark = pytest.mark.shared_code

NASTY = DATA["nasty"]


EXACT = {
    (): '<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>',
    ("first - A", "second - B"): '<li class="remark"><p>second - B</p></li>'
    '<li class="remark"><p>first - A</p></li>',
}


@pytest.mark.parametrize("stored", EXACT)
def test_exact_page(server: Server, store: RedisClient, stored: tuple[str, ...]) -> None:
    for remark in stored:
        store.do("RPUSH", "guestbook_remarks", remark)
    filled = {
        "$GUEST_REMARKS$": EXACT[stored],
        "$VISITOR_COUNT$": "1",
        "$REMARKS_COUNT$": str(len(stored)),
        "$GUEST_NAME$": "",
        "$GUEST_NAME_ERROR$": "",
        "$GUEST_REMARKS_TYPED$": "",
        "$GUEST_REMARKS_ERROR$": "",
    }
    expected = DATA["template"]
    for name, value in filled.items():
        expected = expected.replace(name, value)
    got = server.get("/guestbook").text
    assert got.replace("</li>\n", "</li>") == expected.replace("</li>\n", "</li>")


@pytest.mark.parametrize("text", NASTY)
def test_remark_is_only_text(server: Server, store: RedisClient, text: str) -> None:
    """A text appears to a reader exactly as it was written, as a remark and in a form that was
    rejected because the other field is empty."""
    once = text.strip().replace("\r\n", "\n")
    for field, response in enumerate((server.sign(text, ""), server.sign("", text))):
        assert response.status == 400
        assert typed(response.text)[field].strip().replace("\r\n", "\n") == once
        assert "<script" not in response.text
    assert store.remarks() == []
    assert server.sign(text, text).status == 303
    stored = store.remarks()
    page = server.get("/guestbook").text
    assert [s.decode() for s in stored] == remarks(page)
    assert remarks(page)[0].replace("\r\n", "\n") == f"{once} - {once}"
    source = remarks_html(page)[0]
    assert not set(source) & set("<>\"'"), source
    assert page.count("<li") == 1
    assert part(page, "count") == "3"  # two forms and the page


def test_newest_first_and_only_fifty(server: Server, store: RedisClient) -> None:
    """The page shows the latest fifty remarks, the newest first, and the number of all remarks."""
    store.do("RPUSH", "guestbook_remarks", *(f"remark {n} - Ann" for n in range(1234)))
    expected = [f"remark {number} - Ann" for number in range(1233, 1183, -1)]
    for page in (server.get("/guestbook").text, server.sign("", "x").text):
        assert remarks(page) == expected
        assert part(page, "written") == "1,234"
    server.sign("Bob", "the newest")
    expected = ["the newest - Bob", *expected[:-1]]
    assert remarks(server.get("/guestbook").text) == expected


@pytest.mark.parametrize(("before", "shown"), DATA["counts"].items())
def test_count(server: Server, store: RedisClient, before: str, shown: str) -> None:
    """The count increases by one with each visit and has thousands separators."""
    store.do("SET", "visitor_count", before)
    assert part(server.get("/guestbook").text, "count") == shown


def test_each_visitor_has_a_number_of_its_own(server: Server, store: RedisClient) -> None:
    """Simultaneous visitors get different numbers, and no number is left out."""
    target = request("GET", "/guestbook", (("Connection", "close"),))

    def visit(_number: int) -> int:
        return int(part(server.send(target).text, "count").replace(",", ""))

    with ThreadPoolExecutor(32) as pool:
        shown = list(pool.map(visit, range(960)))
    assert sorted(shown) == list(range(1, 961))
    assert store.number("visitor_count") == 960


LEGACY = {unescaped(item): shown for item, shown in DATA["legacy"].items()}


def test_data_of_other_programs(server: Server, store: RedisClient) -> None:
    """Remarks from other programs are shown, escaped, and do not change other remarks."""
    for item in LEGACY:
        store.do("RPUSH", "guestbook_remarks", "before", item, "after")
    shown = remarks(server.get("/guestbook").text)[::-1]
    assert shown[0::3] == ["before"] * len(LEGACY)
    assert shown[1::3] == list(LEGACY.values())
    assert shown[2::3] == ["after"] * len(LEGACY)


WITHOUT_REDIS = ("/", "/t/digits.txt", "/sorted", "/t/plain", "/t/none")


def test_three_commands(server: Server, store: RedisClient, redis: PrivateRedis) -> None:
    """A visit sends three commands to Redis, also with HEAD or a rejected form. A remark and a
    short link send one command each, other requests none."""
    wanted = {"lrange": 1, "incr": 1, "llen": 1}
    for make, expected in (
        (lambda: server.get("/guestbook"), wanted),
        (lambda: server.get("/guestbook", method="HEAD"), wanted),
        (lambda: server.sign("", "x"), wanted),
        (lambda: server.sign("Ann", "x"), {"rpush": 1}),
        (lambda: server.get("/go/name"), {"get": 1}),
        *((lambda t=target: server.get(t), {}) for target in WITHOUT_REDIS),
    ):
        store.do("CONFIG", "RESETSTAT")
        make()
        assert store.commands() == expected


def test_template_changes(start: Start, site: Path, tmp_path: Path) -> None:
    """A template with only the remarks and the count works, as in the original ZeroHTTPd. The
    server reads a changed template again. Without a template only this page fails."""
    shutil.copytree(site / "public" / "t" / "sub", tmp_path / "public")
    path = tmp_path / "templates" / "guestbook" / "index.html"
    path.parent.mkdir(parents=True)
    path.write_text("<ul>$GUEST_REMARKS$</ul><b>$VISITOR_COUNT$</b>", encoding="utf-8")
    server = start(root=tmp_path)
    for number in range(1, 6):
        assert server.get("/guestbook").text.endswith(f"</ul><b>{number}</b>")
    assert server.sign("", "").status == 400
    new = path.with_suffix(".new")
    new.write_text("a second one: $VISITOR_COUNT$", encoding="utf-8")
    new.rename(path)
    for _ in range(10):
        assert server.get("/guestbook").text.startswith("a second one: ")
    path.write_text("third one, in place $VISITOR_COUNT$ ", encoding="utf-8")
    wait_until(lambda: server.get("/guestbook").text.startswith("third"), "the third")
    path.unlink()
    assert server.get("/guestbook").status in (200, 500, 503)
    assert server.get("/page.html").status == 200
    path.write_text("fourth $VISITOR_COUNT$", encoding="utf-8")
    wait_until(lambda: server.get("/guestbook").text.startswith("fourth"), "the fourth")


# ---- The form: valid data, and messages for invalid data ----


def _errors(page: str) -> list[str]:
    """Return the fields that have an error message."""
    return [field for field in ("name", "remarks") if part(page, f"{field}-error").strip()]


@pytest.mark.parametrize("body", DATA["incomplete"])
def test_missing_or_empty(server: Server, store: RedisClient, body: str) -> None:
    """A form without a name or text gets 400, with the typed text and a message at the invalid
    field."""
    expected = DATA["incomplete"][body]
    response = server.send(request("POST", "/guestbook", (FORM,), body.encode()))
    assert response.status == 400
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    name, text = typed(response.text)
    assert name == expected.get("name", name)
    assert text == expected.get("remarks", text)
    assert _errors(response.text) == expected["wrong"]
    assert store.remarks() == []


@pytest.mark.parametrize("letter", ["a", "ä", "日", "🐧"])
def test_limits_count_characters(server: Server, store: RedisClient, letter: str) -> None:
    assert server.sign(letter * 100, letter * 1000).status == 303
    assert store.remarks() == [f"{letter * 1000} - {letter * 100}".encode()]
    long_name = server.sign(letter * 101, "Hi")
    assert long_name.status == 400
    assert typed(long_name.text) == (letter * 101, "Hi")
    assert _errors(long_name.text) == ["name"]
    long_text = server.sign("Ann", letter * 1001)
    assert long_text.status == 400
    assert typed(long_text.text) == ("Ann", letter * 1001)
    assert _errors(long_text.text) == ["remarks"]
    assert len(store.remarks()) == 1
