# SPDX-License-Identifier: MIT
"""Comparisons across scenarios: the effect of one changed condition on each server.

The conditions are the workload (how often a request waits for Redis), the delay of Redis' replies
and the number of idle connections during the load. Another comparison: closed and open loop.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.records.conditions import Conditions, conditions_from
from bench.records.metrics import BY_KEY
from bench.records.points import Point
from bench.records.words import connections, duration, figure, plural
from bench.report.study.study import WAITS, WAYS, Row, Study, workload_name

BASES = ("redirect", "link")
"""The base of comparison for waiting. A file or a sorted page has other costs than waiting."""


class Shift(NamedTuple):
    """The effect of a changed condition on one server under test."""

    ratio: float
    """Its figure after the change divided by that before."""
    unknown: bool
    """The figure before is a lower bound, so the ratio has no meaning."""
    at_least: bool
    """The figure after the change is a lower bound, and so is the ratio."""


@dataclass
class Contrast:
    """One kind of figure of all servers under several conditions, at one level."""

    key: str
    level: int
    metric: str
    order: list[str]
    """The names of the conditions in the chart, in its order."""
    last: Conditions
    """The last of them."""
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """Server -> condition -> figure."""
    bounds: set[tuple[str, str]] = field(default_factory=set)
    """Server and condition of each figure that is a lower bound."""
    rows: list[Row] = field(default_factory=list)
    """The figures as rows for the chart."""
    labels: dict[str, str] = field(default_factory=dict)
    """Condition -> its label, with | between its lines."""
    about: str = ""
    """The workload that all figures have in common; empty if the workload is what changes."""

    @property
    def ends(self) -> tuple[str, str] | None:
        """The two conditions whose figures are compared; None if no two are suitable."""
        if self.key != "workloads":
            return self.order[0], self.order[-1]
        base = next((w for w in BASES if w in self.order), None)
        most = max(self.order, key=lambda w: WAITS.get(w, 0))
        return (base, most) if base and WAITS[base] < WAITS.get(most, 0) else None

    @property
    def instead(self) -> str:
        """The first condition in words, e.g. " in place of 5 ms"; empty if it is 0."""
        first = self.order[0]
        return "" if first == "0" else f" in place of {self.labels.get(first, first)}"

    def changes(self, names: Container[str]) -> dict[str, Shift]:
        """Return the shift of each of these servers between the two `ends`."""
        first, last = self.ends or ("", "")
        return {
            name: Shift(
                by[last] / by[first], (name, first) in self.bounds, (name, last) in self.bounds
            )
            for name, by in self.values.items()
            if name in names and by.get(first) and by.get(last)
        }


def workloads(study: Study) -> Contrast | None:
    """Return rates by workload, sorted by the number of waits for Redis."""
    plain = [s for s in study.scenarios if s._replace(workload="") == study.usual]
    plain.sort(key=lambda s: (s.workload == "sorted", WAITS.get(s.workload, 0), s.workload))

    def label(s: Conditions) -> str:
        return f"{workload_name(s.workload)}|{_waits(s.workload)}"

    return _compare("workloads", study, plain, lambda s: s.workload, label, ("rate",))


def delays(study: Study) -> Contrast | None:
    """Return rates by the delay of Redis' replies."""
    found = _family(study, "redis_delay_ms")

    def label(s: Conditions) -> str:
        return f"{s.redis_delay_ms:g} ms" if s.redis_delay_ms else "none"

    return _compare("delays", study, found, lambda s: f"{s.redis_delay_ms:g}", label, ("rate",))


def idles(study: Study) -> Contrast | None:
    """Return CPU per request (rates if it was not measured) by idle connections."""
    found = _family(study, "idle")
    return _compare(
        "idles", study, found, lambda s: str(s.idle), lambda s: f"{s.idle:,}", ("cpu", "rate")
    )


def _family(study: Study, name: str) -> list[Conditions]:
    """Return the largest group of scenarios that differ in this one condition only."""
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
    """Return the comparison; None if no level has two conditions to compare."""
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
            subject, condition = point.subject, name(scenario)
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
    """Latency percentiles of one kind of loop, in milliseconds."""

    s: str
    """The key of the scenario for which the page shows it."""
    subject: str
    asked: str
    """The rate of the open loop."""
    way: str
    p50: float
    p99: float
    said: str


def loop_rows(study: Study) -> list[LoopRow]:
    """Return percentiles of the open loop and of the closed loop at the nearest level.

    If an open loop ran with several limits of connections, the highest is used: it restricts the
    rate least.
    """
    highest: dict[tuple[str, Conditions], Point] = {}
    for point in sorted(study.points, key=lambda p: p.level):
        if point.conditions.mode == "open" and point.held and point.get("p99"):
            highest[point.subject, point.conditions] = point
    return [row for point in highest.values() for row in _loop_rows(study, point)]


def _loop_rows(study: Study, point: Point) -> Iterator[LoopRow]:
    beside = point.conditions._replace(mode="closed", rate=None)
    key = study.keys.get(beside, study.keys[point.conditions])
    name, asked = point.subject, f"{figure(point.conditions.rate)}/s"

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
    """Return the data point of a closed loop whose level is nearest to that of `point`."""
    points = [p for p in study.series(point.subject, scenario) if p.held and p.get("p99")]
    return min(points, key=lambda p: abs(p.level - point.level), default=None)


def _three(point: Point) -> tuple[float, float, float | None]:
    return point.get("p50") or 0.0, point.get("p99") or 0.0, point.get("p999")
