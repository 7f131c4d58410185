# SPDX-License-Identifier: MIT
"""The book in a real browser: it fits, makes no request to another host, and is complete on
paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bench.book import command

from ..accessible import hindrances

pytestmark = pytest.mark.browser

CUT = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
"""Counts the elements whose content is cut off."""


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    command.build(folder, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_every_page_fits_and_asks_nobody(
    browser: Browser, book: Path, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text))
    page.on("request", lambda asked: troubles.append(asked.url))
    names = sorted(book.glob("*.html"))
    assert len(names) > 10
    for path in names:
        page.goto(path.as_uri())
        too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert too_wide <= 0, path.name
    page.close()
    assert troubles == [path.as_uri() for path in names]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("name", ["00-first", "06-poll", "10-curves", "words"])
def test_a_page_hinders_nobody(browser: Browser, book: Path, name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((book / f"{name}.html").as_uri())
    assert hindrances(page) == []
    page.close()


def test_on_a_phone_what_is_the_same_stands_there_once(browser: Browser, book: Path) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto((book / "06-poll.html").as_uri())
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


def test_pages_turn_and_answers_unfold(browser: Browser, book: Path) -> None:
    page = browser.new_page()
    page.goto((book / "00-first.html").as_uri())
    page.get_by_role("link", name="01 iterative").last.click()
    expect(page.locator("h1")).to_contain_text("01 iterative")
    answer = page.locator("details.question").first.locator("p").last
    expect(answer).to_be_hidden()
    page.locator("details.question summary").first.press("Enter")
    expect(answer).to_be_visible()
    page.locator("a.word").first.click()
    expect(page.locator("h1")).to_have_text("Words")
    page.close()


def test_on_paper_the_answers_are_there_and_the_picture_is_whole(
    browser: Browser, book: Path
) -> None:
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.goto((book / "06-poll.html").as_uri())
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("details.question p").last).to_be_visible()
    expect(page.locator(".contents")).to_be_hidden()
    widest = page.locator("figure.timeline svg").first.bounding_box()
    assert widest is not None
    assert widest["x"] + widest["width"] <= 700
    page.close()


@pytest.mark.parametrize("name", ["00-first", "03-preforking", "08-connection"])
def test_on_paper_code_has_room_and_two_files_stand_side_by_side(
    browser: Browser, book: Path, name: str
) -> None:
    page = browser.new_page(viewport={"width": 700, "height": 1000})
    page.goto((book / f"{name}.html").as_uri())
    page.emulate_media(media="print")
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


@pytest.mark.slow
def test_drawings_are_whole_on_a_wide_screen(browser: Browser, book: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    for path in sorted(book.glob("*.html")):
        page.goto(path.as_uri())
        assert page.locator(".comment pre").evaluate_all(CUT) == 0, path.name
    page.close()
