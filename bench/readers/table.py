# SPDX-License-Identifier: MIT
"""The table of requests per second: a column for each server, a row for each concurrency level."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from bench.readers.console import Field, Table
from bench.records.conditions import Conditions, RunSpec
from bench.records.figures import grouped
from bench.records.points import Point, data_points, runs_in_words
from bench.records.results import Results

HEAD_LINES = 5
"""The number of lines for the title, the head and the rules of a table."""
NOTES_LIVE = 3
SERVERS_ACROSS = 8
"""The most servers in a table at the end of a sweep, because terminals are narrow."""
STYLE = {"failed": "red", "skipped": "yellow"}


Notes: TypeAlias = dict[str, list[Point]]
"""The data points without a result, by reason. The reasons are numbered from 1."""


def _places(cells: Sequence[Point]) -> str:
    """Return e.g. `forking at 500, 1,000; poll at 1,000`, with the conditions if they differ."""
    differ = len({cell.conditions for cell in cells}) > 1
    names = [f"{c.subject} ({c.conditions.describe()})" if differ else c.subject for c in cells]
    levels = grouped(zip(names, (f"{cell.level:,}" for cell in cells), strict=True))
    return "; ".join(f"{who} at {', '.join(at)}" for who, at in levels.items())


def result_table(
    results: Results, current: RunSpec | None = None, lines: int | None = None
) -> RenderableType:
    """Return the tables of the results so far, one for each set of conditions. Below are the
    reasons for missing results.

    During a sweep, `lines` is the number of available lines, and `current` is the run in progress,
    if any. Only the current conditions, the levels near the current level and the last NOTES_LIVE
    notes are shown. At the end of a sweep (`lines` is None), rows without results are left out, and
    many servers are split into several tables.
    """
    at_hand = [conditions for conditions in results.conditions() if conditions.rated]
    if lines is not None:
        at_hand = [current.conditions] if current else at_hand[-1:]
    notes: Notes = {}
    parts = [_one_table(results, c, notes, current, lines) for c in at_hand]
    reasons = [
        Text(f"[{number}] {_places(cells)}: {text}", style=STYLE.get(cells[0].state, ""))
        for number, (text, cells) in enumerate(notes.items(), 1)
    ]
    return Group(*parts, *reasons[0 if lines is None else -NOTES_LIVE :])


def _one_table(
    results: Results,
    conditions: Conditions,
    notes: Notes,
    current: RunSpec | None,
    lines: int | None,
) -> RenderableType:
    points = [point for point in data_points(results).values() if point.conditions == conditions]
    cells = {(point.subject, point.level): point for point in points}
    measured = {point.subject for point in points}
    subjects = [name for name in results.servers if current or name in measured]
    tables = []
    for part in _parts(subjects) if lines is None else [subjects]:
        table = Table("clients", *part)
        for level in _levels_shown(results, current, lines):
            if lines is not None or any((s, level) in cells for s in part):
                row = [_field(cells.get((s, level)), s, level, current, notes) for s in part]
                table.add_row(f"[bold]{level:,}[/]", *row)
        tables.append(table)
    several = any(len(point.runs) > 1 for point in points)
    median = f", {runs_in_words(points)} and their spread" if several else ""
    title = Text(f"Requests per second: {conditions.describe()}{median}", style="bold")
    bound, outlier = any(c.lower_bound for c in points), any(c.outliers for c in points)
    legend = [Text("> lower bound: the load generator was at its limit")] * bound
    legend += [Text("! outlier: a run differs much from the other runs")] * outlier
    return Group(title, *tables, *legend)


def _parts(subjects: Sequence[str]) -> list[Sequence[str]]:
    """Split the servers into as few parts as possible, of about equal length."""
    count = max(1, math.ceil(len(subjects) / SERVERS_ACROSS))
    length = max(1, math.ceil(len(subjects) / count))
    return [subjects[at : at + length] for at in range(0, len(subjects), length)]


def _levels_shown(results: Results, current: RunSpec | None, lines: int | None) -> list[int]:
    room = len(results.levels) if lines is None else max(1, lines - HEAD_LINES - NOTES_LIVE)
    if room >= len(results.levels):
        return results.levels
    levels = [current.concurrency] if current else [run.concurrency for run in results.runs]
    last = max(levels, default=results.levels[0])
    return results.levels[: max(room, results.levels.index(last) + 1)][-room:]


def _field(
    cell: Point | None, subject: str, level: int, current: RunSpec | None, notes: Notes
) -> Field:
    """Return a rate, with the spread of several runs; or a failure with the number of its note."""
    if current and (current.subject, current.concurrency) == (subject, level):
        return Field("...", style="bold cyan")
    if cell is None:
        return Field("")
    if rate := cell.spread("rate"):
        text = f"{'>' if cell.lower_bound else ''}{rate.median:,.0f}"
        if len(cell.runs) > 1:
            spread = (rate.high - rate.low) / 2 / rate.median
            text += f" ±{spread:.0%}" + ("!" if cell.outliers else "")
        return Field(text)
    label, text = (cell.reason.label, cell.reason.text) if cell.reason else (cell.state, "")
    notes.setdefault(text, []).append(cell)
    number = 1 + [*notes].index(text)
    return Field(f"{label} [{number}]", style=STYLE.get(cell.state, ""))
