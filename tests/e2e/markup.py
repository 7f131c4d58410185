# SPDX-License-Identifier: MIT
"""Parse pages for the tests."""

import html
import re
from xml.etree import ElementTree


def assert_well_formed(page: str) -> None:
    """Assert that a page is a whole HTML document whose tags are all closed in order. No other void
    elements than `meta` and `link` are allowed."""
    doctype, _, rest = page.partition("\n")
    assert doctype.lower() == "<!doctype html>", page[:100]
    try:  # in XML every tag must be closed
        document = ElementTree.fromstring(re.sub(r"<((?:meta|link) [^>]*)>", r"<\1/>", rest))
    except ElementTree.ParseError as error:
        raise AssertionError(f"{error}: {page}") from error
    assert document.tag == "html", page
    assert document.find(".//title") is not None, page


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
