# SPDX-License-Identifier: MIT
"""The report works in a real browser, without a script error or a request to another host."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ..accessible import hindrances, opened
from ..whole_sweep import wait_for
from .conftest import SOURCES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("report_browser")]

CUT = """() => [...document.querySelectorAll(
    ".chart svg :is(.role-axis-title, .role-legend-label, .mark-text.role-mark) text"
)].filter((text) => {
    const picture = text.ownerSVGElement.getBoundingClientRect();
    const { left, right } = text.getBoundingClientRect();
    return left < picture.left || right > picture.right || text.textContent.endsWith("…");
}).map((text) => text.textContent)"""
"""JavaScript that returns the axis titles, legends and bar labels that are cut off."""
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
LINES = "#figure-rates .chart .mark-line path"
READY = 120_000
"""Milliseconds to draw a page, or to take a picture of it, on a busy machine."""
A_GESTURE = 3_000
"""Milliseconds after which a gesture is repeated."""
TEXTS = """selector => [...document.querySelectorAll(selector)]
    .filter(found => found.checkVisibility()).map(found => found.innerText)"""
COLUMN = """name => {
    const heads = [...document.querySelectorAll("#figures thead th")];
    const index = heads.findIndex(head => head.innerText.trim().startsWith(name));
    const rows = [...document.querySelectorAll("#figures tbody tr")];
    return rows.filter(row => row.checkVisibility()).map(row => row.children[index].dataset.v);
}"""
DRAWINGS = """() => [...document.querySelectorAll("[data-exhibit]")].map(figure => {
    const drawn = figure.querySelector(".chart:not([hidden]) svg");
    const box = drawn && drawn.getBoundingClientRect();
    const empty = figure.querySelector(".none").checkVisibility();
    return [figure.dataset.exhibit, empty, box && { width: box.width, height: box.height }];
})"""
LATE_SCROLL = """() => {
    const layer = [...document.querySelectorAll("#figure-rates .chart .mark-symbol")].at(-1);
    const point = layer.querySelector("path");
    point.scrollIntoView({ block: "center" });
    const box = point.getBoundingClientRect();
    const [clientX, clientY] = [box.x + box.width / 2, box.y + box.height / 2];
    const gone = new Promise(done => addEventListener("scroll", done, { once: true }));
    point.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }));
    const tip = document.getElementById("tip");
    const before = !tip.hidden;
    return gone.then(() => [before, !tip.hidden]);
}"""


class Visit:
    """An open page of the report."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        page.set_default_timeout(READY)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all visible elements."""
        return list(self.page.evaluate(TEXTS, selector))

    def column(self, name: str) -> list[str]:
        """Return the values by which a column sorts the visible rows of the table."""
        return list(self.page.evaluate(COLUMN, name))

    def sort_by(self, name: str) -> None:
        self.page.locator("#figures thead th", has_text=name).first.get_by_role("button").click()

    def point_at(self, place: Locator) -> Locator:
        """Move the pointer to the middle of a drawn element until the page shows its tooltip, and
        return the tooltip. The first move may come before the drawing is complete."""
        tip = self.page.locator("#tip")
        deadline = time.monotonic() + READY / 1000
        while True:
            place.scroll_into_view_if_needed()
            box = place.bounding_box()
            assert box is not None
            self.page.mouse.move(0, 0)
            self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            try:
                expect(tip).to_be_visible(timeout=A_GESTURE)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            else:
                return tip


Open = Callable[..., "Visit"]


@pytest.fixture
def visit(browser: Browser, pages: Callable[[str], Path]) -> Iterator[Open]:
    """Yield a function that opens a page, and check that the page requests no other file."""
    with ExitStack() as stack:

        def open_(source: str, width: dict[str, int] = DESKTOP, scheme: str = "light") -> Visit:
            path = pages(source).resolve()
            page = opened(browser, path.as_uri(), viewport=width, color_scheme=scheme)
            return Visit(stack.enter_context(page), path)

        yield open_


@contextmanager
def changed(visit: Visit, script: str) -> Iterator[None]:
    """Wait until a script returns another value than before the block."""
    before = visit.page.evaluate(script)
    yield
    visit.page.wait_for_function(f"before => ({script}) !== before", arg=before)


def flaws(seen: Visit, width: int) -> list[str]:
    """Return the charts that are missing, too wide or too flat, and the texts that are cut off."""
    found = [
        key
        for key, empty, box in seen.page.evaluate(DRAWINGS)
        if (box is None) != empty or (box and (box["width"] > width or box["height"] <= 80))
    ]
    wide = seen.page.evaluate("document.documentElement.scrollWidth") != width
    return [*found, *seen.page.evaluate(CUT), *["the page is too wide"] * wide]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_every_chart_is_drawn_and_nothing_sticks_out(source: str, visit: Open) -> None:
    """The charts fit, also after the window has become as narrow as a phone. Loading a page takes
    most of the time of this test, so the page is loaded only once."""
    seen = visit(source)
    assert flaws(seen, DESKTOP["width"]) == []
    assert seen.page.locator("#figure-rates .chart .mark-symbol path").count() > 0
    seen.page.emulate_media(color_scheme="dark")
    seen.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    narrow = f"([, , box]) => !box || box.width <= {PHONE['width']}"
    seen.page.wait_for_function(f"() => ({DRAWINGS})().every({narrow})")
    assert flaws(seen, PHONE["width"]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("source", "width"), [("version1_failed", DESKTOP), ("version3", PHONE)])
def test_it_is_accessible(source: str, width: dict[str, int], visit: Open) -> None:
    assert hindrances(visit(source, width).page) == []


def test_the_legend_hides_and_shows(visit: Open) -> None:
    seen = visit("version1")
    chip = seen.page.locator('.chip[data-subject="epoll"]')
    lines = seen.page.locator(LINES)
    expect(lines).to_have_count(2)
    assert "epoll" in seen.column("server")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(lines).to_have_count(1)
    wait_for(lambda: set(seen.column("server")) == {"prethreading"})
    wait_for(lambda: "epoll" not in seen.texts(".words dt"))
    chip.click()
    expect(lines).to_have_count(2)


def test_baselines_are_hidden_until_asked_for(visit: Open) -> None:
    seen = visit("version2")
    chip = seen.page.locator('.chip[data-subject="baseline-epoll"]')
    expect(chip).to_have_attribute("aria-pressed", "false")
    assert "baseline-epoll" not in seen.column("server")
    seen.page.select_option("#scenario", label="redirect, a connection per request")
    chip.click()
    wait_for(lambda: "baseline-epoll" in seen.column("server"))


def test_the_table_sorts(visit: Open) -> None:
    seen = visit("version1_failed")
    seen.sort_by("requests/s")
    head = seen.page.locator("#figures thead th", has_text="requests/s").first
    expect(head).to_have_attribute("aria-sort", "ascending")
    values = seen.column("requests/s")
    known = [float(v) for v in values if v]
    assert known == sorted(known)
    assert values[len(known) :] == [""] * (len(values) - len(known))  # empty texts come last
    seen.sort_by("requests/s")
    expect(head).to_have_attribute("aria-sort", "descending")
    values = seen.column("requests/s")
    assert [float(v) for v in values if v] == known[::-1]
    assert values[-1] == ""
    seen.sort_by("server")
    expect(head).to_have_attribute("aria-sort", "none")
    assert seen.column("server") == sorted(seen.column("server"))


def test_the_scales_and_the_curves_of_2019(visit: Open) -> None:
    seen = visit("version1")
    labels = "document.querySelector('#figure-rates .chart svg').textContent"
    with changed(seen, labels):
        seen.page.locator("#log-y").check()
    lines = seen.page.locator(LINES)
    expect(lines).to_have_count(2)
    seen.page.locator("#then2019").check()
    expect(lines).to_have_count(4)  # with the curves of 2019 of these architectures
    with changed(seen, labels):
        seen.page.locator("#scaled2019").check()
    seen.page.locator("#log-x").uncheck()
    expect(lines).to_have_count(4)  # the curves remain after the change
    seen.page.locator("#then2019").uncheck()
    expect(lines).to_have_count(2)


def test_a_data_point_shows_all_its_figures_under_the_pointer(visit: Open) -> None:
    seen = visit("version2")
    points = seen.page.locator("#figure-rates .chart .mark-symbol").last.locator("path")
    tip = seen.point_at(points.first)
    for words in ("requests/s", "p99.9", "CPU/request", "memory, peak", "switches, voluntary"):
        expect(tip).to_contain_text(words)
    expect(tip).to_contain_text("others on its CPU")


def test_a_scroll_event_that_comes_late_hides_nothing(visit: Open) -> None:
    seen = visit("version2")
    assert seen.page.evaluate(LATE_SCROLL) == [True, True]
    seen.page.mouse.wheel(0, 200)
    expect(seen.page.locator("#tip")).to_be_hidden()


def test_a_failed_data_point_shows_the_reason(visit: Open) -> None:
    seen = visit("version1_failed")
    tiles = seen.page.locator("#figure-holding .chart .mark-rect path[aria-label*='failed']")
    expect(seen.point_at(tiles.first)).to_contain_text("timed out: not done after 2 s")


@pytest.mark.slow
def test_workload_and_level_change_titles_and_words(visit: Open) -> None:
    seen = visit("everything")
    title = seen.page.locator("#figure-cpu h3")
    expect(title).to_contain_text("forking 400")
    seen.page.select_option("#level", "5000")
    expect(title).to_contain_text("poll 158")
    seen.page.select_option("#scenario", label="redirect, a connection per request")
    expect(title).to_contain_text("nginx")
    wait_for(lambda: any("redirect" in text for text in seen.texts("#choose .intro")))
    expect(seen.page.locator("#then2019")).to_be_hidden()  # 2019's page was a guestbook
    seen.page.select_option("#scenario", label="short link, a connection per request")
    expect(seen.page.locator("#figure-loops .none")).to_be_visible()
    expect(seen.page.locator("#figure-loops h3")).to_have_text("")  # no title of another workload
    assert hindrances(seen.page) == []


def test_the_limit_is_a_named_host(visit: Open) -> None:
    seen = visit("hosts")
    title = seen.page.locator("#figure-hosts h3")
    expect(title).to_contain_text("zerohttpd was the limit for 6 of 7")
    seen.page.select_option(
        "#scenario",
        label="guestbook, a connection per request, 4 instances, through nginx, connections kept",
    )
    expect(title).to_contain_text("nginx was the limit for 5 of 7")
    bars = seen.page.locator("#figure-hosts .chart .mark-rect path")
    tip = seen.point_at(bars.first)
    for words in ("nginx: CPU", "redis: CPU", "was the limit: throttled in 92 %"):
        expect(tip).to_contain_text(words)
    lines = seen.page.locator("#figure-instances-keep .chart .mark-line path")
    expect(lines).to_have_count(14)  # seven servers and their ideal curves
    seen.page.locator('.chip[data-subject="epoll"]').click()
    expect(lines).to_have_count(12)


def test_the_theme_is_switched_and_remembered(visit: Open) -> None:
    seen = visit("version1")
    colour = "getComputedStyle(document.body).backgroundColor"
    with changed(seen, colour):
        seen.page.select_option("#theme", "dark")
    seen.page.reload()
    expect(seen.page.locator("html")).to_have_attribute("data-theme", "dark")


def test_pictures_and_the_csv_are_downloaded(visit: Open, tmp_path: Path) -> None:
    seen = visit("version1")
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with seen.page.expect_download() as download:
            seen.page.locator(f"#figure-rates [data-take={kind}]").click()
        download.value.save_as(tmp_path / f"taken.{kind}")
        content = (tmp_path / f"taken.{kind}").read_bytes()
        assert content.startswith(start)
        assert b"var(--" not in content
    with seen.page.expect_download() as download:
        seen.page.get_by_role("link", name="CSV", exact=True).click()
    assert download.value.suggested_filename == "report.csv"


def test_on_paper_it_is_light_and_explained(visit: Open) -> None:
    seen = visit("version1", scheme="dark")
    seen.page.emulate_media(media="print")
    light = "getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
    wait_for(lambda: seen.page.evaluate(light) == "#FFFFFF")
    expect(seen.page.locator(".picks")).to_be_hidden()
    expect(seen.page.locator("#figure-rates .chart svg")).to_be_visible()
    assert len(seen.page.pdf()) > 50_000


def test_without_scripts_the_charts_are_there_and_no_dead_buttons(
    browser: Browser, pages: Callable[[str], Path]
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(pages("version1").as_uri())
        expect(page.locator("#figure-rates .chart svg")).to_be_visible()
        expect(page.locator("#figures tbody tr").first).to_be_visible()
        for without in ("#bar", "[data-take] >> nth=0"):
            expect(page.locator(without)).to_be_hidden()
