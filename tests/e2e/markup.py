# SPDX-License-Identifier: MIT
"""Parse pages for the tests."""

import html
import re
from html.parser import HTMLParser

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)


class _Nesting(HTMLParser):
    """Checks the nesting of tags; stores the first wrong tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problem = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problem = self.problem or f"</{tag}> inside {self.open}"
        else:
            self.open.pop()


def assert_well_formed(page: str) -> None:
    """Assert that a page is a whole HTML document whose tags are all closed in order."""
    assert page.lower().startswith("<!doctype html>"), page[:100]
    parser = _Nesting()
    parser.feed(page)
    parser.close()
    assert not parser.problem, parser.problem
    assert not parser.open, f"never closed: {parser.open}"
    for needed in ("<html", "<title"):
        assert needed in page.lower(), f"{needed}> is missing"


def remarks_html(page: str) -> list[str]:
    """Return the remarks of a guestbook page as HTML source."""
    return re.findall(r'<li class="remark"><p>(.*?)</p></li>', page, re.DOTALL)


def remarks(page: str) -> list[str]:
    """Return the remarks of a guestbook page as a reader sees them, in order."""
    return [html.unescape(text) for text in remarks_html(page)]


def part(page: str, name: str) -> str:
    """Return the content of <p id="name"> as a reader sees it."""
    match = re.search(rf'<p id="{name}">(.*?)</p>', page, re.DOTALL)
    assert match is not None, f"no {name} in {page}"
    return html.unescape(match[1])


def typed(page: str) -> tuple[str, str]:
    """Return the name and the remarks in the form of a guestbook page."""
    name = re.search(r'<input name="guest-name" value="([^"<>]*)">', page)
    text = re.search(r'<textarea name="guest-remarks">([^<>]*)</textarea>', page)
    assert name is not None, f"no name in the form of {page}"
    assert text is not None, f"no remarks in the form of {page}"
    return html.unescape(name[1]), html.unescape(text[1])
