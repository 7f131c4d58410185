# SPDX-License-Identifier: MIT
"""Students predict results in real browsers; hostile clients and too many clients are rejected."""

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bench.live.room import (
    ACCEPT_PAUSE,
    FROM_ADDRESS_AT_ONCE,
    FROM_ADDRESS_MOST,
    PREDICTIONS_MOST,
    REQUEST_BYTES_MOST,
    Room,
    RoomPage,
    questions,
)
from bench.records.errors import UserError
from tests.bench.accessible import hindrances
from tests.e2e.timing import TIMEOUT, wait_until

from .conftest import Serve

BROWSER = "room=" + "a" * 22
LOCAL = "127.0.0.1"


@pytest.fixture
def page() -> Iterator[RoomPage]:
    """Yield the students' page, without servers under test."""
    page = RoomPage(Room(questions()), LOCAL, 0)
    yield page
    page.close()


def ask(
    page: RoomPage, method: str, path: str, body: str | None = None, cookie: str = BROWSER
) -> tuple[int, str, str]:
    """Send one request, and return the status, the Set-Cookie field, and the body."""
    client = http.client.HTTPConnection(LOCAL, page.server_port, timeout=TIMEOUT)
    with contextlib.closing(client):
        client.request(method, path, body, {"Cookie": cookie} if cookie else {})
        response = client.getresponse()
        return response.status, response.getheader("Set-Cookie", ""), response.read().decode()


def predict(page: RoomPage, choice: object, state: str = "1", cookie: str = BROWSER) -> int:
    return ask(page, "POST", "/", f"state={state}&choice={choice}", cookie)[0]


def test_one_prediction_for_each_browser_until_it_is_shown() -> None:
    room = Room(questions())
    assert room.predict("one", "10.0.0.1", "1", 0) == ""
    assert room.predict("two", "10.0.0.1", "1", 1) == ""
    assert room.predict("one", "10.0.0.1", "1", 1) == ""
    shown = room.shown()
    assert (shown["predictions"], shown["addresses"], shown["counts"]) == (2, 1, None)
    assert (shown["answer"], shown["because"], shown["measure"]) == (None, "", "")
    room.show()
    assert "Too late" in room.predict("two", "10.0.0.1", "1", 0)
    shown = room.shown()
    assert (shown["counts"], shown["answer"]) == ([0, 2, 0, 0], None)
    room.show()
    room.show()
    assert room.shown()["answer"] == questions()[0].answer
    room.ask(2)
    assert "Too late" in room.predict("two", "10.0.0.1", "1", 0)
    assert (room.shown()["predictions"], room.prediction("one")) == (0, None)


def test_predictions_are_limited() -> None:
    room = Room(questions())

    def stored(prefix: str, address: str, count: int) -> int:
        return sum(room.predict(f"{prefix}{n}", address, "1", 0) == "" for n in range(count))

    assert stored("first", "10.0.0.1", FROM_ADDRESS_MOST + 5) == FROM_ADDRESS_MOST
    for n in range(2, 12):
        stored(f"from{n}-", f"10.0.0.{n}", FROM_ADDRESS_MOST)
    assert room.shown()["predictions"] == PREDICTIONS_MOST
    assert room.predict("first0", "10.0.0.1", "1", 1) == "", "a stored prediction may be changed"


def test_a_question_without_its_answer_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "questions.toml"
    for text, trouble in (
        ('[[question]]\nname = "a"', "ask"),
        ("", "question"),
        (
            '[[question]]\nname = "a"\nask = "b"\nchoices = ["c", "d"]\nmeasure = "m"\n'
            'answer = "e"\nbecause = "f"',
            "one of the choices",
        ),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=trouble):
            questions(file)


def test_nothing_but_the_question_is_there(page: RoomPage) -> None:
    for path in ("/live", "/live/events", "/metrics", "/live.js", "/../room.py"):
        assert ask(page, "GET", path)[0] == 404, path
    for path in ("/live/silent/1", "/live/stop", "/live/room/show", "/live/room/ask/1"):
        assert ask(page, "POST", path, "")[0] == 404, path
    status, _, text = ask(page, "GET", "/")
    assert (status, page.room.state) == (200, "1")
    assert page.room.question.because not in text
    assert page.room.question.measure not in text


def test_hostile_predictions_are_neither_stored_nor_shown(page: RoomPage) -> None:
    status, cookie, _ = ask(page, "GET", "/", cookie="")
    assert status == 200
    assert "HttpOnly; SameSite=Lax" in cookie
    script = "<script>alert(1)</script>"
    for choice in (script, "", "-1", "9", "99", "1.0", "%D9%A1", "%00"):
        assert predict(page, choice) == 409
    assert predict(page, 1, state=script) == 409
    assert predict(page, 1, cookie="") == 403
    assert predict(page, 1, cookie=f"room={script}") == 403
    assert predict(page, "1" * 2000) == 413
    for length in ("-1", "1e9", "99999", "\u00b2"):
        client = http.client.HTTPConnection(LOCAL, page.server_port, timeout=TIMEOUT)
        with contextlib.closing(client):
            client.putrequest("POST", "/")
            client.putheader("Content-Length", length)
            client.endheaders()
            assert client.getresponse().status == 413
    assert page.room.shown()["predictions"] == 0
    assert "<script>alert" not in ask(page, "GET", "/", cookie=f"room={script}")[2]
    assert predict(page, 1) == 303
    assert page.room.shown()["predictions"] == 1


def test_requests_are_short_small_and_few(page: RoomPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The students' page ends slow and large requests, and limits connections per address. 1 s."""
    monkeypatch.setattr("bench.live.room.REQUEST_SECONDS", 0.3)
    with contextlib.ExitStack() as stack:

        def connected() -> socket.socket:
            where = (LOCAL, page.server_port)
            return stack.enter_context(socket.create_connection(where, timeout=TIMEOUT))

        slow = [connected() for _ in range(FROM_ADDRESS_AT_ONCE)]
        assert connected().recv(1) == b"", "a connection above the limit is closed at once"
        for one in slow:
            assert one.recv(1) == b""
        wait_until(lambda: not page._began, "the threads of slow connections still run")
        large = connected()
        with contextlib.suppress(ConnectionError):
            large.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (REQUEST_BYTES_MOST + 1000))
        with contextlib.suppress(ConnectionError):
            assert large.recv(1) == b""
    began = time.monotonic()
    for _ in range(20):
        assert ask(page, "GET", "/state")[0] == 200
    assert time.monotonic() - began >= 20 * ACCEPT_PAUSE


@pytest.mark.browser
def test_two_students_predict_and_the_lecturer_shows_it(serve: Serve, browser: Browser) -> None:
    served = serve("iterative", "--room", LOCAL, "--room-port", "0")
    with contextlib.ExitStack() as stack:

        def opened(url: str) -> Page:
            context = browser.new_context(viewport={"width": 390, "height": 844})
            page = stack.enter_context(contextlib.closing(context)).new_page()
            page.goto(url)
            return page

        lecturer = opened(f"http://{LOCAL}:{served.live[1]}/live")
        url = lecturer.locator(".room b").inner_text()
        lecturer.get_by_role("button", name="A slow client").click()
        expect(lecturer.locator("#question")).to_contain_text("Eight clients")
        one, two = students = [opened(url), opened(url)]
        for student, choice in ((one, "7"), (two, "6"), (one, "1")):
            student.get_by_role("button", name=choice, exact=True).click()
            expect(student.get_by_role("status")).to_contain_text("is stored")
            expect(student.locator("[aria-pressed=true]")).to_have_text(choice)
        expect(lecturer.locator("#predictions")).to_contain_text("2 predictions from 1 machine")
        numbers = lecturer.locator("#choices tbody td:last-child")
        assert numbers.all_inner_texts() == [""] * 4, "no count before the predictions are shown"
        lecturer.keyboard.press("p")
        expect(numbers).to_have_text(["0", "1", "1", "0"])
        expect(lecturer.locator("#because")).to_be_empty()
        for student in students:
            expect(student.get_by_role("status")).to_contain_text("Your prediction is marked")
            expect(student.get_by_role("button", name="7")).to_be_disabled()
        lecturer.keyboard.press("p")
        expect(lecturer.locator("tr.right")).to_contain_text("✓ 6")
        expect(lecturer.locator("#because")).to_contain_text("recvfrom")
        for page in (lecturer, one):
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert hindrances(page) == []
        lecturer.get_by_role("button", name="Idle connections").click()
        expect(one.get_by_role("heading")).to_contain_text("5,000 clients")
        expect(one.locator("[aria-pressed=true]")).to_have_count(0)
    assert served.live_answer("POST", "/live/room/ask/99") == 404
