# SPDX-License-Identifier: MIT
"""Checks targets: limits for the CPU time of a request and for the memory of a connection.

A target is checked if its data were measured: epoll against nginx and Go, each server against its
baseline, the memory of connections. The report also shows the ratio of the baseline. If even the
baseline misses a target, the target is out of reach on this machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from bench.readers.console import Table, say
from bench.records.conditions import FLOOR_PREFIX, CellKey
from bench.records.points import Point, data_points
from bench.records.results import Results

BYTES_TARGET = 1024
"""Bytes of user memory for each idle connection of an event loop, at most."""
THREAD_TARGET = 10 * 1024
"""Bytes for each connection that has a thread, at most."""
PENDING_TARGET = 16 * 1024
"""Bytes for each connection whose request waits for Redis, at most."""
MANY = 10_000
"""Runs with at least so many connections are in the table "Many connections at once"."""
FEW, MOST, IDLE = 100, 15_000, 10_000
"""Numbers of connections: few, most, and idle ones during a load."""
SAME = ""
"""The other side of a target is the same server under other conditions."""


@dataclass(frozen=True)
class Target:
    """A limit for the ratio of one server's CPU time per request to another's."""

    subject: str | None
    """None: any server. A baseline has no target: servers are compared with it."""
    against: str
    """The other server; SAME; or FLOOR_PREFIX: the baseline of its architecture."""
    workload: str
    at_most: float | None
    """None: the ratio is shown without a target."""
    kept: bool | None = None
    """With keep-alive, or with a connection for each request; None: both."""
    than: str | None = None
    """The other side's workload; None: the same."""
    idle: int = 0
    """Idle connections during the load; the other side has none."""
    level: int = 0
    """The number of connections; the other side has FEW. 0: both have the same."""

    def fits(self, key: CellKey) -> bool:
        """Return whether the target applies to this configuration."""
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
        """Return the configuration that `what` is compared with."""
        of_its_own = self.against in (FLOOR_PREFIX, SAME)
        subject = self.against + what.subject if of_its_own else self.against
        conditions = what.conditions._replace(workload=self.than or self.workload, idle=0)
        level = FEW if self.level else what.concurrency
        return CellKey(subject, conditions, level)


TARGETS = (
    # A connection for each request: epoll merges the FIN into the last segment, others do not.
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
    # The cost of a page with three waits for Redis, compared with the cheapest request.
    Target("epoll", "epoll", "guestbook", 1.6, kept=True, than="redirect"),
    Target("epoll", FLOOR_PREFIX, "redirect", 1.15, kept=True),
    # With few and with most connections at once.
    Target(None, FLOOR_PREFIX, "redirect", 1.25, kept=False),
    Target(None, FLOOR_PREFIX, "guestbook", 1.35),
    # Idle connections cost an epoll loop no time; poll() checks each of them.
    Target("epoll", SAME, "redirect", 1.05, kept=True, idle=IDLE),
    Target("poll", SAME, "redirect", None, kept=True, idle=IDLE),
    # With most connections at once the cost may grow so much that 9/10 of the rate are left.
    Target(None, SAME, "redirect", 1 / 0.9, kept=False, level=MOST),
)


@dataclass(frozen=True)
class Comparison:
    """Two data points and their ratio."""

    what: Point
    against: Point
    at_most: float | None
    least: float | None = None
    """The ratio of the server's baseline in its place; None: it was not measured."""

    @property
    def ratio(self) -> float | None:
        """The ratio of the medians; None if one is missing."""
        return _ratio(self.what, self.against)

    @property
    def met(self) -> bool:
        """Whether there is a ratio, and the target is met."""
        if self.ratio is None:
            return False
        return self.at_most is None or self.ratio <= self.at_most

    @property
    def out_of_reach(self) -> bool:
        """Whether both the server and its baseline miss the target."""
        if self.ratio is None or self.at_most is None or self.least is None:
            return False
        return not self.met and self.least > self.at_most


def _ratio(what: Point | None, against: Point | None) -> float | None:
    costs = [point and point.of_all("cpu_load") for point in (what, against)]
    return costs[0].median / costs[1].median if costs[0] and costs[1] and costs[1].median else None


def comparisons(results: Results) -> list[Comparison]:
    """Return all comparisons that the results allow."""
    points = data_points(results)
    found = []
    for target in TARGETS:
        for key, point in points.items():
            if not target.fits(key) or not key.conditions.rated:
                continue
            if against := points.get(target.other(key)):
                least = _least(key, against.key, points)
                found.append(Comparison(point, against, target.at_most, least))
    return found


def _least(what: CellKey, against: CellKey, points: Mapping[CellKey, Point]) -> float | None:
    """Return the baseline's ratio to the other side. If a server is compared with itself, the
    baseline is compared with itself, too."""
    floor = FLOOR_PREFIX + what.subject
    if against.subject == floor:
        return None
    if against.subject == what.subject:
        against = against._replace(subject=floor)
    return _ratio(points.get(what._replace(subject=floor)), points.get(against))


def show(results: Results, out: Console) -> int:
    """Print the measured data and the targets. Return 0 if all targets are met; 1 if one is missed
    or has no valid result, or if the sweep is not complete."""
    compared, cells = comparisons(results), data_points(results).values()
    memory = [cell for cell in cells if cell.conditions.asks_once]
    traced = [cell for cell in cells if cell.conditions.mode == "traced"]
    many = [c for c in cells if c.conditions.rated and c.level >= MANY]
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
            where = f"{cell.subject}, {cell.conditions.describe()} at {cell.level:,}"
            say(out, f"no valid result: {where}: {cell.reason.text}")
    judged = [one for one in compared if one.at_most is not None or one.ratio is None]
    met = [*(one.met for one in judged), *(_memory_met(cell) for cell in memory)]
    met += [cell.state == "held" for cell in (*many, *traced)]
    out.print(f"{sum(met)} of {len(met)} met" if met else "These results have no targets.")
    if beyond := sum(one.out_of_reach for one in judged):
        out.print(f"{beyond} missed targets are out of reach: the baseline misses them, too.")
    return int(results.state != "complete" or not met or not all(met))


def _memory_met(cell: Point) -> bool:
    figures = cell.typical.memory if cell.typical else None
    return (
        cell.state == "held" and figures is not None and figures.per_connection <= _most_bytes(cell)
    )


def _most_bytes(cell: Point) -> int:
    if cell.conditions.mode == "pending":
        return PENDING_TARGET
    return THREAD_TARGET if cell.subject == "threading" else BYTES_TARGET


def _cost_table(found: Sequence[Comparison]) -> Table:
    figures = ("us/request", "range", "own", "ratio", "baseline")
    table = Table("<conditions", "<server", *figures, "<")
    for one in found:
        verdict = _verdict(one.met, one.at_most) + (", out of reach" if one.out_of_reach else "")
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        least = "" if one.least is None else f"{one.least:.2f}"
        levels = one.what.level >= MANY
        table.add_row(*_cost_row(one.what, levels), ratio, least, verdict)
        table.add_row(*_cost_row(one.against, levels), "", "", "")
    return table


def _cost_row(point: Point, level: bool) -> Iterator[str]:
    yield point.conditions.describe() + (f", {point.level:,} at once" if level else "")
    yield point.subject
    cost, own = point.of_all("cpu_load"), point.of_all("cpu_own")
    if cost is None:
        yield from ("no figure", "", "")
        return
    yield f"{cost.median:.1f}"
    yield f"{cost.low:.1f} - {cost.high:.1f}"
    yield "" if own is None else f"{own.median:.1f}"


def _memory_table(cells: Sequence[Point]) -> Table:
    table = Table("<conditions", "<server", "connections", "before", "with them", "each", "<")
    for cell in cells:
        start = (cell.conditions.describe(), cell.subject, f"{cell.level:,}")
        verdict = _verdict(_memory_met(cell), _most_bytes(cell))
        figures = cell.typical.memory if cell.typical else None
        if cell.state != "held" or figures is None:
            table.add_row(*start, "no figure", "", "", verdict)
            continue
        sizes = (f"{figures.before / 1e6:.1f} MB", f"{figures.pss / 1e6:.1f} MB")
        table.add_row(*start, *sizes, f"{figures.per_connection:,.0f} bytes", verdict)
    return table


def _many_table(cells: Sequence[Point]) -> Table:
    table = Table("<conditions", "<server", "at once", "requests/s", "longest", "us/request")
    for cell in cells:
        start = (cell.conditions.describe(), cell.subject, f"{cell.level:,}")
        run = cell.typical
        if run is None or not cell.held:
            table.add_row(*start, "no figure", "", "")
            continue
        longest = f"{run.latency.max / 1000:.1f} s" if run.latency else "-"
        cpu = f"{run.process.cpu_us_per_request:.1f}" if run.process else "-"
        table.add_row(*start, f"{cell['rate']:,.0f}", longest, cpu)
    return table


def _calls_table(cells: Sequence[Point]) -> Table:
    table = Table("<conditions", "<server", "calls", "writes", "<which")
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
