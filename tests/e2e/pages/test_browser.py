# SPDX-License-Identifier: MIT
"""The guestbook in a real browser, as a visitor uses it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.bench.accessible import opened

from ..harness import REPOSITORY, Server
from ..redisbox import RedisClient
from ..site import build_project_site
from ..timing import PACE, TIMEOUT

pytestmark = [pytest.mark.browser, pytest.mark.of_servers("epoll")]
"""One server is enough: all servers send the same bytes (http/test_cases.py)."""

SCREENSHOTS = REPOSITORY / "build" / "screenshots"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project's own site, which `server` serves in this file."""
    return build_project_site(tmp_path_factory.mktemp("project"), REPOSITORY)


@pytest.fixture
def page(browser: Browser, server: Server, store: RedisClient) -> Iterator[Page]:
    """Yield an empty guestbook in a browser. Fail if the page has errors or requests data
    from another host."""
    refused = "Failed to load resource: the server responded with a status of 400"  # on purpose
    with opened(browser, server.url, refused, viewport={"width": 1100, "height": 900}) as page:
        page.set_default_timeout(TIMEOUT * 1000 * PACE.slowness)
        page.goto(f"{server.url}guestbook")
        yield page


def _write(page: Page, name: str, text: str) -> None:
    """Fill in the form and submit it, without the browser's own checks."""
    page.evaluate("document.querySelector('form').noValidate = true")
    page.fill("[name=guest-name]", name)
    page.fill("[name=guest-remarks]", text)
    _submit(page)


def _submit(page: Page) -> None:
    """Press the button and wait for the next page."""
    with page.expect_navigation():
        page.click("form [type=submit], form button")


@pytest.mark.slow
def test_write_a_remark(page: Page, server: Server) -> None:
    """A remark that is written in the form appears on the page; a script in it is shown as text. A
    screenshot is saved."""
    expect(page.locator("li.remark.none")).to_have_count(1)
    _write(page, "Ann", "What a nice page 🐧")
    expect(page.locator("li.remark")).to_have_count(1)
    expect(page.locator("li.remark").first).to_contain_text("What a nice page 🐧 - Ann")
    assert page.url == f"{server.url}guestbook"
    _write(page, "Bob", "So it is.\nWith two lines.")
    expect(page.locator("li.remark")).to_have_count(2)
    expect(page.locator("li.remark").first).to_contain_text("So it is.")
    page.reload()
    expect(page.locator("li.remark")).to_have_count(2)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / f"{server.name}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 5000
    evil = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>\' " </textarea>'
    _write(page, "", evil)
    expect(page.locator("[name=guest-remarks]")).to_have_value(evil)
    _write(page, evil[:90], evil)
    expect(page.locator("li.remark").first).to_contain_text(evil)
    assert page.evaluate("window.evil") is None
    assert page.locator("img[src=x]").count() == 0


PLACE_OF_A = """
element => {
    const text = element.firstChild, at = text.data.indexOf("A"), range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect().left;
}
"""
"""A JavaScript function that returns the pixels from the window's left edge to the letter A."""


def test_text_from_right_to_left(page: Page, database: RedisClient) -> None:
    """A remark in Hebrew begins at the right, next to an English remark that begins at the left."""
    database.do("RPUSH", "guestbook_remarks", "שלום ABC", "ABC שלום")
    page.reload()
    remarks = page.locator("li.remark p")
    ltr, rtl = (remarks.nth(index).evaluate(PLACE_OF_A) for index in (0, 1))
    assert ltr < rtl


@pytest.mark.slow
def test_on_a_phone(page: Page, server: Server) -> None:
    """No part of the pages is wider than a narrow screen, even with long words."""
    page.set_viewport_size({"width": 360, "height": 740})
    for target in ("", "guestbook"):
        page.goto(server.url + target)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"/{target} is {width} pixels wide"
    assert page.locator("meta[name=viewport]").count() == 1
    _write(page, "W" * 100, "w" * 1000)
    expect(page.locator("li.remark")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
