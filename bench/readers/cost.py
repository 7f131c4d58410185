# SPDX-License-Identifier: MIT
"""Analyse the CPU cost of a request.

Compared servers were measured alternately. A disturbance of the machine affects runs with the same
number equally. So the cost in each run is divided by the other server's cost in the run with the
same number. The figure is the median of these ratios. If a run is not valid or has no cost, there
is no figure.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from bench.readers.console import Field, Table
from bench.records.conditions import CHANGES, OPTIMISATIONS, PLAIN_PREFIX, CellKey, Conditions, Mode
from bench.records.figures import QUIET, Frame, Run, StackFigures
from bench.records.points import Point, Spread, data_points, ratios
from bench.records.results import Results
from bench.records.values import toml_of
from bench.records.words import connections, plural

NOTHING = "-"
WHAT = OPTIMISATIONS | CHANGES
"""A line about each optimisation and each experiment."""
ENOUGH = 3
"""The least number of runs for a significant difference."""
LEAST = 0.03
"""A smaller difference is not significant, even if all runs agree on its sign, because three runs
agree by chance in one of four cases."""
Points = Mapping[CellKey, Point]


class ServerCost:
    """The costs of a request to a server under some conditions. None: not measured."""

    def __init__(self, key: CellKey, points: Points) -> None:
        self.subject, self.conditions = key.subject, key.conditions
        self._point, baseline = points.get(key), points.get(key.baseline)
        plain = points.get(key._replace(subject=PLAIN_PREFIX + key.subject))
        self.cost, self.baseline, self.plain = (
            one.of_all("cpu_load") if one else None for one in (self._point, baseline, plain)
        )
        """The CPU time of the server, of its baseline, and of the server without ops/."""
        self.share = _ratio(baseline, self._point)
        """The baseline's cost divided by the server's."""
        self.calls = next((run.calls for run in _probed(key, "traced", points) if run.calls), None)
        stacks = next((run.stacks for run in _probed(key, "sampled", points) if run.stacks), None)
        share = stacks.user_share if stacks else None
        self.user = None if self.cost is None or share is None else self.cost.median * share
        """The part of `cost` in user space, in microseconds, from a profiler's samples."""

    def get(self, key: str) -> float | None:
        """Return another figure of the server; None if the server's cost is unknown."""
        return self._point.get(key) if self._point and self.cost else None

    def words(self) -> tuple[str, str, str]:
        """Return CPU time, system calls and writes to clients per request."""
        calls = (f"{self.calls.total:.2f}", f"{self.calls.writes:.2f}") if self.calls else ("", "")
        return (_median(self.cost), *calls)


class Difference(NamedTuple):
    """The costs of a server with and without one change."""

    name: str  # The name of the ablation or of the experiment.
    usual: ServerCost
    other: ServerCost
    ratio: Spread | None  # The cost with the change divided by the cost without it.

    @property
    def apart(self) -> bool:
        """Return whether the difference is significant: there are ENOUGH runs, all agree on its
        sign, and the median ratio differs from 1 by at least LEAST."""
        one = self.ratio
        if one is None or one.runs < ENOUGH or one.low <= 1 <= one.high:
            return False
        return abs(one.median - 1) >= LEAST

    @property
    def verdict(self) -> str:
        """Return the difference in words."""
        if self.ratio is None:
            return "no figure"
        words = percent(self.ratio)
        if self.ratio.runs < ENOUGH:
            return f"too few runs ({words})"
        return words if self.apart else f"not significant ({words})"


class Flame(NamedTuple):
    """The function stacks of a server under load."""

    subject: str
    conditions: Conditions
    concurrency: int
    stacks: StackFigures


def percent(ratio: Spread) -> str:
    """Return a ratio of two costs as their difference in per cent: "+5%"."""
    return f"{ratio.median - 1:+.0%}"


def lines(results: Results) -> list[ServerCost]:
    """Return the costs of unchanged servers with a measured baseline, one per configuration."""
    points = data_points(results)
    keys = [key for key in points if key.conditions.rated and key.baseline in points]
    keys = [key for key in keys if not key.conditions.without and not key.conditions.change]
    keys.sort(key=lambda key: _place(results, key.subject))
    return [ServerCost(key, points) for key in keys]


def flames(results: Results) -> list[Flame]:
    """Return the stacks of all valid runs that were sampled or counted."""
    found = [
        Flame(run.subject, run.conditions._replace(mode="closed"), run.concurrency, run.stacks)
        for run in results.runs
        if run.state == "held" and run.stacks
    ]
    return sorted(found, key=lambda flame: _place(results, flame.subject))


def _place(results: Results, subject: str) -> int:
    names = results.servers
    return names.index(subject) if subject in names else len(names)


DifferenceKind = Literal["without", "change"]
"""The condition that differs: an optimisation is switched off, or an experiment is applied."""


def differences(results: Results, how: DifferenceKind) -> list[Difference]:
    """Return all differences of one kind, in the order of WHAT; unknown names come last."""
    points = data_points(results)
    found = []
    for key, its in points.items():
        name = getattr(key.conditions, how)
        if name and key.conditions.rated:
            usual = key._replace(conditions=key.conditions._replace(without="", change=""))
            sides = ServerCost(usual, points), ServerCost(key, points)
            found.append(Difference(name, *sides, _ratio(its, points.get(usual))))
    places = {name: place for place, name in enumerate(WHAT)}
    return sorted(found, key=lambda d: (places.get(d.name, len(WHAT)), d.name))


def _ratio(point: Point | None, over: Point | None) -> Spread | None:
    found = ratios(point, over, "cpu_load")
    return Spread.of([*found.values()]) if found else None


def _probed(key: CellKey, mode: Mode, points: Points) -> Iterator[Run]:
    """Yield the valid runs of the same server and conditions in `mode`, at any level."""
    wanted = (key.subject, key.conditions._replace(mode=mode))
    for other in points.values():
        if (other.subject, other.conditions) == wanted:
            yield from (run for run in other.runs if run.state == "held")


# ---- In words and tables, for the page and the document ----

UNTRUE = 1.02
"""If the ratio of baseline to server is larger, the page shows a caution."""
OFTEN = 0.05
"""A system call has a row if a server makes it at least this often per request."""
OWN, LIBRARY, OTHER = "its own code", "C library", "other"
_CALLS = ("__x64_sys_", "__arm64_sys_", "__do_sys_", "__sys_", "ksys_")
"""Prefixes of kernel functions; the rest of the name is the system call."""

SHOWN = 0.03
"""A place (own code, library, system call) has a row if it has this share of a server's time."""

TEXTS = TypeAdapter(dict[str, dict[str, str]]).validate_python(
    toml_of(Path(__file__).with_name("cost.toml"))
)
ABOUT = TEXTS["about"]
"""The texts that explain the tables of each section."""


def headline(results: Results) -> str:
    """Return a text with the costs of the cheapest server and its baseline, under the first
    conditions."""
    found = [line for line in lines(results) if line.cost]
    first = [line for line in found if line.conditions == found[0].conditions]
    if not first:
        return "The CPU cost of a request"
    best = min(first, key=lambda line: line.cost.median if line.cost else 0.0)
    words = f"A {best.conditions.workload} costs {best.subject} {_median(best.cost)} µs of CPU time"
    if best.share is None:
        return words
    return f"{words}, and the baseline of its architecture {_median(best.baseline)} µs"


def cautions(results: Results) -> list[str]:
    """Return the cautions at the top of the page."""
    found = []
    if results.state != "complete":
        found.append("The sweep was not completed: the results are partial.")
    loud = [r for r in results.runs if r.conditions.rated and r.disturbed]
    rated = sum(run.conditions.rated for run in results.runs)
    if loud:
        found.append(
            f"In {len(loud):,} of {rated:,} runs other programs used more than {QUIET:.0%} of the "
            "server's CPU. Ratios are affected less, because both sides are measured alternately."
        )
    dear = [
        f"{line.subject} ({line.conditions.describe()})"
        for line in lines(results)
        if line.share and line.share.median > UNTRUE
    ]
    if dear:
        found.append(
            f"The baseline costs more than the server itself: {', '.join(dear)}. This only means "
            "that the two costs are nearly equal."
        )
    bad = [run for run in results.runs if run.state != "held"]
    if bad:
        reasons = sorted({run.reason.text for run in bad if run.reason})
        have = plural(len(bad), "run has", "runs have")
        found.append(f"{have} no figure: {'; '.join(reasons)}")
    return found


def measured(results: Results) -> str:
    """Return the machine, the CPUs, the load and the number of runs in a sentence or two."""
    rated = [run for run in results.runs if run.conditions.rated]
    most = max((run.run for run in rated), default=0)
    level = max((run.concurrency for run in rated), default=0)
    where = f"; {results.placement.note}" if results.placement else ""
    runs = "one run" if most == 1 else f"{most} runs"
    how = f"ab with {connections(level)}, {runs} of each configuration"
    return f"{results.machine.describe()}{where}. {how}."


WITHOUT_OPS = "without ops/"
"""The column of costs without ops/ (the second storey); shown if these costs were measured."""
COST_COLUMNS: dict[str, Callable[[ServerCost], str]] = {
    "µs": lambda line: _median(line.cost),
    WITHOUT_OPS: lambda line: _median(line.plain),
    "user": lambda line: _figure(line.user),
    "kernel": lambda line: _figure(
        None if line.cost is None or line.user is None else line.cost.median - line.user
    ),
    "baseline": lambda line: _median(line.baseline),
    "baseline's share": lambda line: f"{line.share.median:.0%}" if line.share else NOTHING,
    "waits": lambda line: _figure(line.get("switches_voluntary"), 2),
    "preempted": lambda line: _figure(line.get("switches_involuntary"), 2),
    "page faults": lambda line: _figure(line.get("faults"), 2),
    "system calls": lambda line: _figure(line.calls.total if line.calls else None, 2),
}


def cost_table(
    found: Sequence[ServerCost],
    name: Callable[[ServerCost], str | Field] = lambda line: line.subject,
) -> Table:
    """Return the table of servers under the same conditions. `name` makes the first field."""
    without = any(line.plain for line in found)
    shown = {head: cell for head, cell in COST_COLUMNS.items() if without or head != WITHOUT_OPS}
    rows = [(name(line), *(cell(line) for cell in shown.values())) for line in found]
    return Table("<server", *shown, rows=rows)


def calls_table(found: Sequence[ServerCost]) -> Table:
    """Return a table: a row for each frequent system call, a column for each server."""
    counted = [(line.subject, line.calls) for line in found if line.calls]
    often = [(subject, dict(calls.often)) for subject, calls in counted]
    table = _by_name("<system call", often, OFTEN, "others", lambda n: f"{n:.2f}" if n else "")
    if counted:
        table.add_row("all", *(f"{calls.total:.2f}" for _, calls in counted))
    return table


def _by_name(
    head: str,
    columns: Sequence[tuple[str, Mapping[str, float]]],
    least: float,
    rest: str,
    text: Callable[[float], str],
) -> Table:
    """Return a table with a row for each name whose largest value is at least `least`; the largest
    comes first. The row `rest` has the sums of all other values."""
    table, values = Table(head, *(subject for subject, _ in columns)), [of for _, of in columns]
    most = {name: max(of.get(name, 0.0) for of in values) for name in chain(*values)}
    names = sorted((n for n in most if most[n] >= least and n != rest), key=lambda n: (-most[n], n))
    for name in names:
        table.add_row(name, *(text(of.get(name, 0.0)) for of in values))
    if columns:
        others = [sum(value for name, value in of.items() if name not in names) for of in values]
        table.add_row(rest, *map(text, others))
    return table


def difference_table(found: Sequence[Difference]) -> Table:
    """Return a table with a row for each difference."""
    table = Table("<change", "<where", "unchanged", "changed", "difference", "all runs")
    for one in found:
        where = f"{one.usual.subject}: {one.usual.conditions.describe()}"
        costs = _median(one.usual.cost), _median(one.other.cost)
        runs = f"{one.ratio.low - 1:+.0%} to {one.ratio.high - 1:+.0%}" if one.ratio else ""
        table.add_row(one.name, where, *costs, one.verdict, runs)
    return table


def explained(found: Sequence[Difference]) -> list[tuple[str, str]]:
    """Return each optimisation or experiment once, with its description."""
    return [(name, WHAT.get(name, "")) for name in dict.fromkeys(d.name for d in found)]


def brought(found: Sequence[Difference]) -> str:
    """Return sentences about optimisations: which saves most, which make a request more expensive,
    and which have no significant effect."""
    seen = [(d, d.ratio) for d in found if d.ratio and d.ratio.runs >= ENOUGH]
    clear = [(ratio.median, d) for d, ratio in seen if d.apart and ratio.median > 1]
    dear = [d for d, ratio in seen if d.apart and ratio.median < 1]
    none = sorted({d.name for d, _ in seen} - {d.name for d, _ in seen if d.apart})
    words = []
    if clear:
        ratio, best = max(clear, key=lambda one: one[0])
        where, more = best.usual.conditions.describe(), f"{ratio - 1:.0%} more"
        words.append(f"`{best.name}` saves most: without it a request costs {more} ({where}).")
    if dear:
        cases = [f"`{d.name}` ({d.usual.conditions.describe()}: {d.verdict})" for d in dear]
        words.append(f"A request is cheaper without: {', '.join(cases)}.")
    if none:
        words.append(f"No significant difference: {', '.join(f'`{name}`' for name in none)}.")
    return " ".join(words)


def sampled_how(found: Sequence[Flame]) -> str:
    """Return sentences about the sampling of the flame graphs."""
    return " ".join(dict.fromkeys(_how(flame.stacks) for flame in found))


def _how(stacks: StackFigures) -> str:
    limited = stacks.how == "perf" and not stacks.kernel
    more = " perf was permitted to sample user space only." if limited else ""
    return TEXTS["sampled"][stacks.how] + more


# ---- Where the time is spent ----


def places(stacks: StackFigures) -> dict[str, float]:
    """Return the shares of own code, the C library, and each system call or other kernel work."""
    found = Counter[str]()

    def add(frame: Frame, where: str) -> None:
        inside = where
        if frame.of == "kernel" and where in (OWN, LIBRARY):
            inside = _place_of(frame.name)
        elif frame.of != "kernel":
            inside = LIBRARY if frame.of == "library" else OWN
        found[inside] += frame.own
        for below in frame.below:
            add(below, inside)

    for frame in stacks.frames:
        add(frame, OWN)
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return {name: count / stacks.count for name, count in ordered if count}


def _place_of(function: str) -> str:
    for what, starts in TEXTS["kernel"].items():
        if function.startswith(tuple(starts.split())):
            return what
    return next((function.removeprefix(s) for s in _CALLS if function.startswith(s)), OTHER)


def place_table(found: Sequence[Flame]) -> Table:
    """Return a table: a row for each place with a large share, a column for each server."""
    shares = [(flame.subject, places(flame.stacks)) for flame in found]
    return _by_name("<for", shares, SHOWN, OTHER, lambda x: f"{x:.0%}" if x >= 0.005 else "")


def _figure(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _median(value: Spread | None) -> str:
    return _figure(value.median if value else None)
