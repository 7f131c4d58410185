# SPDX-License-Identifier: MIT
"""The guestbook in a real browser, as a visitor uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ..conftest import WORKERS
from ..harness import REPOSITORY, Server
from ..redisbox import PrivateRedis, RedisClient
from ..site import build_project_site
from ..timing import PACE, PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.shared_code]

SCREENSHOTS = REPOSITORY / "build" / "screenshots"


@pytest.fixture(scope="session")
def project_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_project_site(tmp_path_factory.mktemp("project"), REPOSITORY)


@pytest.fixture(scope="module")
def project_server(
    binary: Path, project_site: Path, redis: PrivateRedis, database: RedisClient
) -> Iterator[Server]:
    with Server(binary, project_site, redis.url(database.database), WORKERS) as running:
        yield running


class Visit:
    """A page, with all that it requested and all its errors."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.elsewhere: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._requested)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._logged)

    def _requested(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith((self.url, "data:")):
            self.elsewhere.append(url)

    def _logged(self, message: object) -> None:
        text = str(getattr(message, "text", ""))
        # a refused form is a 400 on purpose, and Chromium reports it
        if getattr(message, "type", "") == "error" and "400 (Bad Request)" not in text:
            self.complaints.append(text)


@pytest.fixture
def visit(browser: Browser, project_server: Server, database: RedisClient) -> Iterator[Visit]:
    """Yield a new page in a browser without any state, and an empty guestbook."""
    database.do("FLUSHDB")
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    context.set_default_timeout(PATIENCE * 1000 * PACE.slowness)
    visit = Visit(context.new_page(), project_server.url)
    yield visit
    context.close()
    assert visit.elsewhere == [], "the page made a request to another host"
    assert visit.complaints == []


def _write(page: Page, name: str, text: str) -> None:
    """Fill in the form and send it, without the browser's own checks."""
    page.evaluate("document.querySelector('form').noValidate = true")
    page.fill("[name=guest-name]", name)
    page.fill("[name=guest-remarks]", text)
    _submit(page)


def _submit(page: Page) -> None:
    """Press the button and wait for the next page."""
    with page.expect_navigation():
        page.click("form [type=submit], form button")


@pytest.mark.slow
def test_write_a_remark(visit: Visit, project_server: Server) -> None:
    """A remark written in the form appears on the page; a picture of it is saved."""
    page = visit.page
    page.goto(f"{visit.url}guestbook")
    expect(page.locator("li.remark.none")).to_have_count(1)
    _write(page, "Ann", "What a nice page 🐧")
    expect(page.locator("li.remark")).to_have_count(1)
    expect(page.locator("li.remark").first).to_contain_text("What a nice page 🐧 - Ann")
    assert page.url == f"{visit.url}guestbook"
    _write(page, "Bob", "So it is.\nWith two lines.")
    expect(page.locator("li.remark")).to_have_count(2)
    expect(page.locator("li.remark").first).to_contain_text("So it is.")
    page.reload()
    expect(page.locator("li.remark")).to_have_count(2)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / f"{project_server.name}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 5000


@pytest.mark.slow
def test_refused_form(visit: Visit) -> None:
    """A refused form comes back with what was typed, and is accepted after a correction."""
    page = visit.page
    page.goto(f"{visit.url}guestbook")
    _write(page, "", "Remarks without a name")
    expect(page.locator("[name=guest-remarks]")).to_have_value("Remarks without a name")
    expect(page.locator("li.remark.none")).to_have_count(1)
    empty = page.locator("body").inner_text()
    page.goto(f"{visit.url}guestbook")
    assert empty != page.locator("body").inner_text(), "no message can be seen"
    _write(page, 'Quo"te <b>', "")
    expect(page.locator("[name=guest-name]")).to_have_value('Quo"te <b>')
    page.fill("[name=guest-remarks]", "Now with remarks")
    _submit(page)
    expect(page.locator("li.remark")).to_contain_text('Now with remarks - Quo"te <b>')


@pytest.mark.slow
def test_markup_is_not_run(visit: Visit) -> None:
    """Scripts in remarks and names are shown as text."""
    page = visit.page
    page.goto(f"{visit.url}guestbook")
    evil = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>\' " </textarea>'
    _write(page, evil[:90], evil)
    expect(page.locator("li.remark")).to_have_count(1)
    expect(page.locator("li.remark")).to_contain_text(evil)
    _write(page, "", evil)
    expect(page.locator("[name=guest-remarks]")).to_have_value(evil)
    assert page.evaluate("window.evil") is None
    assert page.locator("img[src=x]").count() == 0


# The positions of the letters A and C on the screen, in pixels from the left.
PLACES_OF_A_AND_C = """
element => {
    const text = element.firstChild;
    return ["A", "C"].map(letter => {
        const range = document.createRange();
        const at = text.data.indexOf(letter);
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect().left;
    });
}
"""


def test_text_is_not_turned_around(visit: Visit, database: RedisClient) -> None:
    """Stored characters that change the direction of text do not change the order of what is
    shown."""
    turned = [
        f"{turning}ABC" for turning in ("\u202e", "\u202b\u202e", "\u2067\u202e", "\u202e\u2068")
    ]
    turned.append("\u0085\u009bABC")
    for text in reversed(turned):  # the page begins with the last
        database.do("RPUSH", "guestbook_remarks", text, "between")
    page = visit.page
    page.goto(f"{visit.url}guestbook")
    remarks = page.locator("li.remark p", has_text="ABC")
    expect(remarks).to_have_text(["\ufffd" * (len(text) - 3) + "ABC" for text in turned])
    for index in range(len(turned)):
        left_of_a, left_of_c = remarks.nth(index).evaluate(PLACES_OF_A_AND_C)
        assert left_of_a < left_of_c


def test_text_from_right_to_left(visit: Visit, database: RedisClient) -> None:
    """A remark in Hebrew begins at the right, although its neighbours do not."""
    database.do("RPUSH", "guestbook_remarks", "שלום ABC", "ABC שלום")
    page = visit.page
    page.goto(f"{visit.url}guestbook")
    remarks = page.locator("li.remark p")
    ltr, rtl = (remarks.nth(index).evaluate(PLACES_OF_A_AND_C)[0] for index in (0, 1))
    assert ltr < rtl


@pytest.mark.slow
def test_on_a_phone(visit: Visit) -> None:
    """On a narrow screen nothing is wider than the screen, also no long word."""
    page = visit.page
    page.set_viewport_size({"width": 360, "height": 740})
    for target in ("", "guestbook"):
        page.goto(visit.url + target)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"/{target} is {width} pixels wide"
    assert page.locator("meta[name=viewport]").count() == 1
    _write(page, "W" * 100, "w" * 1000)
    expect(page.locator("li.remark")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_index_page(visit: Visit) -> None:
    """The first page shows the mascot and links to the guestbook."""
    page = visit.page
    page.goto(visit.url)
    assert page.title()
    widths = page.evaluate("Array.from(document.images, image => image.naturalWidth)")
    assert widths
    assert all(widths), "a picture is missing"
    page.click("a[href='/guestbook'], a[href='guestbook']")
    expect(page.locator("form [name=guest-name]")).to_have_count(1)
