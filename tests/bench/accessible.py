# SPDX-License-Identifier: MIT
"""Whether everybody can use a page: what axe finds in it, in the browser.

axe tries what a program can try: contrast, names for what is heard and not seen, an order of
headings, a keyboard that reaches all. What it does not find is no proof that all is well.
"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SCHEMES = ("light", "dark")


def hindrances(page: Page) -> list[str]:
    """Each rule that the page breaks, in its light and its dark dress: the rule, one of the places,
    and in how many more."""
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for broken in Axe().run(page).response["violations"]:
            first, *more = broken["nodes"]
            place = " ".join(map(str, first["target"]))
            found.append(f"{scheme}: {broken['help']}: {place}, and {len(more)} more")
    return found
