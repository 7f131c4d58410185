# SPDX-License-Identifier: MIT
"""Directives: lines of a document that begin with two colons and stand for a piece of HTML.

:: source FILE [since FILE]     the whole annotated file; marks what is new since the other
:: function FILE NAME           one function of it, with its comment
:: step FILE FILE               two files side by side, the unchanged folded
:: pair FILE NAME FILE NAME     two functions side by side
:: timeline SERVER [SCENARIO]   the picture of a recorded trace, and a sentence on what it shows
:: curve SERVER ...             the newest curve of the last of these servers, with the others'
"""

import re
from collections.abc import Callable, Sequence

from bench.book.curve import curve
from bench.book.render import annotated, excerpt, step
from bench.book.source import NoSuchFunction, function
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.results import Results
from bench.timeline.command import kept
from bench.timeline.page import figure, picture

LINE = re.compile(r"^:: (.+)$", re.MULTILINE)
WORDS = {
    "source": (1, 3),
    "function": (2, 2),
    "step": (2, 2),
    "pair": (4, 4),
    "timeline": (1, 2),
    "curve": (1, 9),
}
"""The least and the greatest number of words of each directive."""


def html(line: str, measured: Sequence[Results] = ()) -> str:
    """Return the HTML of a directive, given without its colons. `measured`: the results whose
    curves it shows. Raises UserError if it is unknown, or quotes a source that does not exist."""
    kind, *words = line.split()
    least, greatest = WORDS.get(kind, (1, 0))
    if not least <= len(words) <= greatest:
        raise UserError(f"this directive is not understood: {line}")
    try:
        return _html(kind, words, measured)
    except (OSError, NoSuchFunction) as error:
        raise UserError(f"'{line}' quotes a source that does not exist: {error}") from error


def _html(kind: str, words: Sequence[str], measured: Sequence[Results]) -> str:
    texts = [(ROOT / name).read_text() for name in words if name.endswith((".c", ".h"))]
    made: dict[str, Callable[[], str]] = {
        "source": lambda: annotated(
            words[0], texts[0], (words[2], texts[1]) if texts[1:] else None
        ),
        "function": lambda: excerpt(
            f"{words[0]}: {words[1]}", texts[0], function(texts[0], words[1])
        ),
        "step": lambda: step((words[0], words[1]), (texts[0], texts[1])),
        "pair": lambda: step(
            (f"{words[0]}: {words[1]}", f"{words[2]}: {words[3]}"),
            (texts[0], texts[1]),
            (words[1], words[3]),
        ),
        "curve": lambda: curve(measured, words),
        "timeline": lambda: figure(picture(kept(words[:1], "".join(words[1:]) or "eight")[0])),
    }
    return made[kind]()
