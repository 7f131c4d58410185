# SPDX-License-Identifier: MIT
"""Beside the seven: what was published and what is measured today, side by side; and where the
seven stand among what people use. Pure.

Rates of other machines and years cannot be compared, ratios can: each is of a figure to that of one
named subject under the same load. A rate of today counts only where the load generator was not the
limit, for both. What a core would carry, one divided by the CPU time of a request, counts always.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.records.conditions import Conditions
from bench.records.peers import PeerStudy, Published
from bench.records.results import Results
from bench.report.study.study import Point, Study

MANY = 2.0
"""From here on a ratio of today counts as another than then: twice as much, or half."""

CLOSE = 1.1
"""Two that differ by less cannot be told apart by a run or two."""

CLOSES = {"iterative": "it closes each one after one response, for all others wait meanwhile"}
"""Of the seven, who keeps no connection; a peer says it in its own file."""


@dataclass(frozen=True)
class Then:
    """What was published of a subject."""

    system: str
    rate: float | None
    ratio: float | None
    """Of its rate to that of the reference."""
    note: str


@dataclass(frozen=True)
class Now:
    """What is measured of it today."""

    point: Point | None
    """None: there is no figure."""
    ratio: float | None = None
    """Of rates; None where one of them is the load generator's."""
    carries: float | None = None
    """What a core would carry, as a ratio to the reference."""
    why_not: str = ""
    """There is no figure, and why."""

    def get(self, key: str) -> float | None:
        """One kind of figure; None if it was not measured."""
        return self.point.get(key) if self.point else None


@dataclass(frozen=True)
class PeerRow:
    """A subject, then and now."""

    subject: str
    then: tuple[Then, ...]
    """None, one, or several of one kind (two ways of writing the same)."""
    now: Now

    @property
    def differs(self) -> bool:
        """Whether it stands elsewhere than then, by what a core carries."""
        then = next((one.ratio for one in self.then if one.ratio), None)
        if then is None or self.now.carries is None:
            return False
        return not 1 / MANY < self.now.carries / then < MANY


@dataclass(frozen=True)
class PeersTable:
    """All subjects of a study under one load."""

    scenario: Conditions
    level: int
    reference: str
    then_level: int | None
    """Connections of the published figures; None: nothing was published of this."""
    rows: tuple[PeerRow, ...]

    @property
    def published(self) -> bool:
        """Whether anything of it was."""
        return any(row.then for row in self.rows)


def tables(study: Study, asked: PeerStudy) -> list[PeersTable]:
    """Those of one of the studies that a sweep was made for, in the order of its plan."""
    found: list[PeersTable] = []
    seen: set[tuple[Conditions, int]] = set()
    for some in asked.measured:
        for scenario in some.conditions:
            for level in some.levels:
                if scenario.rated and (scenario, level) not in seen:
                    seen.add((scenario, level))
                    found.append(_table(study, asked, scenario, level))
    return [
        table
        for table in found
        if any(
            row.then or study.find(row.subject, table.scenario, table.level) for row in table.rows
        )
    ]


def _table(study: Study, asked: PeerStudy, scenario: Conditions, level: int) -> PeersTable:
    published = [
        row
        for row in asked.published
        if (row.workload, row.keep_alive, row.cores, row.at)
        == (scenario.workload, scenario.keep_alive, scenario.cores, level)
    ]
    refers_to = asked.reference_of(scenario.workload)
    base = next((row.requests_per_second for row in published if row.subject == refers_to), None)
    names = dict.fromkeys(
        name
        for some in asked.measured
        if scenario in some.conditions and level in some.levels
        for name in some.subjects
    )
    names |= dict.fromkeys(row.subject for row in published)
    reference = study.find(refers_to, scenario, level)
    rows = [
        PeerRow(
            name,
            tuple(_then(row, base) for row in published if row.subject == name),
            _now(study, name, scenario, level, reference),
        )
        for name in names
    ]
    return PeersTable(
        scenario,
        level,
        refers_to,
        published[0].concurrency if published else None,
        tuple(sorted(rows, key=lambda row: row.now.get("cpu") or math.inf)),
    )


def _then(row: Published, base: float | None) -> Then:
    ratio = row.requests_per_second / base if row.requests_per_second and base else None
    return Then(row.system, row.requests_per_second, ratio, row.note)


def _now(study: Study, name: str, scenario: Conditions, level: int, reference: Point | None) -> Now:
    point = study.find(name, scenario, level)
    if point is None or not point.held:
        reason = point.reason if point else None
        why_not = reason.text if reason else _absence(study.results, name, scenario)
        return Now(None, why_not=why_not)
    carries = _over(reference.get("cpu") if reference else None, point.get("cpu"))
    return Now(point, _ratio_of_rates(point, reference), carries)


def _absence(results: Results, name: str, scenario: Conditions) -> str:
    """Why a subject has no cell at all."""
    if name in results.left_out:
        return results.left_out[name]
    peer = results.peers.get(name)
    closes = peer.closes if peer else CLOSES.get(name)
    if closes and scenario.server_keeps:
        return f"it keeps no connection as asked for: {closes}"
    return "not measured under this load"


def _ratio_of_rates(point: Point, reference: Point | None) -> float | None:
    if reference is None or not reference.held or point.lower_bound or reference.lower_bound:
        return None
    return _over(point.get("rate"), reference.get("rate"))


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


# ---- Where the seven stand: CPU per request of all, under everything that was measured ----


@dataclass(frozen=True)
class Dot:
    """What a request costs a subject under one load."""

    subject: str
    kind: str
    scenario: Conditions
    level: int
    cpu: float


def dots(study: Study) -> list[Dot]:
    """Of all subjects of the studies that a sweep was made for, each at the lowest level of each
    of its loads; the leanest subject first."""
    wanted = {
        (scenario, min(some.levels))
        for one in study.results.studies
        for some in one.measured
        for scenario in some.conditions
        if scenario.rated
    }
    lowest = {scenario: min(n for s, n in wanted if s == scenario) for scenario, _ in wanted}
    found = [
        Dot(p.subject.name, p.subject.kind, p.scenario, p.level, cpu)
        for p in study.points
        if p.held and lowest.get(p.scenario) == p.level and (cpu := p.get("cpu"))
    ]
    places = _places(found)
    return sorted(found, key=lambda dot: (places[dot.subject], dot.subject))


def _places(found: Iterable[Dot]) -> dict[str, float]:
    """By subject: the logarithm of how many times as much it costs as the one that has most loads
    does under the same load, on average, since not all serve everything. What that one does not
    serve is held against the middle of all."""
    found = list(found)
    served = Counter(dot.subject for dot in found)
    common = max(served, key=lambda name: (served[name], name == "epoll"), default="")
    by_load: dict[Conditions, dict[str, float]] = {}
    for dot in found:
        by_load.setdefault(dot.scenario, {})[dot.subject] = dot.cpu
    logs: dict[str, list[float]] = {}
    for dot in found:
        costs = by_load[dot.scenario]
        against = costs.get(common) or statistics.median(costs.values())
        logs.setdefault(dot.subject, []).append(math.log(dot.cpu / against))
    return {name: statistics.fmean(values) for name, values in logs.items()}


def standing(found: Iterable[Dot]) -> str:
    """Where the seven stand, in a sentence; empty where there is nothing to compare."""
    found = list(found)
    order = list(dict.fromkeys(dot.subject for dot in found))
    kinds = {dot.subject: dot.kind for dot in found}
    seven = [name for name in order if kinds[name] == "server"]
    others = [name for name in order if kinds[name] == "stranger"]
    if not seven or not others:
        return ""
    places = _places(found)
    best, first = seven[0], others[0]
    if abs(places[best] - places[first]) < math.log(CLOSE):
        return (
            f"On average the leanest of the seven, {best}, and of what people use, {first}, need "
            "about the same CPU time for a request"
        )
    leaner = [name for name in others if places[name] < places[best] - math.log(CLOSE)]
    if not leaner:
        return f"On average {best} needs the least CPU of all; of what people use, {first} does"
    need = "needs" if len(leaner) == 1 else "need"
    return (
        f"On average {len(leaner)} of {len(others)} that people use {need} less CPU than the "
        f"leanest of the seven, {best}: {', '.join(leaner)}"
    )


# ---- Memory of connections ----


def memory(results: Results, asked: PeerStudy) -> list[tuple[str, int, float]]:
    """Of a study's cells that look at memory: subject, connections, bytes of each; least first."""
    found = [
        (cell.subject, cell.concurrency, cell.typical.memory.per_connection)
        for cell in results.cells()
        if cell.state == "held"
        and cell.typical
        and cell.typical.memory
        and asked.has(cell.typical.key)
    ]
    return sorted(found, key=lambda row: row[2])
