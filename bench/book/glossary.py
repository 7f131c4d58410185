# SPDX-License-Identifier: MIT
"""Links from the words of a page to their entries in the glossary.

An entry of docs/reference/glossary.md begins with `**word, other word**:`.
"""

import re
from collections.abc import Mapping

EVERYDAY = (
    *("agent", "condition", "configuration", "factor", "layer", "package", "ranking", "run"),
    *("slot", "trial", "connection", "need", "poll", "request", "response"),
)
"""Words without links: frequent words, and words with a different meaning in most sentences."""
UNTOUCHED = (
    r"<(code|pre|a|h\d|svg|summary|figcaption)\b.*?</\1>|<table class=.pairs.*?</table>|<[^>]*>"
)
"""Elements whose text gets no links, and all tags."""


def words(text: str) -> dict[str, str]:
    """Return the anchor of each word (in lower case) that the glossary explains, except EVERYDAY
    words."""
    found = {}
    for entry in re.findall(r"^\*\*(.+?)\*\*:", text, re.MULTILINE):
        for word in entry.split(","):
            found[word.strip().lower()] = _anchor(entry)
    return {word: anchor for word, anchor in found.items() if word not in EVERYDAY}


def _anchor(entry: str) -> str:
    return re.sub(r"\W+", "-", entry.lower()).strip("-")


def anchored(html: str) -> str:
    """Return the page of the glossary with an anchor at each entry."""

    def mark(match: re.Match[str]) -> str:
        return f'<p id="{_anchor(match[1])}"><strong>{match[1]}</strong>:'

    return re.sub(r"<p><strong>(.+?)</strong>:", mark, html)


def linked(html: str, known: Mapping[str, str], page: str) -> str:
    """Return the HTML with a link from the first use of each word to its entry. `known`: the anchor
    of each word; `page`: the address of the glossary."""
    alternatives = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    pattern = re.compile(rf"{UNTOUCHED}|\b({alternatives})(s?)\b", re.IGNORECASE | re.DOTALL)
    seen: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        word, plural = match[2], match[3]
        if word is None or word.lower() in seen:
            return match[0]
        seen.add(word.lower())
        return f'<a class="word" href="{page}#{known[word.lower()]}">{word}{plural}</a>'

    return pattern.sub(replace, html)
