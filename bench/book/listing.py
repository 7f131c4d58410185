# SPDX-License-Identifier: MIT
"""C files as HTML: the whole file with its comments next to the code and with marked new lines; one
function; two files or functions side by side."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, zip_longest

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CLexer

_COMMENT = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$", re.MULTILINE | re.DOTALL)
"""A comment on lines of its own."""
_DRAWN = re.compile(r"\S {3,}\S|[|+]--|--[+>]|^\s*\||\|\s*$")
"""Characters that occur in a line of a drawing but not in a line of prose."""
KEPT_AROUND = 2
"""The number of unchanged lines that are shown before and after a change."""
ESSAY_FROM = 8
"""The number of lines by which a comment next to its code may be longer than the code."""
ESSAY_WIDE = 64
"""The maximum number of characters in a line of a drawing next to the code, where a wider drawing
would be cut off."""
FOLDED_FROM = 2 * KEPT_AROUND + 4
"""The minimum length of a run of unchanged lines whose middle is folded."""

# ---- The parts of a C file ----


@dataclass
class Passage:
    """A comment and its code; either may be empty."""

    comment: list[str] = field(default_factory=list)
    """The lines of the comment, without the comment signs."""
    code: range = range(0)  # The numbers of the lines of code, from 1.


def passages(text: str) -> list[Passage]:
    """Return the passages of a file in their order. A passage begins at a comment on lines of its
    own, or after an empty line that follows a line `}` or `};`."""
    comments = {text.count("\n", 0, one.start()) + 1: one[0] for one in _COMMENT.finditer(text)}
    found, comment_end, before, splits = [Passage()], 0, "", False
    for number, line in enumerate(text.splitlines(), 1):
        if number in comments:
            found.append(Passage(_bare(comments[number])))
            comment_end = number + comments[number].count("\n")
        elif not line.strip():
            splits |= before in ("}", "};")
        elif number > comment_end:
            if splits and found[-1].code:
                found.append(Passage())
            found[-1].code = range(found[-1].code.start or number, number + 1)
            splits = False
        before = line
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
    together: list[tuple[bool, list[str]]] = []
    for has_words, group in groupby(comment, lambda line: bool(line.strip())):
        lines = [*group]
        drawn = any(_DRAWN.search(line) for line in lines)
        if has_words and drawn and together and together[-1][0]:
            together[-1][1].extend(["", *lines])
        elif has_words:
            together.append((drawn, lines))
    return together


class NoSuchFunction(LookupError):
    """A chapter quotes a function that does not exist."""


def function(text: str, name: str) -> tuple[int, int]:
    """Return the numbers (from 1) of the first and the last line of a function with its comment.
    Raises NoSuchFunction."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        is_named = re.match(rf"^(?!\s)[\w\s*]*\b{re.escape(name)}\(", line)
        # A declaration (of one or several lines) has a semicolon before any brace.
        if is_named and not re.match(r"[^{]*;", "\n".join(lines[place:])) and "}" in lines[place:]:
            begin = place
            while begin > 0 and lines[begin - 1].strip() and lines[begin - 1] not in ("}", "};"):
                begin -= 1
            return begin + 1, lines.index("}", place) + 1
    raise NoSuchFunction(name)


# ---- HTML ----

Pair = tuple[int | None, int | None]
"""The indices of a line of each file, to be shown side by side; None: no line on this side."""


def side_by_side(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[bool, list[Pair]]]:
    """Yield (equal, pairs) for each run of consecutive pairs of lines that are all equal or all
    different. The caller may fold a run of equal lines."""
    one, other = ([line.strip() for line in lines] for lines in (left, right))
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    for kind, begin, end, begin_right, end_right in blocks:
        yield kind == "equal", [*zip_longest(range(begin, end), range(begin_right, end_right))]


def new_lines(before: Sequence[str], after: Sequence[str]) -> set[int]:
    """Return the numbers (from 1) of the lines in `after` that are not in `before`, without empty
    lines."""
    runs = side_by_side(before, after)
    new = {place for equal, run in runs if not equal for _, place in run if place is not None}
    return {place + 1 for place in new if after[place].strip()}


def coloured(text: str) -> list[str]:
    """Return the HTML of each line of a C file, with colours."""
    html = highlight(text, CLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return str(html).splitlines()


def styles() -> tuple[str, str]:
    """Return the CSS of code for light and dark pages. The two styles of Pygments have a contrast
    of at least 4.5 on all backgrounds of code."""
    both = [HtmlFormatter(style=name, nobackground=True) for name in ("xcode", "github-dark")]
    light, dark = (str(one.get_style_defs([".code", ".highlight"])) for one in both)  # type: ignore[no-untyped-call]
    return light, dark


def annotated(name: str, text: str, before: tuple[str, str] | None) -> str:
    """Return the HTML of a whole file: comments left, code right. `before`: the name and text of an
    earlier file; lines that the earlier file does not have are marked."""
    new = new_lines(before[1].splitlines(), text.splitlines()) if before else set()
    html = coloured(text)
    rows = []
    for passage in passages(text):
        code = "".join(_numbered(n, html[n - 1], n in new) for n in passage.code)
        kind = " essay" if _is_essay(passage) else ""
        rows.append(
            f'<div class="passage{kind}"><div class="comment">{_prose(passage.comment)}</div>'
            f'<pre class="code">{code}</pre></div>'
        )
    since = f"<small>+ new since {escape(before[0])}</small>" if before else ""
    title = f'<h2 class="name">{escape(name)}{since}</h2>'
    return f'<section class="file" aria-label="{escape(name)}">{title}{"".join(rows)}</section>'


def _is_essay(passage: Passage) -> bool:
    """Return whether the comment is so long or wide that it is shown above its code."""
    drawn = [line for is_drawn, part in paragraphs(passage.comment) if is_drawn for line in part]
    wide = any(len(line) > ESSAY_WIDE for line in drawn)
    return wide or len(passage.comment) > ESSAY_FROM + len(passage.code)


def excerpt(name: str, text: str, lines: tuple[int, int]) -> str:
    """Return the HTML of some lines. `lines`: the numbers of the first and the last, from 1."""
    html = coloured(text)
    shown = "".join(_numbered(n, html[n - 1], new=False) for n in range(lines[0], lines[1] + 1))
    title = f"<figcaption>{escape(name)}</figcaption>"
    return f'<figure class="excerpt">{title}<pre class="code">{shown}</pre></figure>'


def step(
    names: tuple[str, str], texts: tuple[str, str], names_in: tuple[str, str] = ("", "")
) -> str:
    """Return the HTML of two files side by side: their code without comments, or one function of
    each file with the comments inside it. Raises NoSuchFunction."""
    sides = [_code(text, name) for text, name in zip(texts, names_in, strict=True)]
    left, right = ([line for line, _ in side] for side in sides)
    rows: list[str] = []
    for same, run in side_by_side(left, right):
        for folded, part in _folds(run, same):
            cells = "".join(_row(pair, same, sides) for pair in part)
            table = f'<table class="pairs{" same" if same else ""}">{cells}</table>'
            summary = f"<summary>{len(part)} lines are the same</summary>"
            rows.append(f"<details>{summary}{table}</details>" if folded else table)
    heads = "".join(f"<span>{escape(name)}</span>" for name in names)
    return f'<section class="step"><h2 class="name">{heads}</h2>{"".join(rows)}</section>'


def _code(text: str, name: str) -> list[tuple[str, str]]:
    """Return the lines (text, HTML) of a file's code, or of a function with the comments inside."""
    lines, html = text.splitlines(), coloured(text)
    shown = [number for passage in passages(text) for number in passage.code]
    if name:
        first, last = function(text, name)
        shown = [*range(next(number for number in shown if number >= first), last + 1)]
    return [(lines[n - 1], _numbered(n, html[n - 1], new=False)) for n in shown]


def _folds(run: Sequence[Pair], same: bool) -> list[tuple[bool, Sequence[Pair]]]:
    """Split the run into at most three parts. Return (folded, pairs) for each part."""
    if not same or len(run) < FOLDED_FROM:
        return [(False, run)]
    edge = KEPT_AROUND
    return [(False, run[:edge]), (True, run[edge:-edge]), (False, run[-edge:])]


def _row(pair: Pair, same: bool, sides: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a table row with a line of each side. `sides`: the lines, see `_code`."""
    cells = []
    for place, lines, sign in zip(pair, sides, ("gone", "new"), strict=True):
        html = "" if place is None else lines[place][1]
        cells.append(f'<td class="code{f" {sign}" if html and not same else ""}">{html}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _numbered(number: int, html: str, new: bool) -> str:
    mark = '<i class="mark" title="new here">+</i>' if new else '<i class="mark"></i>'
    return f'<span class="line">{mark}<i class="number">{number}</i>{html}</span>'


def _prose(comment: list[str]) -> str:
    """Return the HTML paragraphs of a comment."""
    parts = []
    for drawn, lines in paragraphs(comment):
        if drawn:
            # On a narrow page the drawing scrolls, so it must be accessible by keyboard.
            drawing = escape("\n".join(lines))
            parts.append(f'<pre role="img" aria-label="A drawing" tabindex="0">{drawing}</pre>')
        else:
            parts.append(f"<p>{_inline(' '.join(line.strip() for line in lines))}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    """Return the HTML of a comment's words, with text in back-quotes, calls and constants as
    code."""
    html = escape(text, quote=False)
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", html)
    return re.sub(
        r"(?<![\w>/.])([a-z_0-9]+\(\d?\)|[A-Z][A-Z0-9]*_[A-Z0-9_]+)", r"<code>\1</code>", html
    )
