# SPDX-License-Identifier: MIT
"""The curve of the newest results: requests a second over connections, of some of the servers."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import vl_convert

from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.store import load
from bench.report.charts.catalogue import catalogue
from bench.report.charts.export import whole
from bench.report.study.study import Study, describe

NONE_YET = (
    '<p class="none">Here stands the curve of your own machine, once there is one: '
    "<code>make bench</code>, then <code>make book</code>.</p>"
)


def newest(folder: Path) -> Results | None:
    """The newest sweep below a folder that can be read and has runs; None if there is none."""
    for path in sorted(folder.glob("[0-9]*/results.json"), reverse=True):
        try:
            results = load(path)
        except UserError:
            continue  # of a newer version, or half a file: an older one will do
        if results.runs:
            return results
    return None


def curve(results: Results | None, names: Sequence[str]) -> str:
    """The chart of these servers, once for light pages and once for dark ones; or where it will
    come from. The last one is the chapter's own: without it there is none."""
    if results is None or names[-1] not in results.servers:
        return NONE_YET
    runs = [run for run in results.runs if run.subject in names and run.conditions.rated]
    study = Study(results.model_copy(update={"runs": runs, "servers": list(names)}))
    if not study.points or all(point.subject.name != names[-1] for point in study.points):
        return NONE_YET
    scenario = study.scenarios[0]
    made, level, key = catalogue(study), study.reference(scenario), study.keys[scenario]
    exhibit = made.exhibits["rates"]
    title = exhibit.title(key, level), describe(scenario)
    drawn = [
        vl_convert.vegalite_to_svg(whole(study, made, exhibit, title, (key, level), theme))
        for theme in (0, 1)
    ]
    # For a reader who hears the page it is one picture with its words, and not each of its marks.
    begun = results.started.strftime("%Y-%m-%d")
    caption = f"The newest results here, begun {begun}: <code>make bench</code>."
    pictures = "".join(
        f'<div class="{kind}" role="img" aria-label="{escape(title[0])}">'
        f"{svg.replace('<svg ', '<svg aria-hidden=true ', 1)}</div>"
        for kind, svg in zip(("on-light", "on-dark"), drawn, strict=True)
    )
    return f'<figure class="curve">{pictures}<figcaption>{caption}</figcaption></figure>'
