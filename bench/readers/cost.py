# SPDX-License-Identifier: MIT
"""Shows where the CPU time of a request goes.

The servers to be compared were measured in turns. So each run is compared with the other server's
run of the same number, and the figure is the median of these ratios: a temporary disturbance of the
machine affects both. Runs that are missing or not valid give no figure.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.readers.compare import Spread
from bench.readers.targets import Cost, cost_of
from bench.records.conditions import FLOOR_PREFIX, CellKey, Conditions
from bench.records.figures import CallFigures, Mode, StackFigures
from bench.records.results import Results
from bench.records.run import Run

NOTHING = "-"
ENOUGH = 3
"""The least number of runs for a significant difference."""
LEAST = 0.03
"""The least significant difference: three runs agree on the sign by chance one time in four."""
Runs = dict[CellKey, list[Run]]


@dataclass(frozen=True)
class ServerCost:
    """The cost of a request of a server under some conditions."""

    subject: str
    conditions: Conditions
    cost: Cost | None
    user: float | None
    """Microseconds of it in user space, from samples of perf; None: there are none."""
    floor: Cost | None
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

    cost: Cost | None
    calls: CallFigures | None

    def words(self) -> tuple[str, str, str]:
        """Return CPU time, system calls and writes to clients per request."""
        calls = (f"{self.calls.total:.2f}", f"{self.calls.writes:.2f}") if self.calls else ("", "")
        return (NOTHING if self.cost is None else f"{self.cost.total:.1f}", *calls)


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
    runs = results.by_cell()
    keys = [key for key in runs if _is_usual(key.conditions) and _floor_of(key) in runs]
    return [_line(key, runs) for key in sorted(keys, key=lambda key: _place(results, key.subject))]


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


def _line(key: CellKey, runs: Runs) -> ServerCost:
    its, floor = runs[key], runs[_floor_of(key)]
    cost, share = cost_of(its), _user_share(key, runs)
    return ServerCost(
        key.subject,
        key.conditions,
        cost,
        None if cost is None or share is None else cost.total * share,
        cost_of(floor),
        _ratio(floor, its),
        _middle(its, "voluntary_switches_per_request"),
        _middle(its, "involuntary_switches_per_request"),
        _middle(its, "page_faults_per_request"),
        _calls(key, runs),
    )


def _differences(results: Results, how: str) -> Iterator[Difference]:
    runs = results.by_cell()
    for key, its in runs.items():
        name = getattr(key.conditions, how)
        if not name or not key.conditions.rated:
            continue
        usual = key._replace(conditions=key.conditions._replace(without="", change=""))
        beside = runs.get(usual, [])
        yield Difference(
            key.subject,
            usual.conditions,
            name,
            Side(cost_of(beside), _calls(usual, runs)),
            Side(cost_of(its), _calls(key, runs)),
            _ratio(its, beside),
        )


def _ratio(runs: Sequence[Run], over: Sequence[Run]) -> Spread | None:
    if cost_of(runs) is None or cost_of(over) is None:
        return None
    costs, others = ({r.run: r.process for r in of if r.process} for of in (runs, over))
    ratios = [
        costs[number].cpu_us_per_request / others[number].cpu_us_per_request
        for number in costs.keys() & others.keys()
        if others[number].cpu_us_per_request
    ]
    return Spread.of(ratios) if ratios else None


def _middle(runs: Sequence[Run], figure: str) -> float | None:
    if cost_of(runs) is None:
        return None
    known = [value for run in runs if (value := getattr(run.process, figure)) is not None]
    return statistics.median(known) if known else None


def _user_share(key: CellKey, runs: Runs) -> float | None:
    return next(
        (run.stacks.user_share for run in _probed(key, "sampled", runs) if run.stacks), None
    )


def _calls(key: CellKey, runs: Runs) -> CallFigures | None:
    return next((run.calls for run in _probed(key, "traced", runs) if run.calls), None)


def _probed(key: CellKey, mode: Mode, runs: Runs) -> Iterator[Run]:
    """Yield the valid runs of the same server and conditions in `mode`, at any level."""
    wanted = (key.subject, key.conditions._replace(mode=mode))
    for other, its in runs.items():
        if (other.subject, other.conditions) == wanted:
            yield from (run for run in its if run.state == "held")
