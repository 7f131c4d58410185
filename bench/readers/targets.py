# SPDX-License-Identifier: MIT
"""Whether the targets are met: what a request and a connection may cost. A reader of results.

A target is judged where there is something to judge it by: epoll against nginx and Go, each server
against its floor, each memory of connections. Beside it stands what the floor reaches, the barest
program of the architecture: a target that even this one misses is out of reach on this machine.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.readers.console import plain_table, say
from bench.records.conditions import FLOOR_PREFIX, CellKey
from bench.records.results import Cell, Results
from bench.records.run import Run

BYTES_TARGET = 1024
"""Bytes of user memory for each idle connection of an event loop, at most."""
THREAD_TARGET = 10 * 1024
"""And for each that has a thread."""
PENDING_TARGET = 16 * 1024
"""And for each whose request waits for Redis."""
MANY = 10_000
"""From so many connections on a run is shown as one of many."""
FEW, MOST, IDLE = 100, 15_000, 10_000
"""Connections: what a server does with few it shall do with most, and beside so many idle ones."""
SAME = ""
"""Stands for the subject itself, under other conditions."""


@dataclass(frozen=True)
class Target:
    """CPU time per request of one subject over that of another, at most."""

    subject: str | None
    """None: any server. A floor has no target: it is what others are held against."""
    against: str
    """SAME, or FLOOR_PREFIX: the floor of its architecture."""
    workload: str
    at_most: float | None
    """None: it is shown, and there is no target."""
    kept: bool | None = None
    """With connections that are kept, or with one for each request; None: both."""
    than: str | None = None
    """The workload of the other; None: the same."""
    idle: int = 0
    """Idle connections beside the load; the other has none."""
    level: int = 0
    """At so many connections, and the other at FEW. 0: both at the same."""

    def fits(self, key: CellKey) -> bool:
        """Whether it is about this cell."""
        asked = key.conditions
        return (
            asked.workload == self.workload
            and self.kept in (None, asked.keep_alive)
            and asked.idle == self.idle
            and self.level in (0, key.concurrency)
            and not (asked.change or asked.without)
            and self.subject in (None, key.subject)
            and not key.subject.startswith(FLOOR_PREFIX)
        )

    def other(self, what: CellKey) -> CellKey:
        """The cell that `what` is compared with."""
        of_its_own = self.against in (FLOOR_PREFIX, SAME)
        subject = self.against + what.subject if of_its_own else self.against
        conditions = what.conditions._replace(workload=self.than or self.workload, idle=0)
        level = FEW if self.level else what.concurrency
        return CellKey(subject, conditions, level)


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
    # With as few as with most at once.
    Target(None, FLOOR_PREFIX, "redirect", 1.25, kept=False),
    Target(None, FLOOR_PREFIX, "guestbook", 1.35),
    # Connections that say nothing cost a loop upon epoll nothing; poll() looks at each of them.
    Target("epoll", SAME, "redirect", 1.05, kept=True, idle=IDLE),
    Target("poll", SAME, "redirect", None, kept=True, idle=IDLE),
    # With most connections at once nine tenths of the rate are left, by what a request costs.
    Target(None, SAME, "redirect", 1 / 0.9, kept=False, level=MOST),
)


@dataclass(frozen=True)
class Cost:
    """CPU microseconds per request of a cell: medians of its runs, and their range."""

    total: float
    low: float
    high: float
    own: float | None
    """As the server counted itself, from its start to its end."""


@dataclass(frozen=True)
class Comparison:
    """Two cells under the same conditions, and what one is of the other."""

    what: CellKey
    against: CellKey
    costs: tuple[Cost | None, Cost | None]
    at_most: float | None
    least: float | None = None
    """The same ratio with the server's floor in its place; None: it was not measured too."""

    @property
    def ratio(self) -> float | None:
        """Median by median; None if there is no figure."""
        return _ratio(*self.costs)

    @property
    def met(self) -> bool:
        """Whether there is a figure, and the target is met."""
        if self.ratio is None:
            return False
        return self.at_most is None or self.ratio <= self.at_most

    @property
    def out_of_reach(self) -> bool:
        """Whether the target is missed, and by the floor, too."""
        if self.ratio is None or self.at_most is None or self.least is None:
            return False
        return not self.met and self.least > self.at_most


def _ratio(what: Cost | None, against: Cost | None) -> float | None:
    return what.total / against.total if what and against and against.total else None


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
        statistics.median(own) if len(own) == len(runs) else None,
    )


def comparisons(results: Results) -> list[Comparison]:
    """All that there is in the results."""
    runs = results.by_cell()
    found = []
    for target in TARGETS:
        for key, its in runs.items():
            if not target.fits(key) or not key.conditions.rated:
                continue
            against = target.other(key)
            if against in runs:
                costs = (cost_of(its), cost_of(runs[against]))
                least = _least(key, against, runs)
                found.append(Comparison(key, against, costs, target.at_most, least))
    return found


def _least(what: CellKey, against: CellKey, runs: Mapping[CellKey, Sequence[Run]]) -> float | None:
    """The floor's cost over the other's; over the floor's own where a server is held against
    itself."""
    floor = FLOOR_PREFIX + what.subject
    if against.subject == floor:
        return None
    if against.subject == what.subject:
        against = against._replace(subject=floor)
    return _ratio(*(cost_of(runs.get(key, ())) for key in (what._replace(subject=floor), against)))


def show(results: Results, out: Console) -> int:
    """Print what was measured, and what is met. 0: all of it is; 1: something is not, has no
    figure, or was not reached."""
    compared, cells = comparisons(results), results.cells()
    memory = [cell for cell in cells if cell.conditions.asks_once]
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
    judged = [one for one in compared if one.at_most is not None or one.ratio is None]
    met = [*(one.met for one in judged), *(_memory_met(cell) for cell in memory)]
    met += [cell.state == "held" for cell in (*many, *traced)]
    out.print(f"{sum(met)} of {len(met)} met" if met else "Nothing here has a target.")
    if beyond := sum(one.out_of_reach for one in judged):
        out.print(f"Of those missed {beyond} are out of reach here: the floor misses them, too.")
    return int(results.state != "complete" or not met or not all(met))


def _memory_met(cell: Cell) -> bool:
    figures = cell.typical.memory if cell.typical else None
    return (
        cell.state == "held" and figures is not None and figures.per_connection <= _most_bytes(cell)
    )


def _most_bytes(cell: Cell) -> int:
    if cell.conditions.mode == "pending":
        return PENDING_TARGET
    return THREAD_TARGET if cell.subject == "threading" else BYTES_TARGET


def _cost_table(found: Sequence[Comparison]) -> Table:
    figures = ("us/request", "range", "own", "ratio", "floor's")
    table = plain_table("<conditions", "<server", *figures, "<")
    for one in found:
        verdict = _verdict(one.met, one.at_most) + (", out of reach" if one.out_of_reach else "")
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        least = "" if one.least is None else f"{one.least:.2f}"
        levels = one.what.concurrency >= MANY
        table.add_row(*_cost_row(one.what, one.costs[0], levels), ratio, least, verdict)
        table.add_row(*_cost_row(one.against, one.costs[1], levels), "", "", "")
    return table


def _cost_row(key: CellKey, cost: Cost | None, level: bool) -> Iterator[str]:
    yield key.conditions.describe() + (f", {key.concurrency:,} at once" if level else "")
    yield key.subject
    if cost is None:
        yield from ("no figure", "", "")
        return
    yield f"{cost.total:.1f}"
    yield f"{cost.low:.1f} - {cost.high:.1f}"
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
        often = [f"{name} {n:.2f}" for name, n in calls.often]
        figures = (f"{calls.total:.2f}", f"{calls.writes:.2f}", ", ".join(often))
        table.add_row(cell.conditions.describe(), cell.subject, *figures)
    return table


def _verdict(met: bool, at_most: float | None) -> str:
    if at_most is None:
        return "no target"
    limit = f"{at_most:.2f}" if at_most < 100 else f"{at_most:,.0f}"
    return f"met (at most {limit})" if met else f"[red]missed[/] (at most {limit})"
