# SPDX-License-Identifier: MIT
"""The results for the report: servers under test, scenarios, and a point per configuration.

A scenario is a workload and its conditions. Most charts show the points of one scenario.
"""

from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from bench.records.conditions import BASELINE_PREFIX, CellKey, Conditions
from bench.records.points import Point, best_level, data_points, ratio
from bench.records.results import Results
from bench.records.workloads import WORKLOADS

Row: TypeAlias = dict[str, Any]
"""A row of a chart's data or of an export."""


class StudySubject(NamedTuple):
    """A server under test: one of the project, a baseline or a reference server."""

    name: str
    kind: str
    architecture: str | None


class Study:
    """All points of a result, with methods to select and compare them."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.index = data_points(results)
        """All data points, also those without a rate."""
        self.points = [point for point in self.index.values() if point.conditions.rated]
        found = {p.subject: StudySubject(p.subject, p.kind, p.architecture) for p in self.points}
        order = [name for name in results.servers if name in found]
        names = order + [name for name in found if name not in order]
        ranks = {"server": 0, "reference": 1, "baseline": 2}
        self.subjects = sorted((found[n] for n in names), key=lambda s: ranks.get(s.kind, 1))
        self.all_scenarios = list(dict.fromkeys(point.conditions for point in self.points))

    @cached_property
    def scenarios(self) -> list[Conditions]:
        """Return the scenarios in the page's menu: all closed loops; if there are none, all
        scenarios.

        First comes the guestbook (if measured) with the fewest special conditions and the most
        points."""
        closed = [s for s in self.all_scenarios if s.mode == "closed"] or self.all_scenarios

        def rank(scenario: Conditions) -> tuple[bool, int, int]:
            special = len(scenario.particulars())
            return scenario.workload == "guestbook", -special, len(self.of(scenario))

        first = max(closed, key=rank, default=None)
        return sorted(closed, key=lambda scenario: scenario != first)

    @cached_property
    def keys(self) -> dict[Conditions, str]:
        """Return a short name for each scenario: s0, s1, ...; the menu's scenarios come first."""
        rest = [s for s in self.all_scenarios if s not in self.scenarios]
        return {scenario: f"s{i}" for i, scenario in enumerate([*self.scenarios, *rest])}

    def find(self, subject: str, scenario: Conditions, level: int) -> Point | None:
        """Return the point of one configuration, valid or not; None if it was not measured."""
        return self.index.get(CellKey(subject, scenario, level))

    def of(self, scenario: Conditions, *kinds: str) -> list[Point]:
        """Return the points of a scenario, of all kinds of servers or of the given ones."""
        found = [p for p in self.points if p.conditions == scenario]
        return [p for p in found if not kinds or p.kind in kinds]

    def contenders(self, scenario: Conditions, level: int | None = None) -> list[Point]:
        """Return the valid points of a scenario, without baselines."""
        points = self.of(scenario, "server", "reference")
        return [p for p in points if p.held and level in (None, p.level)]

    def series(self, subject: str, scenario: Conditions) -> list[Point]:
        """Return the points of one server, the lowest level first."""
        mine = [p for p in self.of(scenario) if p.subject == subject]
        return sorted(mine, key=lambda p: p.level)

    def levels(self, scenario: Conditions) -> list[int]:
        """Return the levels of a scenario, the lowest first."""
        return sorted({p.level for p in self.of(scenario)})

    def reference(self, scenario: Conditions) -> int:
        """Return the level at which servers are compared."""
        return best_level(self.of(scenario, "server", "reference")) or max(
            self.levels(scenario), default=0
        )

    def has(self, key: str, scenario: Conditions | None = None) -> bool:
        """Return whether a kind of figure was measured (in `scenario`, if given)."""
        points = self.points if scenario is None else self.of(scenario)
        return any(p.spread(key) for p in points)

    def whole_memory(self) -> bool:
        """Return whether the memory was measured for all processes of a server together. If only
        the largest process was measured, servers with different numbers of processes cannot be
        compared."""
        return any(p.typical and p.typical.process for p in self.points)

    def baseline_ratio(self, point: Point) -> float | None:
        """Return the ratio of a server's CPU per request to its baseline's, in the same scenario
        and level; None if one of the two is unknown."""
        if point.kind == "baseline" or not point.architecture:
            return None
        name = BASELINE_PREFIX + point.architecture
        return ratio(point, self.find(name, point.conditions, point.level), "cpu")

    @property
    def single_run(self) -> bool:
        """Return whether each configuration was measured only once, so the noise is unknown."""
        return all(len(point.runs) <= 1 for point in self.points)


WAITS = {name: workload.waits for name, workload in WORKLOADS.items()}
"""The number of times that a request of a workload waits for Redis."""


def workload_name(workload: str) -> str:
    """Return the name of a workload in words."""
    known = WORKLOADS.get(workload)
    return known.called or known.name if known else workload


def describe(scenario: Conditions) -> str:
    """Return a scenario in a few words."""
    kept = [] if scenario.keep_alive else ["a connection per request"]
    return ", ".join([workload_name(scenario.workload), *kept, *scenario.particulars()])


WAYS = (
    "closed loop",
    "open loop, latency from sending (uncorrected)",
    "open loop, latency from the due time (corrected)",
)
