# SPDX-License-Identifier: MIT
"""Check the expectations of a study: limits for figures, or for ratios of two servers' figures.

An expectation is checked if its data were measured. The baseline's ratio is also shown. If even the
baseline misses a limit, this machine cannot reach the limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from bench.readers.console import Table, say
from bench.records.conditions import CellKey
from bench.records.points import BY_KEY, Point, data_points, ratio
from bench.records.results import BASELINE, ITSELF, Expect, Results
from bench.records.values import toml_of
from bench.records.words import figure, plural

STANDARD = Path(__file__).parents[1] / "studies" / "measure.toml"
MANY = 10_000
"""Data points with at least this many connections are in the table "Many connections at once"."""
USUAL = {"idle": 0, "without": "", "change": ""}
"""An expectation applies only under these conditions, unless it names other values."""
Points = Mapping[CellKey, Point]


class Comparison(NamedTuple):
    """A data point with its expectation, and the data point that it is compared with, if any."""

    expect: Expect
    what: Point
    against: Point | None  # None: the limit is for the figure itself.
    least: float | None = None
    """The ratio of the baseline's figure to the other side's figure; None: not measured."""

    @property
    def value(self) -> float | None:
        """Return the figure, or the ratio of the two figures; None if a figure is missing."""
        if self.against:
            return ratio(self.what, self.against, self.expect.figure)
        found = self.what.of_all(self.expect.figure)
        return found.median if found else None

    @property
    def judged(self) -> bool:
        """Return whether the comparison counts as met or missed. Without a limit it counts only
        (as missed) if a figure is missing."""
        return self.expect.limit is not None or self.value is None

    @property
    def met(self) -> bool:
        """Return whether the figure was measured and meets the limit."""
        return self.value is not None and self.expect.allows(self.value)

    @property
    def out_of_reach(self) -> bool:
        """Return whether both the server and its baseline miss the limit."""
        sides = (self.value, self.least)
        return not any(side is None or self.expect.allows(side) for side in sides)


def expected_of(results: Results) -> list[Expect]:
    """Return the expectations in a record; if it has none, return measure.toml's expectations."""
    said = toml_of(STANDARD)["expect"]
    standard = [Expect.model_validate(one) for one in said] if isinstance(said, list) else []
    return results.expect or standard


def comparisons(results: Results, expected: Sequence[Expect]) -> list[Comparison]:
    """Return all comparisons for which the results have data."""
    points = data_points(results)
    found = []
    for expect in expected:
        for key, point in points.items():
            if not _applies(expect, key, expected):
                continue
            if not expect.versus:
                found.append(Comparison(expect, point, None))
            for name in expect.versus:
                if against := points.get(_other(expect, key, name)):
                    least = _least(key, against.key, points, expect.figure)
                    found.append(Comparison(expect, point, against, least))
    return found


def _applies(expect: Expect, key: CellKey, expected: Sequence[Expect]) -> bool:
    """Return whether an expectation applies to a configuration. No expectation applies to a
    baseline."""
    asked, wanted = key.conditions, {**USUAL, **expect.conditions}
    if expect.server not in ("", key.subject) or key.is_baseline:
        return False
    named = expect.model_copy(update={"server": key.subject})
    if any(
        named == one.model_copy(update={"limit": expect.limit})
        for one in expected
        if one.server != expect.server
    ):
        return False  # an entry for this server replaces an entry for all servers
    return (
        asked.workload in (expect.workloads or (asked.workload,))
        and expect.level in (None, key.concurrency)
        and (asked.rated or "mode" in wanted)
        and all(getattr(asked, name) == value for name, value in wanted.items())
    )


def _other(expect: Expect, key: CellKey, name: str) -> CellKey:
    """Return the configuration that `key` is compared with."""
    than = dict(expect.than)
    level = int(than.pop("level", key.concurrency))
    subject = {BASELINE: key.baseline.subject, ITSELF: key.subject}.get(name, name)
    return CellKey(subject, key.conditions._replace(**than), level)  # type: ignore[arg-type]


def _least(what: CellKey, against: CellKey, points: Points, key: str) -> float | None:
    """Return the baseline's ratio to the other side; None if the other side is the baseline. If a
    server is compared with itself, so is the baseline."""
    if against.subject == what.baseline.subject:
        return None
    if against.subject == what.subject:
        against = against.baseline
    return ratio(points.get(what.baseline), points.get(against), key)


OTHER_TABLES = {
    "User memory of a connection": ("memory_before", "memory_with", "memory_each"),
    "Many connections at once": ("rate", "max", "cpu_load"),
    "System calls per request": ("calls", "writes"),
}
"""The titles of the tables without ratios, with the keys of their figures."""


def show(results: Results, expected: Sequence[Expect], out: Console, every: bool = False) -> int:
    """Print the measured data and the limits. Return 0 if all limits are met; 1 if there is none, a
    limit is missed or has no valid result, or the sweep is not complete. `every`: each expectation
    must have data."""
    compared, cells = comparisons(results, expected), data_points(results).values()
    rated = [one for one in compared if not one.what.conditions.asks_once]
    sizes = [(one.what, _verdict(one)) for one in compared if one.what.conditions.asks_once]
    many = [(cell, "") for cell in cells if cell.conditions.rated and cell.level >= MANY]
    traced = [(cell, _often(cell)) for cell in cells if cell.conditions.mode == "traced"]
    tables = [_ratio_table(rated, key) for key in dict.fromkeys(x.expect.figure for x in rated)]
    for (title, keys), rows in zip(OTHER_TABLES.items(), (sizes, many, traced), strict=True):
        tables += [(title, _figure_table(rows, keys))] if rows else []
    for title, table in tables:
        out.print(f"[bold]{title}[/]")
        out.print(table)
    for cell in cells:
        if cell.reason:
            where = f"{cell.subject}, {cell.conditions.describe()} at {cell.level:,}"
            say(out, f"no valid result: {where}: {cell.reason.text}")
    met = [one.met for one in compared if one.judged]
    met += [cell.state == "held" for cell, _ in (*many, *traced)]
    for number, expect in enumerate(expected if every else (), 1):
        if not any(one.expect is expect for one in compared):
            say(out, f"expect[{number}] applies to no measured configuration")
            met.append(False)
    out.print(f"{sum(met)} of {len(met)} met" if met else "These results have no targets.")
    if beyond := sum(one.out_of_reach for one in compared):
        missed = plural(beyond, "missed target is", "missed targets are")
        out.print(f"{missed} out of reach, because the baseline also misses the limit.")
    return int(results.state != "complete" or not met or not all(met))


def _ratio_table(rated: Sequence[Comparison], key: str) -> tuple[str, Table]:
    """Return the title and the table of one figure."""
    found, metric = [one for one in rated if one.expect.figure == key], BY_KEY[key]
    title, unit = metric.label, metric.unit or key
    if key == "cpu_load":
        title, unit = "CPU time per request", "us/request"
    table = Table("<conditions", "<server", unit, "range", "own", "ratio", "baseline", "<")
    several = len({one.what.level for one in found}) > 1
    for one in found:
        verdict = _verdict(one) + (", out of reach" if one.out_of_reach else "")
        quotient = "-" if one.value is None else f"{one.value:.2f}" if one.against else ""
        least = "" if one.least is None else f"{one.least:.2f}"
        levels = several or one.what.level >= MANY
        table.add_row(*_figure_row(one.what, key, levels), quotient, least, verdict)
        if one.against:
            table.add_row(*_figure_row(one.against, key, levels), "", "", "")
    return title, table


def _figure_row(point: Point, key: str, level: bool) -> list[str]:
    where = point.conditions.describe() + (f", {point.level:,} at once" if level else "")
    found = point.of_all(key)
    own = point.of_all("cpu_own") if key == "cpu_load" and found else None
    figures = ("no figure", "")
    if found:
        figures = f"{found.median:,.1f}", f"{found.low:,.1f} - {found.high:,.1f}"
    return [where, point.subject, *figures, f"{own.median:.1f}" if own else ""]


def _figure_table(points: Iterable[tuple[Point, str]], keys: Sequence[str]) -> Table:
    """Return a table of medians. `points`: data points, each with the text of its last column."""
    heads = (", ".join(filter(None, (BY_KEY[key].label, BY_KEY[key].unit))) for key in keys)
    table = Table("<conditions", "<server", "connections", *heads, "<")
    for point, text in points:
        start = (point.conditions.describe(), point.subject, f"{point.level:,}")
        table.add_row(*start, *(figure(point.get(key)) for key in keys), text)
    return table


def _often(point: Point) -> str:
    """Return the frequent system calls of a traced server, with their numbers per request."""
    calls = point.typical and point.typical.calls
    return ", ".join(f"{name} {number:.2f}" for name, number in calls.often) if calls else ""


def _verdict(one: Comparison) -> str:
    limit = one.expect.limit
    if limit is None:
        return "no target"
    words = f"{one.expect.sense} {limit:.2f}" if limit < 100 else f"{one.expect.sense} {limit:,.0f}"
    return f"met ({words})" if one.met else f"[red]missed[/] ({words})"
