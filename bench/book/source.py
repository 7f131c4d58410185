# SPDX-License-Identifier: MIT
"""Split a C file into passages: a comment on its own lines, and the code after it."""

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$", re.MULTILINE | re.DOTALL)
"""A comment on lines of its own."""
_AFTER_BRACE = re.compile(r"(?<=^\})\n\n|(?<=^\};)\n\n", re.MULTILINE)
_DRAWN = re.compile(r"\S {3,}\S|[|+]--|--[+>]|^\s*\||\|\s*$")
"""Characters that occur in a line of a drawing but not in a line of prose."""


@dataclass
class Passage:
    """A comment and its code; either may be empty."""

    comment: list[str] = field(default_factory=list)
    """The lines of the comment, without the comment signs."""
    code: list[str] = field(default_factory=list)
    first: int = 0
    """The number of the first line of code in the file, from 1."""


def passages(text: str) -> list[Passage]:
    """Return the passages of a file in their order. A passage begins at a comment on lines of its
    own, or after an empty line that follows a line `}` or `};`."""
    found, end = [Passage()], 0
    for comment in (*_COMMENT.finditer(text), None):
        number = text.count("\n", 0, end) + 1
        for part in _AFTER_BRACE.split(text[end : comment.start() if comment else None]):
            lines = part.split("\n")
            there = [place for place, line in enumerate(lines) if line.strip()]
            if there and found[-1].code:
                found.append(Passage())
            if there:
                found[-1].code = lines[there[0] : there[-1] + 1]
                found[-1].first = number + there[0]
            number += len(lines) + 1
        if comment:
            found.append(Passage(_bare(comment[0])))
            end = comment.end()
    for passage in found:
        if passage.comment and passage.comment[0].startswith("SPDX-License-Identifier"):
            del passage.comment[0]
    return [one for one in found if one.code or one.comment]


def _bare(comment: str) -> list[str]:
    """Return the lines of a comment without the comment signs."""
    lines = (line.strip().removesuffix("*/").rstrip() for line in comment.splitlines())
    words = "\n".join(re.sub(r"^(/\*+ ?|\*( |$))", "", line) for line in lines)
    return words.strip("\n").splitlines()


def paragraphs(comment: list[str]) -> list[tuple[bool, list[str]]]:
    """Return the comment's paragraphs; True means a drawing or a table, with unchanged lines."""
    found: list[list[str]] = [[]]
    for line in comment:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    together: list[tuple[bool, list[str]]] = []
    for lines in filter(None, found):
        drawn = any(_DRAWN.search(line) for line in lines)
        if drawn and together and together[-1][0]:
            together[-1][1].extend(["", *lines])
        else:
            together.append((drawn, lines))
    return together


def code_alone(text: str) -> list[str | None]:
    """Return the lines of `text`. Comments on their own lines, and the empty lines before and after
    a passage's code, become None."""
    shown = {
        passage.first - 1 + offset
        for passage in passages(text)
        for offset in range(len(passage.code))
    }
    return [line if number in shown else None for number, line in enumerate(text.splitlines())]


class NoSuchFunction(LookupError):
    """A chapter quotes a function that does not exist."""


def function(text: str, name: str) -> tuple[int, int]:
    """Return the numbers (from 1) of the first and the last line of a function with its comment.
    Raises NoSuchFunction."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if not re.match(rf"^(?!\s)[\w\s*]*\b{re.escape(name)}\(", line):
            continue
        # A declaration (of one or several lines) has a semicolon before any brace.
        if re.match(r"[^{]*;", "\n".join(lines[place:])):
            continue
        end = next((n for n in range(place, len(lines)) if lines[n] == "}"), None)
        if end is None:
            continue
        begin = place
        while begin > 0 and lines[begin - 1].strip() and lines[begin - 1] not in ("}", "};"):
            begin -= 1
        return begin + 1, end + 1
    raise NoSuchFunction(name)
