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
from collections.abc import Sequence

from bench.book.curve import curve
from bench.book.render import annotated, excerpt, step
from bench.book.source import NoSuchFunction, function
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.results import Results
from bench.timeline.command import kept
from bench.timeline.page import figure, picture

LINE = re.compile(r"^:: (.+)$", re.MULTILINE)


def html(line: str, measured: Sequence[Results] = ()) -> str:
    """Return the HTML of a directive, given without its colons. `measured`: the results whose
    curves it shows. Raises UserError if it is unknown, or quotes a source that does not exist."""
    try:
        return _html(line, measured)
    except (OSError, NoSuchFunction) as error:
        raise UserError(f"'{line}' quotes a source that does not exist: {error}") from error


def _html(line: str, measured: Sequence[Results]) -> str:
    match line.split():
        case ["source", name]:
            made = annotated(name, _text(name), None)
        case ["source", name, "since", before]:
            made = annotated(name, _text(name), (before, _text(before)))
        case ["function", name, part]:
            made = excerpt(f"{name}: {part}", _text(name), function(_text(name), part))
        case ["step", one, other]:
            made = step((one, other), (_text(one), _text(other)))
        case ["pair", one, first, other, second]:
            names = (f"{one}: {first}", f"{other}: {second}")
            made = step(names, (_text(one), _text(other)), (first, second))
        case ["timeline", server, *rest] if len(rest) < 2:
            made = figure(picture(kept([server], "".join(rest) or "eight")[0]))
        case ["curve", _, *_]:
            made = curve(measured, line.split()[1:])
        case _:
            raise UserError(f"this directive is not understood: {line}")
    return made


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
