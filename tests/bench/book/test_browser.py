# SPDX-License-Identifier: MIT
"""The web site in a real browser: it fits, makes no request to another host, and is complete on
paper."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ..accessible import hindrances

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("site")]

BOOK = "tutorial/book"
CUT = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
"""Counts the elements whose content is cut off."""

OURS = {"include": [".md-content"], "exclude": [".md-code__nav"]}
"""What the theme does not make."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Yield the address of the site: from disk the search does not work."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def on_paper(browser: Browser, url: str) -> Page:
    """Return a page as it is printed."""
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.goto(url)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    return page


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_every_page_fits_and_asks_no_other_host(
    browser: Browser, site: Path, address: str, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(address) else troubles.append(asked.url),
    )
    names = sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if path.relative_to(site).parts[0] not in ("source", "404.html")
    )
    assert len(names) > 40
    for name in names:
        page.goto(f"{address}/{name}")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
    page.close()
    assert troubles == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize(
    "name", [f"{BOOK}/00-first", f"{BOOK}/06-poll", f"{BOOK}/10-curves", "reference/glossary"]
)
def test_a_page_hinders_no_reader(browser: Browser, address: str, name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(f"{address}/{name}.html")
    assert hindrances(page, OURS) == []
    page.close()


def test_on_a_phone_what_is_the_same_is_there_once(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(f"{address}/{BOOK}/06-poll.html")
    step = page.locator("section.step").first
    same = step.locator(".pairs.same td", has_text="case NEED_RECEIVE:")
    expect(same).to_have_count(2)
    expect(same.first).to_be_hidden()
    expect(same.last).to_be_visible()
    gone, new = (
        step.locator(f"td.{kind}", has_text=text).first.bounding_box()
        for kind, text in (("gone", "receive(&conn)"), ("new", "if (!readable)"))
    )
    assert gone is not None
    assert new is not None
    assert gone["width"] > 250
    assert gone["y"] + gone["height"] <= new["y"]
    page.close()


def test_answers_unfold_and_words_are_explained(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/{BOOK}/00-first.html")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("h1")).to_contain_text("01 iterative")
    answer = page.locator("details.question").first.locator("p").last
    expect(answer).to_be_hidden()
    page.locator("details.question summary").first.press("Enter")
    expect(answer).to_be_visible()
    page.locator("a.word").first.click()
    expect(page.locator("h1")).to_contain_text("Glossary")
    page.close()


def test_a_word_is_found(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.get_by_placeholder("Search").fill("thundering herd")
    expect(page.locator(".md-search-result__link").first).to_be_visible()
    page.close()


def test_on_paper_the_answers_are_there_and_the_picture_is_whole(
    browser: Browser, address: str
) -> None:
    page = on_paper(browser, f"{address}/{BOOK}/06-poll.html")
    expect(page.locator("details.question p").last).to_be_visible()
    expect(page.locator(".md-sidebar--primary")).to_be_hidden()
    widest = page.locator("figure.timeline svg").first.bounding_box()
    assert widest is not None
    assert widest["x"] + widest["width"] <= 700
    page.close()


@pytest.mark.parametrize("name", ["00-first", "03-preforking", "08-connection"])
def test_on_paper_code_has_room_and_two_files_are_side_by_side(
    browser: Browser, address: str, name: str
) -> None:
    page = on_paper(browser, f"{address}/{BOOK}/{name}.html")
    narrowest = page.locator("pre.code:not(:empty)").evaluate_all(
        "all => Math.min(...all.map(one => one.clientWidth))"
    )
    assert narrowest > 350
    assert page.locator(".comment pre").evaluate_all(CUT) == 0
    stacked = page.locator(".pairs tr").evaluate_all(
        "all => all.filter(row => row.cells[0].offsetTop !== row.cells[1].offsetTop).length"
    )
    assert stacked == 0
    page.close()


def test_drawings_are_whole_on_a_wide_screen(browser: Browser, site: Path, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    for path in sorted((site / BOOK).glob("*.html")):
        page.goto(f"{address}/{BOOK}/{path.name}")
        assert page.locator(".comment pre").evaluate_all(CUT) == 0, path.name
    page.close()
