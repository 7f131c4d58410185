# SPDX-License-Identifier: MIT
"""Whether the targets are met: what a request and a connection may cost. A reader of results.

A target is judged where there is something to judge it by: epoll against nginx and Go, each server
against its floor, each memory of connections.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.readers.console import plain_table, say
from bench.records.conditions import FLOOR_PREFIX, CellKey, Conditions
from bench.records.results import Cell, Results
from bench.records.run import Run

BYTES_TARGET = 1024
"""Bytes of user memory for each idle connection of an event loop, at most."""
PENDING_TARGET = 16 * 1024
"""And for each whose request waits for Redis."""
MANY = 10_000
"""From so many connections on a run is shown as one of many."""


@dataclass(frozen=True)
class Target:
    """CPU time per request of one subject over that of another, at most."""

    subject: str | None
    """None: any server, against the floor of its architecture."""
    against: str
    workload: str
    at_most: float
    kept: bool | None = None
    """With connections that are kept, or with one for each request; None: both."""
    than: str | None = None
    """The workload of the other; None: the same."""

    def fits(self, conditions: Conditions) -> bool:
        """Whether it is about these."""
        return conditions.workload == self.workload and self.kept in (None, conditions.keep_alive)

    def other(self, what: CellKey) -> CellKey:
        """The cell that `what` is compared with."""
        floor = self.against == FLOOR_PREFIX
        subject = self.against + what.subject if floor else self.against
        conditions = what.conditions._replace(workload=self.than or self.workload)
        return what._replace(subject=subject, conditions=conditions)


TARGETS = (
    # A connection for each request: the end rides on the last bytes, which others do not do.
    Target("epoll", "h2o", "redirect", 0.6, kept=False),
    Target("epoll", "nginx", "redirect", 0.48, kept=False),
    Target("epoll", "lighttpd", "redirect", 0.48, kept=False),
    *(Target("epoll", name, "redirect", 1.0, kept=True) for name in ("h2o", "nginx", "lighttpd")),
    *(
        Target("epoll", name, workload, 1.0)
        for workload in ("small", "large")
        for name in ("h2o", "nginx", "lighttpd")
    ),
    Target("epoll", "go", "guestbook", 1 / 3),
    Target("epoll", "fasthttp", "guestbook", 0.33),
    # What a page of three waits for Redis adds to the least that a request can be.
    Target("epoll", "epoll", "guestbook", 1.6, kept=True, than="redirect"),
    Target("epoll", FLOOR_PREFIX, "redirect", 1.15, kept=True),
    Target(None, FLOOR_PREFIX, "redirect", 1.25, kept=False),
    Target(None, FLOOR_PREFIX, "guestbook", 1.35),
)


@dataclass(frozen=True)
class Cost:
    """CPU microseconds per request of a cell: medians of its runs, and their range."""

    total: float
    low: float
    high: float
    user: float
    system: float
    own: float | None
    """As the server counted itself, from its start to its end."""


@dataclass(frozen=True)
class Comparison:
    """Two cells under the same conditions, and what one is of the other."""

    what: CellKey
    against: CellKey
    costs: tuple[Cost | None, Cost | None]
    at_most: float

    @property
    def ratio(self) -> float | None:
        """Median by median; None if there is no figure."""
        what, against = self.costs
        return what.total / against.total if what and against and against.total else None

    @property
    def met(self) -> bool:
        """Whether there is a figure, and the target is met."""
        return self.ratio is not None and self.ratio <= self.at_most


def cost_of(runs: Sequence[Run]) -> Cost | None:
    """Of all runs of a cell; None unless all held."""
    figures = [run.process for run in runs if run.process and run.state == "held"]
    if not runs or len(figures) < len(runs):
        return None
    said = [run.server_statistics.cpu_us_per_request for run in runs if run.server_statistics]
    own = [value for value in said if value is not None]
    totals = [one.cpu_us_per_request for one in figures]
    return Cost(
        statistics.median(totals),
        min(totals),
        max(totals),
        statistics.median(one.cpu_user_us_per_request for one in figures),
        statistics.median(one.cpu_system_us_per_request for one in figures),
        statistics.median(own) if len(own) == len(runs) else None,
    )


def comparisons(results: Results) -> list[Comparison]:
    """All that there is in the results."""
    runs: dict[CellKey, list[Run]] = {}
    for run in results.runs:
        runs.setdefault(run.key, []).append(run)
    found = []
    for target in TARGETS:
        for key, its in runs.items():
            subject, conditions, _ = key
            if not target.fits(conditions) or not conditions.rated:
                continue
            if target.subject not in (None, subject):
                continue
            against = target.other(key)
            if against in runs:
                costs = (cost_of(its), cost_of(runs[against]))
                found.append(Comparison(key, against, costs, target.at_most))
    return found


def show(results: Results, out: Console) -> int:
    """Print what was measured, and what is met. 0: all of it is; 1: something is not, has no
    figure, or was not reached."""
    compared, cells = comparisons(results), results.cells()
    memory = [cell for cell in cells if cell.conditions.mode in ("parked", "pending")]
    traced = [cell for cell in cells if cell.conditions.mode == "traced"]
    many = [c for c in cells if c.conditions.rated and c.concurrency >= MANY]
    for title, table, rows in (
        ("CPU time per request", _cost_table(compared), compared),
        ("User memory of a connection", _memory_table(memory), memory),
        ("Many connections at once", _many_table(many), many),
        ("System calls per request", _calls_table(traced), traced),
    ):
        if rows:
            out.print(f"[bold]{title}[/]")
            out.print(table)
    for cell in cells:
        if cell.reason:
            where = f"{cell.subject}, {cell.conditions.describe()} at {cell.concurrency:,}"
            say(out, f"no figure: {where}: {cell.reason.text}")
    met = [*(one.met for one in compared), *(_memory_met(cell) for cell in memory)]
    met += [cell.state == "held" for cell in (*many, *traced)]
    out.print(f"{sum(met)} of {len(met)} met" if met else "Nothing here has a target.")
    return int(results.state != "complete" or not met or not all(met))


def _memory_met(cell: Cell) -> bool:
    figures = cell.typical.memory if cell.typical else None
    return (
        cell.state == "held" and figures is not None and figures.per_connection <= _most_bytes(cell)
    )


def _most_bytes(cell: Cell) -> int:
    return BYTES_TARGET if cell.conditions.mode == "parked" else PENDING_TARGET


def _cost_table(found: Sequence[Comparison]) -> Table:
    figures = ("us/request", "range", "user", "system", "own", "ratio")
    table = plain_table("<conditions", "<server", *figures, "<")
    for one in found:
        verdict = _verdict(one.met, one.at_most)
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        table.add_row(*_cost_row(one.what, one.costs[0]), ratio, verdict)
        table.add_row(*_cost_row(one.against, one.costs[1]), "", "")
    return table


def _cost_row(key: CellKey, cost: Cost | None) -> Iterator[str]:
    yield key.conditions.describe()
    yield key.subject
    if cost is None:
        yield from ("no figure", "", "", "", "")
        return
    yield f"{cost.total:.1f}"
    yield f"{cost.low:.1f} - {cost.high:.1f}"
    yield f"{cost.user:.1f}"
    yield f"{cost.system:.1f}"
    yield "" if cost.own is None else f"{cost.own:.1f}"


def _memory_table(cells: Sequence[Cell]) -> Table:
    table = plain_table("<conditions", "<server", "connections", "before", "with them", "each", "<")
    for cell in cells:
        start = (cell.conditions.describe(), cell.subject, f"{cell.concurrency:,}")
        verdict = _verdict(_memory_met(cell), _most_bytes(cell))
        figures = cell.typical.memory if cell.typical else None
        if cell.state != "held" or figures is None:
            table.add_row(*start, "no figure", "", "", verdict)
            continue
        sizes = (f"{figures.before / 1e6:.1f} MB", f"{figures.pss / 1e6:.1f} MB")
        table.add_row(*start, *sizes, f"{figures.per_connection:,.0f} bytes", verdict)
    return table


def _many_table(cells: Sequence[Cell]) -> Table:
    table = plain_table("<conditions", "<server", "at once", "requests/s", "longest", "us/request")
    for cell in cells:
        start = (cell.conditions.describe(), cell.subject, f"{cell.concurrency:,}")
        run = cell.typical
        if cell.median is None or run is None:
            table.add_row(*start, "no figure", "", "")
            continue
        longest = f"{run.latency.max / 1000:.1f} s" if run.latency else "-"
        cpu = f"{run.process.cpu_us_per_request:.1f}" if run.process else "-"
        table.add_row(*start, f"{cell.median:,.0f}", longest, cpu)
    return table


def _calls_table(cells: Sequence[Cell]) -> Table:
    table = plain_table("<conditions", "<server", "calls", "writes", "<which")
    for cell in cells:
        calls = cell.typical.calls if cell.typical else None
        if calls is None:
            table.add_row(cell.conditions.describe(), cell.subject, "no figure", "", "")
            continue
        often = [f"{name} {n:.2f}" for name, n in calls.per_request.items() if n >= 0.005]
        figures = (f"{calls.total:.2f}", f"{calls.writes:.2f}", ", ".join(often))
        table.add_row(cell.conditions.describe(), cell.subject, *figures)
    return table


def _verdict(met: bool, at_most: float) -> str:
    limit = f"{at_most:.2f}" if at_most < 100 else f"{at_most:,.0f}"
    return f"met (at most {limit})" if met else f"[red]missed[/] (at most {limit})"
