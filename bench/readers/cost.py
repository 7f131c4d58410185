# SPDX-License-Identifier: MIT
"""Shows where the CPU time of a request goes.

The servers to be compared were measured in turns. So each run is compared with the other server's
run of the same number, and the figure is the median of these ratios: a temporary disturbance of the
machine affects both. Runs that are missing or not valid give no figure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.records.conditions import FLOOR_PREFIX, CellKey, Conditions
from bench.records.figures import CallFigures, Mode, StackFigures
from bench.records.points import Point, Spread, data_points, ratios
from bench.records.results import Results
from bench.records.run import Run

NOTHING = "-"
ENOUGH = 3
"""The least number of runs for a significant difference."""
LEAST = 0.03
"""The least significant difference: three runs agree on the sign by chance one time in four."""
Points = Mapping[CellKey, Point]


@dataclass(frozen=True)
class ServerCost:
    """The cost of a request of a server under some conditions."""

    subject: str
    conditions: Conditions
    cost: Spread | None
    user: float | None
    """Microseconds of it in user space, from samples of perf; None: there are none."""
    floor: Spread | None
    """The cost of its baseline; None: it was not measured."""
    share: Spread | None
    """The baseline's cost divided by the server's."""
    voluntary: float | None
    """Context switches per request because it had to wait."""
    involuntary: float | None
    """Context switches per request because the kernel took the CPU from it."""
    faults: float | None
    calls: CallFigures | None

    @property
    def often(self) -> list[tuple[str, float]]:
        """The frequent system calls."""
        return self.calls.often if self.calls else []


@dataclass(frozen=True)
class Side:
    """One of two variants that are compared."""

    cost: Spread | None
    calls: CallFigures | None

    def words(self) -> tuple[str, str, str]:
        """Return CPU time, system calls and writes to clients per request."""
        calls = (f"{self.calls.total:.2f}", f"{self.calls.writes:.2f}") if self.calls else ("", "")
        return (NOTHING if self.cost is None else f"{self.cost.median:.1f}", *calls)


@dataclass(frozen=True)
class Difference:
    """A server with and without one change."""

    subject: str
    conditions: Conditions
    """Those without the change."""
    name: str
    """The name of the ablation or of the experiment."""
    usual: Side
    other: Side
    ratio: Spread | None
    """The cost with the change divided by the cost without it."""

    @property
    def apart(self) -> bool:
        """Whether the difference is significant: all runs agree on its sign, and the median is at
        least LEAST."""
        one = self.ratio
        if one is None or one.runs < ENOUGH or one.low <= 1 <= one.high:
            return False
        return abs(one.median - 1) >= LEAST

    @property
    def verdict(self) -> str:
        """The difference for readers."""
        if self.ratio is None:
            return "no figure"
        if self.ratio.runs < ENOUGH:
            return f"too few runs ({percent(self.ratio)})"
        words = percent(self.ratio)
        return words if self.apart else f"not significant ({words})"


@dataclass(frozen=True)
class Flame:
    """The function stacks of a server under load."""

    subject: str
    conditions: Conditions
    concurrency: int
    stacks: StackFigures


def percent(ratio: Spread) -> str:
    """Return by how many per cent the first costs more or less than the second."""
    return f"{ratio.median - 1:+.0%}"


def lines(results: Results) -> list[ServerCost]:
    """Return a line for each server and conditions for which its baseline was measured, too."""
    points = data_points(results)
    keys = [key for key in points if _is_usual(key.conditions) and _floor_of(key) in points]
    keys.sort(key=lambda key: _place(results, key.subject))
    return [_line(key, points) for key in keys]


def tricks(results: Results) -> list[Difference]:
    """Return the ablations: servers without one of their optimisations."""
    return list(_differences(results, "without"))


def experiments(results: Results) -> list[Difference]:
    """Return the experiments: servers with one change."""
    return list(_differences(results, "change"))


def flames(results: Results) -> list[Flame]:
    """Return the stacks of all runs that were sampled or counted."""
    found = [
        Flame(run.subject, run.conditions._replace(mode="closed"), run.concurrency, run.stacks)
        for run in results.runs
        if run.state == "held" and run.stacks
    ]
    return sorted(found, key=lambda flame: _place(results, flame.subject))


def _place(results: Results, subject: str) -> int:
    names = results.servers
    return names.index(subject) if subject in names else len(names)


def _is_usual(conditions: Conditions) -> bool:
    return conditions.rated and not conditions.without and not conditions.change


def _floor_of(key: CellKey) -> CellKey:
    return key._replace(subject=FLOOR_PREFIX + key.subject)


def _line(key: CellKey, points: Points) -> ServerCost:
    its, floor = points[key], points[_floor_of(key)]
    cost, share = its.of_all("cpu_load"), _user_share(key, points)
    voluntary, involuntary, faults = (
        its.get(figure) if cost else None
        for figure in ("switches_voluntary", "switches_involuntary", "faults")
    )
    return ServerCost(
        key.subject,
        key.conditions,
        cost,
        None if cost is None or share is None else cost.median * share,
        floor.of_all("cpu_load"),
        _ratio(floor, its),
        voluntary,
        involuntary,
        faults,
        _calls(key, points),
    )


def _differences(results: Results, how: str) -> Iterator[Difference]:
    points = data_points(results)
    for key, its in points.items():
        name = getattr(key.conditions, how)
        if not name or not key.conditions.rated:
            continue
        usual = key._replace(conditions=key.conditions._replace(without="", change=""))
        beside = points.get(usual)
        yield Difference(
            key.subject,
            usual.conditions,
            name,
            Side(beside.of_all("cpu_load") if beside else None, _calls(usual, points)),
            Side(its.of_all("cpu_load"), _calls(key, points)),
            _ratio(its, beside),
        )


def _ratio(point: Point, over: Point | None) -> Spread | None:
    found = ratios(point, over, "cpu_load")
    return Spread.of([*found.values()]) if found else None


def _user_share(key: CellKey, points: Points) -> float | None:
    return next(
        (run.stacks.user_share for run in _probed(key, "sampled", points) if run.stacks), None
    )


def _calls(key: CellKey, points: Points) -> CallFigures | None:
    return next((run.calls for run in _probed(key, "traced", points) if run.calls), None)


def _probed(key: CellKey, mode: Mode, points: Points) -> Iterator[Run]:
    """Yield the valid runs of the same server and conditions in `mode`, at any level."""
    wanted = (key.subject, key.conditions._replace(mode=mode))
    for other in points.values():
        if (other.subject, other.conditions) == wanted:
            yield from (run for run in other.runs if run.state == "held")
