# SPDX-License-Identifier: MIT
"""The page /live in a real browser."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from redis import Redis

from bench.live.web import PAGES_MOST
from tests.bench import accessible
from tests.bench.accessible import hindrances
from tests.e2e.sockets import free_port
from tests.e2e.timing import undisturbed, wait_until

from .conftest import Serve, Served


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Yield a function that opens a page, and check that it makes no request to another host."""
    with contextlib.ExitStack() as stack:

        def open_(served: Served, **how: Any) -> Page:
            address = f"http://127.0.0.1:{served.live[1]}/"
            page = stack.enter_context(accessible.opened(browser, address, **how))
            page.goto(f"{address}live")
            expect(page.locator("#state")).to_have_text("live")
            return page

        yield open_


@pytest.mark.browser
def test_one_silent_client_delays_the_iterative_server_and_not_the_event_loop(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    served = serve("iterative epoll")
    page = opened(served, viewport={"width": 1500, "height": 1000})
    one, loop = (page.locator(f"[data-server={name}]") for name in ("iterative", "epoll"))
    row, bad = one.locator(".groups tbody tr"), re.compile("bad")

    def disturb() -> None:
        page.get_by_role("button", name="A silent client").click()
        for panel in (one, loop):
            held = panel.locator(".clients tr", has_text="silent client")
            expect(held).to_contain_text("the rest of its request")
        expect(row).to_contain_text(re.compile(r"recvfrom.*silent client \d"))
        expect(one.locator(".verdict")).to_contain_text("so all visitors wait, too")
        expect(one.locator(".longest")).to_have_class(bad)
        expect(one.locator(".visits .waits")).not_to_have_count(0)
        expect(one.locator(".clients")).to_contain_text(re.compile(r"visitors\s*to be accepted"))
        expect(one.locator(".connections .queue")).not_to_have_count(0)
        expect(loop.locator(".groups tbody tr")).to_contain_text("the first client that is ready")
        expect(loop.locator(".verdict")).to_contain_text("block no other client")
        expect(loop.locator(".connections .queue")).to_have_count(0)
        assert page.request.get(loop.locator(".lead a").get_attribute("href")).ok

    undisturbed(9, disturb)  # the server ends a silent client after ten seconds
    page.keyboard.press("u")
    expect(page.locator("#doing")).not_to_contain_text("silent client")
    expect(one.locator(".longest")).not_to_have_class(bad)
    expect(row).to_contain_text("the next client")
    assert served.ask() == 200
    left, right = one.bounding_box(), loop.bounding_box()
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    signs = page.evaluate("order")
    explained = page.locator(".legend .sign").evaluate_all(
        "all => all.map(one => one.classList[1])"
    )
    assert set(signs) == set(explained)


@pytest.mark.browser
def test_a_client_with_an_error_is_marked_as_the_page_explains(
    serve: Serve, opened: Callable[..., Page]
) -> None:
    served = serve("epoll")
    page = opened(served)
    Redis.from_url(served.redis).shutdown(nosave=True)

    def colours() -> set[str]:
        return {
            place.evaluate(f"one => getComputedStyle(one).{how}")
            for place, how in (
                (page.locator(".visits .failed").first, "fill"),
                (page.locator(".how .failed"), "color"),
                (page.locator(".mark.waiting"), "backgroundColor"),
            )
        }

    # An element that the page has just replaced has no colour.
    wait_until(lambda: len(colours()) == 1, "all three have one colour")


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_left_open_becomes_that_of_the_next_server(serve: Serve, browser: Browser) -> None:
    first = serve("epoll", "--live-port", str(free_port()))  # no outgoing connection uses it
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{first.live[1]}/live")
    first.end()
    expect(page.locator("#state")).to_contain_text("no contact")
    page.keyboard.press("s")  # has no effect
    second = serve("threading", "--live-port", str(first.live[1]))
    assert second.live == first.live
    expect(page.locator("h1")).to_have_text("threading")
    expect(page.locator(".groups")).to_contain_text("accept4")
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_too_many_gets_an_error(serve: Serve, browser: Browser) -> None:
    served = serve("epoll")
    context = browser.new_context()
    pages = [context.new_page() for _ in range(PAGES_MOST + 1)]
    for page in pages:
        page.goto(f"http://127.0.0.1:{served.live[1]}/live")
        told = "too many pages like this" if page is pages[-1] else "live"
        expect(page.locator("#state")).to_contain_text(told)
    pages[0].keyboard.press("s")
    expect(pages[0].locator("#doing")).to_contain_text("1 silent client")
    pages[1].close()
    expect(pages[-1].locator("#state")).to_have_text("live")
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_page_fits_everywhere(serve: Serve, opened: Callable[..., Page]) -> None:
    served = serve("preforking")
    for width in (360, 1200):
        for scheme in ("light", "dark"):
            size = {"width": width, "height": 800}
            assert_fits(opened(served, viewport=size, color_scheme=scheme), scheme)


def assert_fits(page: Page, scheme: str) -> None:
    expect(page.locator(".groups")).to_contain_text("children")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if scheme == "light":
        assert hindrances(page) == []  # in both schemes
    page.emulate_media(forced_colors="active")
    marks = page.locator(".mark").evaluate_all(
        "all => all.map(m => getComputedStyle(m).backgroundColor)"
    )
    assert len(set(marks)) == 3
    page.emulate_media(media="print", forced_colors="none")
    expect(page.locator(".actions")).to_be_hidden()
    expect(page.locator(".groups")).to_be_visible()
