"""The page in a real browser: clicked, and without a script error or a request to anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import SOURCES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("report_browser")]

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
LINES = "#figure-rates .chart .mark-line path"
READY = 60_000


class Visit:
    """A page, and all that it asked for or complained about."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.elsewhere: list[str] = []
        self.complaints: list[str] = []
        own = path.resolve().as_uri()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._logged)
        page.on("request", lambda request: self._requested(request.url, own))
        page.goto(own)
        page.wait_for_selector("html[data-ready]", timeout=READY)

    def _requested(self, url: str, own: str) -> None:
        if url.split("#", maxsplit=1)[0] != own and not url.startswith(("data:", "blob:")):
            self.elsewhere.append(url)

    def _logged(self, message: object) -> None:
        if getattr(message, "type", "") == "error":
            self.complaints.append(str(getattr(message, "text", "")))

    def texts(self, selector: str) -> list[str]:
        """The texts of all visible elements."""
        return [e.inner_text() for e in self.page.locator(selector).all() if e.is_visible()]

    def column(self, name: str) -> list[str]:
        """What the visible rows of the table are sorted by in a column."""
        heads = [text.split("\n")[0].strip() for text in self.texts("#figures thead th")]
        index = next(i for i, head in enumerate(heads) if head.startswith(name))
        rows = self.page.locator("#figures tbody tr:visible").all()
        return [r.locator("th, td").nth(index).get_attribute("data-v") or "" for r in rows]

    def sort_by(self, name: str) -> None:
        """Click a heading."""
        self.page.locator("#figures thead th", has_text=name).first.get_by_role("button").click()


Open = Callable[..., "Visit"]


@pytest.fixture
def visit(browser: Browser, pages: Callable[[str], Path]) -> Iterator[Open]:
    """Opens the page of a source; in the end nothing must have gone wrong in any of them."""
    opened: list[Visit] = []

    def open_(source: str, width: dict[str, int] = DESKTOP, scheme: str = "light") -> Visit:
        page = browser.new_page(viewport=width, color_scheme=scheme)  # type: ignore[arg-type]
        opened.append(Visit(page, pages(source)))
        return opened[-1]

    yield open_
    for seen in opened:
        seen.page.close()
        assert seen.complaints == []
        assert seen.elsewhere == []


@contextmanager
def changed(visit: Visit, script: str) -> Iterator[None]:
    """What a script says must be another thing afterwards."""
    before = visit.page.evaluate(script)
    yield
    visit.page.wait_for_function(f"before => ({script}) !== before", arg=before)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_and_nothing_sticks_out(
    source: str, width: dict[str, int], scheme: str, visit: Open
) -> None:
    seen = visit(source, width, scheme)
    for figure in seen.page.locator("[data-exhibit]").all():
        drawn = figure.locator(".chart svg")
        assert drawn.count() == 1 or figure.locator(".none").is_visible()
        if drawn.count() and drawn.is_visible():
            box = drawn.bounding_box()
            assert box is not None
            assert box["width"] <= width["width"]
            assert box["height"] > 80
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width["width"]
    paths = seen.page.locator("#figure-rates .chart .mark-symbol path")
    assert paths.count() > 0
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = f"report-{source}-{width['width']}-{scheme}.png"
    seen.page.screenshot(path=SCREENSHOTS / name, full_page=True)


def test_the_legend_hides_and_shows(visit: Open) -> None:
    seen = visit("version1")
    chip = seen.page.locator('.chip[data-subject="epoll"]')
    lines = seen.page.locator(LINES)
    expect(lines).to_have_count(2)
    assert "epoll" in seen.column("server")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(lines).to_have_count(1)
    assert set(seen.column("server")) == {"prethreading"}
    assert "epoll" not in seen.texts(".words dt")
    chip.click()
    expect(lines).to_have_count(2)


def test_floors_are_hidden_until_asked_for(visit: Open) -> None:
    seen = visit("version2")
    chip = seen.page.locator('.chip[data-subject="floor-epoll"]')
    expect(chip).to_have_attribute("aria-pressed", "false")
    assert "floor-epoll" not in seen.column("server")
    seen.page.select_option("#scenario", label="redirect, a connection per request")
    chip.click()
    seen.page.wait_for_timeout(100)
    assert "floor-epoll" in seen.column("server")


def test_the_table_sorts(visit: Open) -> None:
    seen = visit("version1_failed")
    seen.sort_by("requests/s")
    values = seen.column("requests/s")
    known = [float(v) for v in values if v]
    assert known == sorted(known)
    assert values[len(known) :] == [""] * (len(values) - len(known))  # no figure: last
    seen.sort_by("requests/s")
    values = seen.column("requests/s")
    assert [float(v) for v in values if v] == known[::-1]
    assert values[-1] == ""
    seen.sort_by("server")
    assert seen.column("server") == sorted(seen.column("server"))


def test_the_scales_and_the_curves_of_2019(visit: Open) -> None:
    seen = visit("version1")
    labels = "document.querySelector('#figure-rates .chart svg').textContent"
    with changed(seen, labels):
        seen.page.locator("#log-y").check()
    lines = seen.page.locator(LINES)
    expect(lines).to_have_count(2)
    seen.page.locator("#then2019").check()
    expect(lines).to_have_count(4)  # of the architectures that are there
    with changed(seen, labels):
        seen.page.locator("#scaled2019").check()
    seen.page.locator("#log-x").uncheck()
    expect(lines).to_have_count(4)  # what was chosen survives the change of scale
    seen.page.locator("#then2019").uncheck()
    expect(lines).to_have_count(2)


def test_a_cell_tells_everything_under_the_pointer(visit: Open) -> None:
    seen = visit("version2")
    seen.page.locator("#figure-rates").scroll_into_view_if_needed()
    points = seen.page.locator("#figure-rates .chart .mark-symbol").last.locator("path")
    points.first.hover(force=True)
    tip = seen.page.locator("#tip")
    expect(tip).to_be_visible()
    for words in ("requests/s", "p99.9", "CPU/request", "memory, peak", "switches, voluntary"):
        expect(tip).to_contain_text(words)


def test_a_failed_cell_tells_why(visit: Open) -> None:
    seen = visit("version1_failed")
    tiles = seen.page.locator("#figure-holding .chart .mark-rect path[aria-label*='failed']")
    tiles.first.scroll_into_view_if_needed()
    tiles.first.hover(force=True)
    expect(seen.page.locator("#tip")).to_contain_text("timed out: not done after 2 s")


def test_workload_and_level_change_titles_and_words(visit: Open) -> None:
    seen = visit("everything")
    title = seen.page.locator("#figure-cpu h3")
    expect(title).to_contain_text("forking 400")
    seen.page.select_option("#level", "5000")
    expect(title).to_contain_text("poll 158")
    seen.page.select_option("#scenario", label="redirect, a connection per request")
    expect(title).to_contain_text("nginx")
    assert any("redirect" in text for text in seen.texts("#choose .intro"))
    expect(seen.page.locator("#then2019")).to_be_hidden()  # that was a guestbook
    seen.page.select_option("#scenario", label="short link, a connection per request")
    expect(seen.page.locator("#figure-law .none")).to_be_visible()


def test_the_theme_is_switched_and_remembered(visit: Open) -> None:
    seen = visit("version1")
    colour = "getComputedStyle(document.body).backgroundColor"
    with changed(seen, colour):
        seen.page.select_option("#theme", "dark")
    seen.page.reload()
    expect(seen.page.locator("html")).to_have_attribute("data-theme", "dark")


def test_pictures_are_taken_along(visit: Open, tmp_path: Path) -> None:
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
    assert seen.page.evaluate(light) == "#FFFFFF"
    assert not seen.page.locator(".picks").is_visible()
    assert seen.page.locator("#figure-rates .chart svg").is_visible()
    assert len(seen.page.pdf()) > 50_000


def test_without_scripts_the_charts_are_there(
    browser: Browser, pages: Callable[[str], Path]
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(pages("version1").as_uri())
        expect(page.locator("#figure-rates .chart svg")).to_be_visible()
        expect(page.locator("#figures tbody tr").first).to_be_visible()
