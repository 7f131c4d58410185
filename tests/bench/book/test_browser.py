# SPDX-License-Identifier: MIT
"""The web site fits its screen, makes no request to another host, and is complete on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ..accessible import hindrances, opened, served
from ..whole_sweep import SECONDS, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("site")]

BOOK = "tutorial/book"
FITS = "document.documentElement.scrollWidth <= innerWidth"
CUT = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
"""JavaScript that counts the elements whose content is cut off."""

OURS = {"include": [".md-content"], "exclude": [".md-code__nav"]}
"""The parts of a page that this project makes, not the theme."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Yield the address of the site on a web server, because the search does not work from disk."""
    with served(site) as url:
        yield url


@pytest.fixture
def page(browser: Browser, width: int) -> Iterator[Page]:
    with opened(browser, "", viewport={"width": width, "height": 1000}) as page:
        yield page


def on_paper(page: Page, url: str) -> None:
    """Open a page, and show it as it is printed."""
    page.set_viewport_size({"width": 700, "height": 1000})
    page.goto(url)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")


def test_every_page_fits_and_asks_no_other_host(browser: Browser, site: Path, address: str) -> None:
    """Every page fits, except pages of source files. On a wide screen no drawing of the book is cut
    off. The test blocks the search index, which would take most of the time."""
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    names = [name for name in names if name.partition("/")[0] not in ("source", "404.html")]
    assert len(names) > 40
    asked: list[str] = []
    with opened(browser, "") as page:
        page.on("request", lambda one: asked.append(one.url))
        page.route("**/search_index.json", lambda route: route.abort())
        for name in names:
            page.set_viewport_size({"width": 360, "height": 1000})
            page.goto(f"{address}/{name}")
            wait_for(lambda: page.evaluate(FITS), name)
            page.set_viewport_size({"width": 1280, "height": 1000})
            wait_for(lambda: page.evaluate(FITS), name)  # parts of the theme move at this width
            if name.startswith(BOOK):
                assert page.locator(".comment pre").evaluate_all(CUT) == 0, name
    assert [url for url in asked if not url.startswith((address, "data:"))] == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize(
    "name", [f"{BOOK}/00-first", f"{BOOK}/06-poll", f"{BOOK}/10-curves", "reference/glossary"]
)
def test_a_page_is_accessible(page: Page, address: str, name: str, width: int) -> None:
    page.goto(f"{address}/{name}.html")
    assert hindrances(page, OURS) == []


@pytest.mark.parametrize("width", [360])
def test_a_phone_shows_equal_lines_once(page: Page, address: str, width: int) -> None:
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
    assert gone["width"] > 250
    assert gone["y"] + gone["height"] <= new["y"]


def test_answers_unfold_and_words_are_explained(page: Page, address: str) -> None:
    page.goto(f"{address}/{BOOK}/00-first.html")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("h1")).to_contain_text("01 iterative")
    answer = page.locator("details.question").first.locator("p").last
    expect(answer).to_be_hidden()
    page.locator("details.question summary").first.press("Enter")
    expect(answer).to_be_visible()
    page.locator("a.word").first.click()
    expect(page.locator("h1")).to_contain_text("Glossary")


def test_a_word_is_found(page: Page, address: str) -> None:
    page.goto(address)
    found = page.locator(".md-search-result__link").first
    search = page.get_by_placeholder("Search")
    for _ in range(20):  # until the page has its index, and listens to the field
        search.fill("")
        search.press_sequentially("thundering herd")
        page.wait_for_timeout(10 * SECONDS)
        if found.is_visible():
            break
    expect(found).to_be_visible()


def test_paper_has_the_answers_and_the_whole_picture(page: Page, address: str) -> None:
    on_paper(page, f"{address}/{BOOK}/06-poll.html")
    expect(page.locator("details.question p").last).to_be_visible()
    expect(page.locator(".md-sidebar--primary")).to_be_hidden()
    widest = page.locator("figure.timeline svg").first.bounding_box()
    assert widest["x"] + widest["width"] <= 700


@pytest.mark.parametrize("name", ["00-first", "03-preforking", "08-connection"])
def test_on_paper_code_has_room_and_two_files_are_side_by_side(
    page: Page, address: str, name: str
) -> None:
    on_paper(page, f"{address}/{BOOK}/{name}.html")
    narrowest = page.locator("pre.code:not(:empty)").evaluate_all(
        "all => Math.min(...all.map(one => one.clientWidth))"
    )
    assert narrowest > 350
    assert page.locator(".comment pre").evaluate_all(CUT) == 0
    stacked = page.locator(".pairs tr").evaluate_all(
        "all => all.filter(row => row.cells[0].offsetTop !== row.cells[1].offsetTop).length"
    )
    assert stacked == 0
