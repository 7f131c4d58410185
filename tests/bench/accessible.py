# SPDX-License-Identifier: MIT
"""Check the accessibility of a page with axe, in the browser.

axe tests what a program can test: contrast, names for screen readers, the order of headings, the
keyboard. A page without findings may still have problems.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules about colours: all others find the same in the dark."""
SETTLED = """async () => {
    await new Promise(requestAnimationFrame);
    const ends = (one) => one.effect.getComputedTiming().endTime < Infinity;
    await Promise.allSettled(document.getAnimations().filter(ends).map((one) => one.finished));
}"""
"""Waits until the transitions to other colours have ended."""


def hindrances(page: Page, part: dict[str, list[str]] | None = None) -> list[str]:
    """Return each rule that the page breaks, light and dark: the rule, one place, and the number of
    others. `part`: selectors, by "include" and "exclude", of what is checked."""
    found = []
    for scheme, rules in (("light", None), ("dark", COLOURS)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.evaluate(SETTLED)
        for broken in Axe().run(page, context=part, options=rules).response["violations"]:
            first, *more = broken["nodes"]
            place = " ".join(map(str, first["target"]))
            found.append(f"{scheme}: {broken['help']}: {place}, and {len(more)} more")
    return found


@contextmanager
def opened(browser: Browser, **how: Any) -> Iterator[tuple[Page, list[str]]]:
    """Yield a new page and its events: the addresses it requests, errors, console messages."""
    page, events = browser.new_page(**how), list[str]()
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("console", lambda said: events.append(said.text))
    page.on("request", lambda asked: events.append(asked.url))
    yield page, events
    page.close()
