# SPDX-License-Identifier: MIT
"""The form of the guestbook: what is accepted, and which message comes back."""

from __future__ import annotations

import pytest

from ..client import FORM, Response, form, request, send, sign
from ..harness import Server
from ..markup import part, remarks, typed
from ..redisbox import RedisClient
from .test_guestbook import NASTY

pytestmark = pytest.mark.shared_code


def _post(server: Server, body: bytes, content_type: str = FORM[1]) -> Response:
    return send(server, request("POST", "/guestbook", (("Content-Type", content_type),), body))


def _errors(page: str) -> tuple[bool, bool]:
    """Return whether there is a message at the name and at the remarks."""
    return bool(part(page, "name-error").strip()), bool(part(page, "remarks-error").strip())


def test_accepted(server: Server, store: RedisClient) -> None:
    """A remark is stored and answered with a redirect to the page (POST, redirect, GET)."""
    response = sign(server, "Ann", "What a nice page")
    assert response.status == 303
    assert response.field("Location") == "/guestbook"
    assert store.remarks() == [b"What a nice page - Ann"]


FORMS = [
    (b"guest-name=Ann&guest-remarks=Hi", "Hi - Ann"),
    (b"guest-remarks=Hi&guest-name=Ann", "Hi - Ann"),
    (b"a=b&guest-name=Ann&guest-remarks=Hi&c=&d", "Hi - Ann"),
    (b"&&guest-name=Ann&&guest-remarks=Hi&", "Hi - Ann"),
    (b"guest-name=A+B+C&guest-remarks=1+%2B+1+%3D+2%26", "1 + 1 = 2& - A B C"),
    (b"guest%2Dname=Ann&guest%2dremarks=Hi", "Hi - Ann"),
    (b"guest-name=Ann&guest-remarks=a=b=c", "a=b=c - Ann"),
    (b"guest-name=%C3%84nne&guest-remarks=%E2%82%AC+%f0%9f%90%a7", "€ 🐧 - Änne"),
    (b"guest-name=\xc3\x84nne&guest-remarks=raw", "raw - Änne"),
    (b"guest-name=++Ann+&guest-remarks=%0D%0A+Hi%09%0A", "Hi - Ann"),
    (b"guest-name=Ann&guest-remarks=a+-+b+-+c", "a - b - c - Ann"),
    (b"guest-name=Ann&guest-remarks=1%0D%0A2%0D3%0A4", "1\n2\r3\n4 - Ann"),
]


@pytest.mark.parametrize(("body", "stored"), FORMS)
def test_forms(server: Server, store: RedisClient, body: bytes, stored: str) -> None:
    """Fields may be in any order and with others; values are decoded and trimmed."""
    assert _post(server, body).status == 303
    assert [item.decode() for item in store.remarks()] == [stored]


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded;charset=UTF-8",
        "application/x-www-form-urlencoded ; charset=utf-8",
        "Application/X-WWW-Form-URLencoded",
    ],
)
def test_content_type(server: Server, store: RedisClient, kind: str) -> None:
    """The type may have parameters and is not case-sensitive (RFC 9110, section 8.3.1)."""
    assert _post(server, form(guest_name="Ann", guest_remarks="Hi"), kind).status == 303
    assert len(store.remarks()) == 1


OTHER_TYPES = [
    "text/plain",
    "application/json",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencodedx",
    "x-application/x-www-form-urlencoded",
    "",
]


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_other_types(server: Server, store: RedisClient, kind: str) -> None:
    """Any other type is 415."""
    assert _post(server, form(guest_name="Ann", guest_remarks="Hi"), kind).status == 415
    assert store.remarks() == []


def test_no_type(server: Server, store: RedisClient) -> None:
    """A body without a type is accepted as a form or refused, and nothing else."""
    body = form(guest_name="Ann", guest_remarks="Hi")
    status = send(server, request("POST", "/guestbook", (), body)).status
    assert (status, store.remarks()) in [(303, [b"Hi - Ann"]), (415, [])]


INCOMPLETE = [
    (b"", "", "", (True, True)),
    (b"guest-name=Ann", "Ann", "", (False, True)),
    (b"guest-remarks=Hi", "", "Hi", (True, False)),
    (b"guest-name=&guest-remarks=Hi", "", "Hi", (True, False)),
    (b"guest-name=Ann&guest-remarks=", "Ann", "", (False, True)),
    (b"guest-name&guest-remarks=Hi", "", "Hi", (True, False)),
    (b"guest-name=x%26y&guest-remarks=+%0d%0a%09+", "x&y", None, (False, True)),
    (b"guest-name=+++&guest-remarks=Hi", None, "Hi", (True, False)),
    (b"Guest-Name=Ann&guest-remarks=Hi", "", "Hi", (True, False)),
    (b"name=Ann&remarks=Hi", "", "", (True, True)),
]


@pytest.mark.parametrize(("body", "name", "text", "wrong"), INCOMPLETE)
def test_missing_or_empty(
    server: Server,
    store: RedisClient,
    body: bytes,
    name: str | None,
    text: str | None,
    wrong: tuple[bool, bool],
) -> None:
    """The page comes back as 400 with what was typed and a message at the wrong field."""
    response = _post(server, body)
    assert response.status == 400
    assert response.field("Content-Type") == "text/html; charset=utf-8"
    typed_name, typed_text = typed(response.text)
    assert name is None or typed_name == name
    assert text is None or typed_text == text
    assert _errors(response.text) == wrong
    assert store.remarks() == []


@pytest.mark.parametrize("letter", ["a", "ä", "日", "🐧"])
def test_limits_count_characters(server: Server, store: RedisClient, letter: str) -> None:
    """100 and 1,000 characters are accepted, one more is not, however many bytes each has."""
    assert sign(server, letter * 100, letter * 1000).status == 303
    assert store.remarks() == [f"{letter * 1000} - {letter * 100}".encode()]
    long_name = sign(server, letter * 101, "Hi")
    assert long_name.status == 400
    assert typed(long_name.text) == (letter * 101, "Hi")
    assert _errors(long_name.text) == (True, False)
    long_text = sign(server, "Ann", letter * 1001)
    assert long_text.status == 400
    assert typed(long_text.text) == ("Ann", letter * 1001)
    assert _errors(long_text.text) == (False, True)
    assert len(store.remarks()) == 1


@pytest.mark.parametrize("text", NASTY)
def test_typed_text_stays_text(server: Server, store: RedisClient, text: str) -> None:
    """What comes back in the form cannot leave its field."""
    for field, response in enumerate((sign(server, text, ""), sign(server, "", text))):
        assert response.status == 400
        shown = typed(response.text)[field].strip()
        assert shown.replace("\r\n", "\n") == text.strip().replace("\r\n", "\n")
        assert "<script" not in response.text
    assert store.remarks() == []


def test_refused_page_is_whole(server: Server, store: RedisClient) -> None:
    """The page with the message is a complete guestbook, with remarks and count."""
    store.do("RPUSH", "guestbook_remarks", "one - A", "two - B")
    store.do("SET", "visitor_count", 1233)
    page = sign(server, "", "Hi").text
    assert remarks(page) == ["two - B", "one - A"]
    assert part(page, "count") == "1,234"


ODD = [
    b"guest-name=%&guest-remarks=x",
    b"guest-name=%zz&guest-remarks=x",
    b"guest-name=Ann&guest-remarks=%2",
    b"guest-name=%ff%fe&guest-remarks=x",
    b"guest-name=Ann&guest-remarks=%c3",
    b"guest-name=Ann&guest-remarks=%ed%a0%80",
    b"guest-name=Ann&guest-remarks=a%00b",
    b"guest-name=A%0d%0aB&guest-remarks=x",
    b"=&=&guest-name=&=",
    b"&" * 60000,
    b"x=1&" * 16000,
    b"\0\xff\x01" * 1000,
]


@pytest.mark.parametrize("body", ODD)
def test_odd_forms(server: Server, store: RedisClient, body: bytes) -> None:
    """Unusual bytes are refused or accepted as text; the page stays valid and the server runs."""
    response = _post(server, body)
    assert response.status in (303, 400)
    assert len(store.remarks()) == (1 if response.status == 303 else 0)
    page = send(server, request("GET", "/guestbook"))
    assert page.status == 200
    assert len(remarks(page.body.decode("utf-8"))) == len(store.remarks())
