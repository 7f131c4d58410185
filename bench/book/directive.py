# SPDX-License-Identifier: MIT
"""Replace directives by HTML. A directive is a line of a document that begins with two colons.

:: source FILE [since FILE]     the whole annotated file; lines that are new since FILE are marked
:: function FILE NAME           one function of a file, with its comment
:: step FILE FILE               code of two files side by side; long equal parts are folded
:: pair FILE NAME FILE NAME     two functions side by side
:: timeline SERVER [SCENARIO]   the picture of a recorded trace, and a sentence about the trace
:: curve SERVER ...             the curves of these servers, from the last server's newest sweep
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

import vl_convert

from bench.book.listing import NoSuchFunction, annotated, excerpt, function, step
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.store import load
from bench.report.charts.catalogue import catalogue
from bench.report.study import Study
from bench.timeline.command import kept
from bench.timeline.page import figure
from bench.timeline.story import tell

LINE = re.compile(r"^:: (.+)$", re.MULTILINE)


def html(line: str, measured: Sequence[Results] = ()) -> str:
    """Return the HTML of a directive. `line`: the directive without its colons; `measured`: the
    results for a curve. Raises UserError if the directive is unknown or quotes a missing source."""
    try:
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
                made = figure(tell(kept([server], "".join(rest) or "eight")[0]))
            case ["curve", *servers] if servers:
                made = curve(measured, servers)
            case _:
                raise UserError(f"unknown directive: {line}")
    except (OSError, NoSuchFunction) as error:
        raise UserError(f"'{line}' quotes a source that does not exist: {error}") from error
    return made


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# ---- The newest curve: requests a second over connections, of some of the servers ----

NONE_YET = (
    '<p class="none">No curve of your machine yet. To make one: '
    "<code>make bench</code>, then <code>make site</code>.</p>"
)


def sweeps(folder: Path) -> list[Results]:
    """Return all readable results in a folder, the newest first."""
    found = []
    for path in sorted(folder.glob("[0-9]*/results.json"), reverse=True):
        with suppress(UserError):  # made by a newer version, or incomplete
            found.append(load(path))
    return found


def curve(measured: Sequence[Results], names: Sequence[str]) -> str:
    """Return the chart of these servers, for light and for dark pages; without results, return the
    commands that make it. The chart shows the newest sweep with at least two levels of the last
    server in `names`, so a short run for a course sheet does not remove a curve."""
    for results in measured:
        runs = [run for run in results.runs if run.subject in names and run.conditions.rated]
        study = Study(results.model_copy(update={"runs": runs, "servers": list(names)}))
        if len({point.level for point in study.points if point.subject == names[-1]}) > 1:
            return _drawn(study, results.started.strftime("%Y-%m-%d"))
    return NONE_YET


def _drawn(study: Study, begun: str) -> str:
    scenario = study.scenarios[0]
    made = catalogue(study)
    specs = [made.picture("rates", scenario, theme) for theme in (0, 1)]
    drawn = [vl_convert.vegalite_to_svg(spec) for spec in specs if spec]
    # A screen reader must present the chart as one picture with a text, not as hundreds of marks.
    caption = f"The newest curve of this machine, begun {begun}: <code>make bench</code>."
    pictures = "".join(
        f'<div class="{kind}" role="img" aria-label="{escape(made.titles()["rates"])}">'
        f"{svg.replace('<svg ', '<svg aria-hidden=true ', 1)}</div>"
        for kind, svg in zip(("on-light", "on-dark"), drawn, strict=True)
    )
    inside = f"{pictures}<figcaption>{caption}</figcaption>"
    return f'<figure class="curve" tabindex="0">{inside}</figure>'
