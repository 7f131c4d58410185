# SPDX-License-Identifier: MIT
"""The results put in order for the report: subjects, scenarios, and one point for each cell.

A scenario is what all points of one chart have in common (the workload and its conditions). A
point is a cell: its figures are medians over its runs, with the lowest and the highest beside.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from bench.readers.compare import Spread
from bench.records.conditions import Conditions
from bench.records.figures import HostFigures
from bench.records.json_file import Json
from bench.records.results import Results, cell_of
from bench.records.run import Reason, Run
from bench.records.workloads import WORKLOADS
from bench.report.study.metrics import figures_of

Row: TypeAlias = dict[str, Json]
"""Of the data of a chart, or of an export: what others read, and we do not."""


@dataclass(frozen=True)
class StudySubject:
    """What was measured: a server, a floor, a stranger."""

    name: str
    kind: str
    architecture: str | None


@dataclass(frozen=True)
class Point:
    """One cell."""

    subject: StudySubject
    scenario: Conditions
    level: int
    state: str
    reason: Reason | None
    runs: int
    bottleneck: str | None = None
    bottleneck_host: str | None = None
    """Its name, where it is one of several hosts."""
    hosts: tuple[HostFigures, ...] = ()
    """Each host's figures, medians of the runs."""
    lower_bound: bool = False
    outliers: int = 0
    figures: dict[str, Spread] = field(default_factory=dict)
    typical: Run | None = None

    @property
    def held(self) -> bool:
        """Whether it has a figure."""
        return self.state == "held" and "rate" in self.figures

    def get(self, key: str) -> float | None:
        """The median of one kind of figure; None if it was not measured."""
        spread = self.figures.get(key)
        return spread.median if spread else None

    def __getitem__(self, key: str) -> float:
        """The same of one that was measured."""
        return self.figures[key].median


class Study:
    """All points of a result, and questions to them."""

    def __init__(self, results: Results) -> None:
        self.results = results
        groups = results.by_cell()
        self.points = [_point(groups[key]) for key in groups if key.conditions.rated]
        found = {point.subject.name: point.subject for point in self.points}
        order = [name for name in results.servers if name in found]
        names = order + [name for name in found if name not in order]
        ranks = {"server": 0, "stranger": 1, "floor": 2}
        self.subjects = sorted((found[n] for n in names), key=lambda s: ranks.get(s.kind, 1))
        self.all_scenarios = list(dict.fromkeys(point.scenario for point in self.points))
        self._index = {(p.subject.name, p.scenario, p.level): p for p in self.points}

    @cached_property
    def scenarios(self) -> list[Conditions]:
        """Those of the closed loop, the one with the most points first, as they are chosen from.

        Only if nothing was measured in the closed loop, those of the open one.
        """
        closed = [s for s in self.all_scenarios if s.mode == "closed"] or self.all_scenarios
        usual = Conditions("")
        plain = {s: [a == b for a, b in zip(s[1:], usual[1:], strict=True)] for s in closed}
        first = max(
            closed,
            key=lambda s: (s.workload == "guestbook", sum(plain[s]), len(self.of(s))),
            default=None,
        )
        return sorted(closed, key=lambda s: s != first)

    @cached_property
    def usual(self) -> Conditions:
        """What workloads are compared under: a whole core, or the slice of one that all have."""
        return Conditions("", quota=min((s.quota for s in self.scenarios), default=0.0))

    @cached_property
    def keys(self) -> dict[Conditions, str]:
        """A short name for each scenario: s0, s1, ...; those that can be chosen first."""
        rest = [s for s in self.all_scenarios if s not in self.scenarios]
        return {scenario: f"s{i}" for i, scenario in enumerate([*self.scenarios, *rest])}

    def find(self, subject: str, scenario: Conditions, level: int) -> Point | None:
        """One cell, whatever its state."""
        return self._index.get((subject, scenario, level))

    def of(self, scenario: Conditions, *kinds: str) -> list[Point]:
        """All points of a scenario, of all kinds or of some."""
        found = [p for p in self.points if p.scenario == scenario]
        return [p for p in found if not kinds or p.subject.kind in kinds]

    def contenders(self, scenario: Conditions, level: int | None = None) -> list[Point]:
        """Points that hold of what serves the application: all but floors."""
        points = self.of(scenario, "server", "stranger")
        return [p for p in points if p.held and level in (None, p.level)]

    def series(self, subject: str, scenario: Conditions) -> list[Point]:
        """The points of one subject by rising level."""
        mine = [p for p in self.of(scenario) if p.subject.name == subject]
        return sorted(mine, key=lambda p: p.level)

    def levels(self, scenario: Conditions) -> list[int]:
        """The levels of a scenario, rising."""
        return sorted({p.level for p in self.of(scenario)})

    def reference(self, scenario: Conditions) -> int:
        """The level at which to compare: one that as many as possible hold; of these one that was
        measured most often; of these the highest. `bench.readers.order` has the same."""

        def worth(level: int) -> tuple[int, int, int]:
            held = self.contenders(scenario, level)
            return len(held), min((p.runs for p in held), default=0), level

        return max(self.levels(scenario), key=worth, default=0)

    def has(self, key: str, scenario: Conditions | None = None) -> bool:
        """Whether a kind of figure was measured (in that scenario)."""
        points = self.points if scenario is None else self.of(scenario)
        return any(key in p.figures for p in points)

    def whole_memory(self) -> bool:
        """Whether memory is that of all processes; otherwise it is that of the largest one, and
        servers of many processes cannot be compared with those of one."""
        return any(p.typical and p.typical.process for p in self.points)

    def floor_of(self, point: Point) -> Point | None:
        """The floor of the same architecture, in the same scenario and at the same level."""
        if point.subject.kind == "floor" or not point.subject.architecture:
            return None
        for other in self.of(point.scenario, "floor"):
            same = other.subject.architecture == point.subject.architecture
            if same and other.level == point.level and other.held:
                return other
        return None

    def floor_ratio(self, point: Point) -> float | None:
        """CPU per request as a multiple of the floor's."""
        floor = self.floor_of(point)
        mine, least = point.get("cpu"), floor.get("cpu") if floor else None
        return mine / least if mine and least else None

    @property
    def single_run(self) -> bool:
        """Whether no cell was measured twice, so that nothing is known about noise."""
        return all(point.runs <= 1 for point in self.points)

    def without_figure(self) -> Iterator[Point]:
        """The points that do not hold."""
        return (p for p in self.points if p.state != "held")


def _point(runs: list[Run]) -> Point:
    cell, first = cell_of(runs), runs[0]
    architecture = first.architecture or (first.subject if first.kind == "server" else None)
    values: dict[str, list[float]] = {}
    for run in runs if cell.state == "held" else ():
        for key, value in figures_of(run).items():
            values.setdefault(key, []).append(value)
    return Point(
        subject=StudySubject(first.subject, first.kind, architecture),
        scenario=first.conditions,
        level=first.concurrency,
        state=cell.state,
        reason=cell.reason,
        runs=len(runs),
        bottleneck=cell.bottleneck,
        bottleneck_host=cell.bottleneck_host,
        hosts=_hosts(runs) if cell.state == "held" else (),
        lower_bound=cell.lower_bound,
        outliers=cell.outliers,
        figures={key: Spread.of(known) for key, known in values.items()},
        typical=cell.typical,
    )


def _hosts(runs: list[Run]) -> tuple[HostFigures, ...]:
    groups: dict[tuple[str, str], list[HostFigures]] = {}
    for run in runs:
        for host in run.hosts:
            groups.setdefault((host.role, host.name), []).append(host)
    return tuple(_median_host(found) for found in groups.values())


def _median_host(found: list[HostFigures]) -> HostFigures:
    values: dict[str, float | None] = {}
    for name in HOST_FIGURES:
        known = [value for host in found if (value := getattr(host, name)) is not None]
        values[name] = statistics.median_high(known) if known else None
    return found[0].model_copy(update=values)


HOST_FIGURES = (
    *("cpu_share", "throttled_share"),
    *("listen_overflows", "listen_drops", "retransmits", "time_wait_overflows"),
)
"""What is known of each host, by the names in the results."""

WAITS = {name: workload.waits for name, workload in WORKLOADS.items()}
"""How often a request of a workload waits for Redis."""

NAMES = {
    "redirect": "redirect",
    "small": "small file",
    "large": "large file",
    "sorted": "sorted page",
    "link": "short link",
    "sign": "signing the guestbook",
    "guestbook": "guestbook",
}


def workload_name(workload: str) -> str:
    """For people."""
    return NAMES.get(workload, workload)


def describe(scenario: Conditions) -> str:
    """A scenario in a few words."""
    kept = [] if scenario.keep_alive else ["a connection per request"]
    return ", ".join([workload_name(scenario.workload), *kept, *scenario.particulars()])


WAYS = (
    "closed loop",
    "open loop, from the sending (uncorrected)",
    "open loop, from when it was due (corrected)",
)
