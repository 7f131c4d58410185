# SPDX-License-Identifier: MIT
"""Open pages in the browser, and check their accessibility with axe.

axe tests what a program can test: contrast, names for screen readers, the order of headings, the
keyboard. A page without findings may still have problems.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page

COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules that depend on colours, which are checked again in the dark scheme."""
SETTLED = """async () => {
    await new Promise(requestAnimationFrame);
    const ends = (one) => one.effect.getComputedTiming().endTime < Infinity;
    await Promise.allSettled(document.getAnimations().filter(ends).map((one) => one.finished));
}"""
"""JavaScript that waits for the end of all animations (e.g. of colours), except endless ones."""


def hindrances(page: Page, part: dict[str, list[str]] | None = None) -> list[str]:
    """Return a line for each rule that the page breaks in light or dark colours: the rule, one
    element, and the number of further elements. `part` has selectors to "include" and "exclude"."""
    found = []
    for scheme, rules in (("light", None), ("dark", COLOURS)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.evaluate(SETTLED)
        for broken in Axe().run(page, context=part, options=rules).response["violations"]:
            first, *more = broken["nodes"]
            place = " ".join(map(str, first["target"]))
            found.append(f"{scheme}: {broken['help']}: {place}, and {len(more)} more")
    return found


UNUSED: list[Page] = []
"""Pages that can be used again, because a new page costs Chromium about a second of CPU time."""
USUAL = {"media": "null", "forced_colors": "null", "color_scheme": "light"}


@contextmanager
def opened(
    browser: Browser, *allowed: str, viewport: Any = None, color_scheme: str = "light"
) -> Iterator[Page]:
    """Yield an empty page. Each requested address, error and console message must begin with one of
    the `allowed` texts ("" allows all). `data:` and `blob:` addresses are allowed."""
    page, events = UNUSED.pop() if UNUSED else browser.new_page(), list[str]()
    page.set_viewport_size(viewport or {"width": 1280, "height": 720})
    page.emulate_media(**(USUAL | {"color_scheme": color_scheme}))  # type: ignore[arg-type]
    listeners = {
        "pageerror": lambda error: events.append(str(error)),
        "console": lambda said: events.append(said.text),
        "request": lambda asked: events.append(asked.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    yield page
    with suppress(Error):  # some pages have no storage
        page.evaluate("localStorage.clear()")
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    page.unroute_all()
    page.mouse.move(0, 0)
    page.goto("about:blank")
    UNUSED.append(page)
    assert [one for one in events if not one.startswith((*allowed, "data:", "blob:"))] == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the address of a web server for the files of a folder."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
