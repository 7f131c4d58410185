# SPDX-License-Identifier: MIT
"""Comparisons across scenarios: what one changed condition does to each server.

Three of them: the workload (how often a request waits for Redis), the delay of Redis' replies, the
number of idle connections held open beside the load. And closed against open loop.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.records.conditions import Conditions, conditions_from
from bench.records.words import connections, duration, figure, plural
from bench.report.study.metrics import BY_KEY
from bench.report.study.study import WAITS, WAYS, Point, Row, Study, workload_name

BASES = ("redirect", "link")
"""What waiting is measured against. A file or a sorted page costs other things than a wait."""


class Shift(NamedTuple):
    """What a changed condition did to one subject."""

    ratio: float
    """Its figure afterwards over that before."""
    unknown: bool
    """The figure before is a lower bound: the ratio says nothing."""
    at_least: bool
    """The figure afterwards is a lower bound, and so is the ratio."""


@dataclass
class Contrast:
    """One kind of figure of all subjects under several conditions, at one level."""

    key: str
    level: int
    metric: str
    order: list[str]
    """The conditions, as the chart names them."""
    last: Conditions
    """The last of them."""
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """Subject -> condition -> figure."""
    bounds: set[tuple[str, str]] = field(default_factory=set)
    """Subject and condition of each figure that is a lower bound."""
    rows: list[Row] = field(default_factory=list)
    """The same for the chart."""
    labels: dict[str, str] = field(default_factory=dict)
    """Condition -> its label, with | between its lines."""
    about: str = ""
    """What all of it has in common."""

    @property
    def ends(self) -> tuple[str, str] | None:
        """The two conditions between which a change is told; None if no two are fit for it."""
        if self.key != "workloads":
            return self.order[0], self.order[-1]
        base = next((w for w in BASES if w in self.order), None)
        most = max(self.order, key=lambda w: WAITS.get(w, 0))
        return (base, most) if base and WAITS[base] < WAITS.get(most, 0) else None

    @property
    def instead(self) -> str:
        """What a change is told from, where that is more than nothing: " in place of 5 ms"."""
        first = self.order[0]
        return "" if first == "0" else f" in place of {self.labels.get(first, first)}"

    def changes(self, names: Container[str]) -> dict[str, Shift]:
        """What became of each of these subjects from one end to the other."""
        first, last = self.ends or ("", "")
        return {
            name: Shift(
                by[last] / by[first], (name, first) in self.bounds, (name, last) in self.bounds
            )
            for name, by in self.values.items()
            if name in names and by.get(first) and by.get(last)
        }


def workloads(study: Study) -> Contrast | None:
    """Rates by workload, those that wait least first."""
    plain = [s for s in study.scenarios if s._replace(workload="") == study.usual]
    plain.sort(key=lambda s: (s.workload == "sorted", WAITS.get(s.workload, 0), s.workload))

    def label(s: Conditions) -> str:
        return f"{workload_name(s.workload)}|{_waits(s.workload)}"

    return _compare("workloads", study, plain, lambda s: s.workload, label, ("rate",))


def delays(study: Study) -> Contrast | None:
    """Rates by the delay of Redis' replies."""
    found = _family(study, "redis_delay_ms")

    def label(s: Conditions) -> str:
        return f"{s.redis_delay_ms:g} ms" if s.redis_delay_ms else "none"

    return _compare("delays", study, found, lambda s: f"{s.redis_delay_ms:g}", label, ("rate",))


def idles(study: Study) -> Contrast | None:
    """CPU per request (or, where that was not measured, rates) by idle connections."""
    found = _family(study, "idle")
    return _compare(
        "idles", study, found, lambda s: str(s.idle), lambda s: f"{s.idle:,}", ("cpu", "rate")
    )


def _family(study: Study, name: str) -> list[Conditions]:
    """The scenarios that differ in this one condition only: the largest such group."""
    groups: dict[Conditions, list[Conditions]] = {}
    for scenario in study.scenarios:
        groups.setdefault(conditions_from(scenario._asdict() | {name: 0}), []).append(scenario)
    best = max(groups.values(), key=len, default=[])
    return sorted(best, key=lambda s: getattr(s, name))


def _compare(
    key: str,
    study: Study,
    scenarios: Sequence[Conditions],
    name: Callable[[Conditions], str],
    label: Callable[[Conditions], str],
    metrics: Sequence[str],
) -> Contrast | None:
    """None if there are not two conditions to compare at one level."""
    shared = {n for s in scenarios for n in study.levels(s)}
    level = max(shared, key=lambda n: (_held_at(study, scenarios, n), n), default=0)
    there = [s for s in scenarios if study.contenders(s, level)]
    if len(there) < 2:
        return None
    metric = next((m for m in metrics if all(study.has(m, s) for s in there)), metrics[-1])
    found = Contrast(key, level, metric, [name(s) for s in there], there[-1])
    found.about = workload_name(there[0].workload) if key != "workloads" else ""
    for scenario in there:
        for point in study.of(scenario):
            value = point.get(metric)
            if point.level != level or value is None:
                continue
            subject, condition = point.subject.name, name(scenario)
            found.values.setdefault(subject, {})[condition] = value
            bound = metric == "rate" and point.lower_bound
            if bound:
                found.bounds.add((subject, condition))
            said = f"{subject}, {label(scenario).replace('|', ', ')}: "
            said += f"{'≥ ' if bound else ''}{figure(value)} {BY_KEY[metric].label}"
            said += f" at {connections(level)}"
            row: Row = {"subject": subject, "condition": condition, "value": value, "said": said}
            found.rows.append(row | {"bound": bound})
            found.labels[condition] = label(scenario)
    return found


def _held_at(study: Study, scenarios: Sequence[Conditions], level: int) -> int:
    return sum(len(study.contenders(s, level)) for s in scenarios)


def _waits(workload: str) -> str:
    if workload == "sorted":
        return "pure CPU"
    count = WAITS.get(workload)
    return "" if count is None else plural(count, "wait") if count else "no wait"


class LoopRow(NamedTuple):
    """How long requests took in a loop, in milliseconds."""

    s: str
    """The key of the conditions under which it is shown."""
    subject: str
    asked: str
    """The rate of the open loop."""
    way: str
    p50: float
    p99: float
    said: str


def loop_rows(study: Study) -> list[LoopRow]:
    """Percentiles of the open loop, with those of the closed loop nearest to it beside.

    Where an open loop was run with several limits of connections, the highest counts: it is the
    one least in the way of the rate.
    """
    highest: dict[tuple[str, Conditions], Point] = {}
    for point in sorted(study.points, key=lambda p: p.level):
        if point.scenario.mode == "open" and point.held and point.get("p99"):
            highest[point.subject.name, point.scenario] = point
    return [row for point in highest.values() for row in _loop_rows(study, point)]


def _loop_rows(study: Study, point: Point) -> Iterator[LoopRow]:
    beside = point.scenario._replace(mode="closed", rate=None)
    key = study.keys.get(beside, study.keys[point.scenario])
    name, asked = point.subject.name, f"{figure(point.scenario.rate)}/s"

    def row(way: str, p50: float, p99: float, p999: float | None) -> LoopRow:
        said = f"{name} at {asked}, {way}: median {duration(p50)}, p99 {duration(p99)}"
        said += f", p99.9 {duration(p999)}" if p999 else ""
        return LoopRow(key, name, asked, way, p50, p99, said)

    yield row(WAYS[2], *_three(point))
    run = point.typical
    if run and run.open_loop and run.open_loop.uncorrected:
        sent = run.open_loop.uncorrected
        yield row(WAYS[1], sent.p50, sent.p99, sent.p999)
    closed = _closed_beside(study, point, beside)
    if closed:
        yield row(WAYS[0], *_three(closed))


def _closed_beside(study: Study, point: Point, scenario: Conditions) -> Point | None:
    """The cell of the closed loop under the same conditions, at the level nearest to it."""
    points = [p for p in study.series(point.subject.name, scenario) if p.held and p.get("p99")]
    return min(points, key=lambda p: abs(p.level - point.level), default=None)


def _three(point: Point) -> tuple[float, float, float | None]:
    return point.get("p50") or 0.0, point.get("p99") or 0.0, point.get("p999")
