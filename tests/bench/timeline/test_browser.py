# SPDX-License-Identifier: MIT
"""The timeline's page plays, steps and shows details in a real browser."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bench.host.project import ROOT
from bench.timeline.command import make

from ..accessible import hindrances, opened

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("timeline_browser")]

WIDEST = """bars => bars.map(bar => bar.width.baseVal.value)
    .reduce((best, width, place, all) => width > all[best] ? place : best, 0)"""

LABELS = """labels => labels.filter(label => getComputedStyle(label).visibility === "visible")
    .map(label => [label.textContent, label.getBoundingClientRect().right,
                   label.previousElementSibling.getBoundingClientRect().right])"""
CUT = """ends => ends.map(end => [end.getBoundingClientRect().right,
                         end.ownerSVGElement.getBoundingClientRect().right])"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the recorded traces."""
    return make(None, "eight", tmp_path_factory.mktemp("timeline"), recorded=True)


on_each_screen = pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])


@pytest.fixture
def page(browser: Browser, file: Path, width: int) -> Iterator[Page]:
    """Yield the timeline's page in a browser."""
    with opened(browser, file.as_uri(), viewport={"width": width, "height": 800}) as page:
        page.goto(file.as_uri())
        yield page


def told(page: Page) -> str:
    """Return the page's text about the selected call."""
    return page.locator("#details").inner_text()


@pytest.mark.slow
@on_each_screen
def test_it_is_accessible(page: Page) -> None:
    assert hindrances(page) == []


@on_each_screen
def test_a_label_is_inside_its_bar_if_it_fits(page: Page) -> None:
    counts = []
    for factor in ("", "-", "+", "+", "+"):
        if factor:
            page.keyboard.press(factor)
        labels = page.locator("text.for").evaluate_all(LABELS)
        assert [label for label, end, bar in labels if end > bar] == []
        counts.append(len(labels))
    assert counts[1] < counts[0] < counts[-1]
    ends = page.locator("text.ended").evaluate_all(CUT)
    assert all(end <= picture for end, picture in ends)


def test_it_plays_pauses_and_goes_on(page: Page) -> None:
    button = page.locator("#play")
    curtain = page.locator(".curtain").first
    expect(curtain).to_be_hidden()
    page.locator("#pace").select_option("50")
    button.click()
    expect(button).to_have_text("Pause")
    expect(page.locator(".bar.now")).to_have_count(1)
    page.keyboard.press("Escape")
    button.click()
    expect(button).to_have_text("Play")
    where = float(curtain.get_attribute("x") or 0)
    assert where > 0
    page.locator("h1").click()
    page.keyboard.press("Space")
    expect(button).to_have_text("Pause")
    page.wait_for_function(
        "before => Number(document.querySelector('.curtain').getAttribute('x')) > before", arg=where
    )
    page.keyboard.press("Space")
    expect(button).to_have_text("Play")


def test_keys_step_from_call_to_call_and_change_the_server(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    first = told(page)
    assert first.startswith("iterative, ")
    page.keyboard.press("ArrowRight")
    assert told(page) != first
    page.keyboard.press("ArrowLeft")
    assert told(page) == first
    page.keyboard.press("ArrowDown")
    assert told(page).startswith("forking, ")
    page.keyboard.press("ArrowUp")
    assert told(page).startswith("iterative, ")
    width = page.locator("svg").first.get_attribute("width")
    page.keyboard.press("+")
    expect(page.locator("svg").first).not_to_have_attribute("width", width or "")


def test_a_bar_shows_its_call_and_links_to_the_line_of_source(page: Page) -> None:
    bars = page.locator('[data-server="0"] .bar.waits')
    bar = bars.nth(bars.evaluate_all(WIDEST))
    bar.hover(position={"x": 5, "y": 3})
    expect(page.locator("#details")).to_contain_text("waits for client 2, to send")
    expect(page.locator("#details code")).to_contain_text("recvfrom(")
    bar.click(position={"x": 5, "y": 3})
    mark = page.locator("#details pre mark")
    shown = re.fullmatch(r"\s*(\d+)\s+(.*\S)\s*", mark.inner_text())
    assert shown
    label = page.locator("#details pre").get_attribute("aria-label") or ""
    name, _, rest = label.partition(", line ")
    lines = (ROOT / name).read_text().splitlines()
    assert lines[int(shown[1]) - 1].strip() == shown[2]
    assert rest.startswith(f"{shown[1]}, ")


@on_each_screen
def test_the_axis_can_be_read_however_narrow(page: Page) -> None:
    for _ in range(6):
        page.keyboard.press("-")
    labels = page.locator('[data-server="0"] .tick text[visibility="visible"]')
    spans = labels.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    )
    assert len(spans) > 2
    assert all(one[1] < other[0] for one, other in pairwise(spans))
    names = page.locator('[data-server="0"] .names').bounding_box()
    first = page.locator('[data-server="0"] text.of').first.bounding_box()
    assert names["x"] + names["width"] <= first["x"], "the first client's number is covered"


LEFT_RIGHT = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
LEAST_TEXT = """all => Math.min(...all.filter(one => one.textContent && one.checkVisibility())
    .map(one => parseFloat(getComputedStyle(one).fontSize)))"""


@on_each_screen
def test_a_narrow_screen_shows_that_there_is_more_to_the_side(page: Page, width: int) -> None:
    """The page shows a hint if the picture is too wide; the sentences do not scroll. 2 s."""
    more = page.eval_on_selector(".scroll", "one => one.scrollWidth - one.clientWidth")
    assert page.locator(".more").is_visible() is (more > 0) is (width == 390)
    page.locator(".scroll").evaluate("one => one.scrollLeft = one.scrollWidth")
    edges = page.locator(".outcome, h2 span").evaluate_all(LEFT_RIGHT)
    assert len(edges) == 14
    assert all(0 <= left < right <= width for left, right in edges)
    assert page.locator("svg text, .names span, p, button").evaluate_all(LEAST_TEXT) >= 10
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_legend_keeps_its_colours(page: Page) -> None:
    page.emulate_media(forced_colors="active")
    colour = "one => getComputedStyle(one).backgroundColor"
    swatches = [page.locator(f".swatch.r{n}").evaluate(colour) for n in (1, 2, 3)]
    assert len({*swatches, page.locator("body").evaluate(colour)}) == 4
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    line = page.locator("#details mark")
    assert line.evaluate(colour) == "rgb(255, 255, 0)", "black letters may be on black"
    border = "all => new Set(all.map(one => getComputedStyle(one).borderLeftColor)).size"
    assert page.locator("h2 span").evaluate_all(border) == 2, "the server is not visible"
    page.emulate_media(media="print")
    kept = "one => getComputedStyle(one).printColorAdjust"
    assert page.locator(".swatch").first.evaluate(kept) == "exact"


def test_on_paper_all_of_the_axis_is_there(page: Page) -> None:
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    widths = page.eval_on_selector_all(
        "svg", "all => all.map(one => Number(one.getAttribute('width')))"
    )
    assert len(widths) == 7
    assert max(widths) <= 841
    expect(page.locator(".controls")).to_be_hidden()


def test_it_says_what_a_trace_shows_and_names_the_other_format(page: Page, file: Path) -> None:
    expect(page.locator("header")).to_contain_text("the order of calls, not their speed")
    expect(page.locator("header")).to_contain_text("recorded on another machine")
    link = page.locator("header a").get_attribute("href")
    assert link
    assert (file.parent / link).exists()
