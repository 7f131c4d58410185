# SPDX-License-Identifier: MIT
"""Comparisons across scenarios, with the titles of their charts. Pure; see `findings`.

One condition changes: the workload (how often a request waits for Redis), the delay of Redis'
replies, or the number of idle connections during the load. Two more comparisons: the closed and the
open loop, and the cost of each server relative to its baseline in each workload. Last, several
instances behind nginx: a family has the scenarios that differ in instances and balancer only.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.records.conditions import Conditions, as_typed, conditions_from, way_in_words
from bench.records.figures import Balancer
from bench.records.metrics import BY_KEY
from bench.records.points import Point
from bench.records.words import (
    connections,
    duration,
    figure,
    listed,
    number_word,
    percent,
    plural,
    times,
    upper_first,
)
from bench.report.findings.findings import AT_LIMIT, EACH_AT_LIMIT, NEAR, above_baseline
from bench.report.limits import limits_of
from bench.report.study import WAITS, WAYS, Row, Study, workload_name

BASES = ("redirect", "link")
"""The base for comparisons of waiting. A file or a sorted page would add costs of its own."""


class ContrastKind(NamedTuple):
    """A condition that changes, and the words about it."""

    key: str
    field: str
    """The name of the condition."""
    axis: str
    metrics: Sequence[str]
    """The figures that may be compared: the first that all have; if there is none, the last."""
    label: Callable[[Conditions], str]
    """The label of a value, with | between its lines."""
    words: str
    """The last value, and what it replaces."""


def _workload_label(scenario: Conditions) -> str:
    count = WAITS.get(scenario.workload)
    waits = "" if count is None else plural(count, "wait") if count else "no wait"
    waits = "pure CPU" if scenario.workload == "sorted" else waits
    return f"{workload_name(scenario.workload)}|{waits}"


KINDS = (
    ContrastKind("workloads", "workload", "workload", ("rate",), _workload_label, "{}{}"),
    ContrastKind(
        *("delays", "redis_delay_ms", "delay of each reply of Redis", ("rate",)),
        lambda s: f"{s.redis_delay_ms:g} ms" if s.redis_delay_ms else "none",
        "{}{} of delay in each reply of Redis",
    ),
    ContrastKind(
        *("idles", "idle", "idle connections during the load", ("cpu", "rate")),
        lambda s: f"{s.idle:,}",
        "{} idle connections{}",
    ),
)


@dataclass(frozen=True)
class Contrast:
    """One kind of figure of all servers under several conditions, at one level."""

    kind: ContrastKind
    scenarios: Sequence[Conditions]
    """The conditions in the order of the chart."""
    level: int
    metric: str
    points: Sequence[Point]
    """The data points that have the figure."""

    @property
    def labels(self) -> dict[str, str]:
        """Return the label of each condition by its name in the chart."""
        return {self._name(s): self.kind.label(s) for s in self.scenarios}

    def _name(self, scenario: Conditions) -> str:
        return as_typed(getattr(scenario, self.kind.field))

    @property
    def rows(self) -> list[Row]:
        """Return the figures as rows for the chart."""
        found: list[Row] = []
        for point in self.points:
            value, bound = point[self.metric], self.metric == "rate" and point.lower_bound
            said = f"{point.subject}, {self.kind.label(point.conditions).replace('|', ', ')}: "
            said += f"{'≥ ' if bound else ''}{figure(value)} {BY_KEY[self.metric].label} at "
            said += connections(self.level)
            row: Row = {"subject": point.subject, "condition": self._name(point.conditions)}
            found.append(row | {"value": value, "said": said, "bound": bound})
        return found

    @property
    def ends(self) -> tuple[Conditions, Conditions] | None:
        """Return the two conditions whose figures are compared; None if no two are suitable."""
        if self.kind.field != "workload":
            return self.scenarios[0], self.scenarios[-1]
        by_name = {s.workload: s for s in self.scenarios}
        base = next((by_name[name] for name in BASES if name in by_name), None)
        most = max(self.scenarios, key=lambda s: WAITS.get(s.workload, 0))
        return (base, most) if base and WAITS[base.workload] < WAITS.get(most.workload, 0) else None

    def pairs(self, names: Container[str]) -> dict[str, tuple[Point, Point]]:
        """Return the data points of each of these servers at the two `ends`."""
        first, last = (
            {p.subject: p for p in self.points if p.conditions == end and p[self.metric]}
            for end in self.ends or (None, None)
        )
        both = [name for name in first if name in names and name in last]
        return {name: (first[name], last[name]) for name in both}

    def change_in_words(self, first: Conditions, last: Conditions) -> str:
        """Return what the last condition has that the first has not."""
        before, after = (self.kind.label(end).partition("|")[0] for end in (first, last))
        instead = f" in place of {before}" if getattr(first, self.kind.field) else ""
        return self.kind.words.format(after, instead)


def contrasts(study: Study) -> Iterator[Contrast]:
    """Yield rates by workload, sorted by the number of waits for Redis; rates by the delay of
    Redis' replies; CPU per request (rates if it was not measured) by idle connections."""
    plain = [s for s in study.scenarios if s._replace(workload="") == study.usual]
    plain.sort(key=lambda s: (s.workload == "sorted", WAITS.get(s.workload, 0), s.workload))
    for kind in KINDS:
        scenarios = plain if kind.field == "workload" else _family(study, kind.field)
        if found := _compare(kind, study, scenarios):
            yield found


def _family(study: Study, name: str) -> list[Conditions]:
    """Return the largest group of scenarios that differ in this one condition only."""
    groups: dict[Conditions, list[Conditions]] = {}
    for scenario in study.scenarios:
        groups.setdefault(conditions_from(scenario._asdict() | {name: 0}), []).append(scenario)
    best = max(groups.values(), key=len, default=[])
    return sorted(best, key=lambda s: getattr(s, name))


def _compare(kind: ContrastKind, study: Study, scenarios: Sequence[Conditions]) -> Contrast | None:
    """Return the comparison; None if no level has two conditions to compare."""
    shared = {n for s in scenarios for n in study.levels(s)}
    level = max(
        shared, key=lambda n: (sum(len(study.contenders(s, n)) for s in scenarios), n), default=0
    )
    there = [s for s in scenarios if study.contenders(s, level)]
    if len(there) < 2:
        return None
    measured = (m for m in kind.metrics if all(study.has(m, s) for s in there))
    metric = next(measured, kind.metrics[-1])
    points = [p for s in there for p in study.of(s) if p.level == level and p.spread(metric)]
    return Contrast(kind, there, level, metric, points)


def title(found: Contrast, names: Sequence[str]) -> str:
    """Return the effect of the change from the first condition to the last, and the level; the
    changed condition if there is no effect."""
    label = BY_KEY[found.metric].label
    title = comparison(found, names) or upper_first(f"{label} by {found.kind.axis}")
    about = f"{workload_name(found.scenarios[0].workload)}, "
    return f"{title} ({'' if found.kind.field == 'workload' else about}{connections(found.level)})"


def comparison(found: Contrast, names: Sequence[str]) -> str:
    """Return the smallest and the largest effect of the change, with their servers."""
    pairs = found.pairs(names)
    if found.ends is None or not pairs:
        return ""
    what = found.change_in_words(*found.ends)
    if found.metric != "cpu":
        return _left(upper_first(what), pairs)
    ranked = sorted((last["cpu"] / first["cpu"], name) for name, (first, last) in pairs.items())
    (less, least), (more, most) = ranked[0], ranked[-1]
    if len(pairs) > 1 and more < NEAR * less:
        return f"With {what} a request costs each of them {times(more)} as much CPU"
    words = f"With {what} a request costs {most} {times(more)} as much CPU"
    return words + (f", {least} {times(less)}" if least != most else "")


def share_left(ratio: float, at_least: bool = False) -> str:
    """Return the remaining share of a rate: "60 %", "at least 60 %", "all"."""
    return f"{'at least ' if at_least else ''}{percent(ratio)}" if ratio < 1 / NEAR else "all"


def _left(what: str, pairs: dict[str, tuple[Point, Point]]) -> str:
    """Return the remaining shares of the rates. A share of a lower bound is unknown."""
    known = sorted(
        (last["rate"] / first["rate"], name, last.lower_bound)
        for name, (first, last) in pairs.items()
        if not first.lower_bound
    )
    unknown = [name for name, (first, _) in pairs.items() if first.lower_bound]
    if not known:
        words = f"{what}: the remaining share of the rates is unknown"
        return f"{words}; without that {EACH_AT_LIMIT}"
    exact = [found for found in known if not found[2]]
    (less, most, less_bound), (more, least, more_bound) = (exact or known)[0], known[-1]
    if len(exact) == len(pairs) > 1 and more < NEAR * less:
        return f"{what} left each of them {share_left(less)} of its rate"
    words = f"{what} left {least} {share_left(more, more_bound)} of its rate"
    words += f", {most} {share_left(less, less_bound)}" if most != least else ""
    return words + (f"; unknown for {listed(unknown)}" if unknown else "")


# ---- The closed and the open loop ----


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
    closed_loop = point.conditions._replace(mode="closed", rate=None)
    key = study.keys.get(closed_loop, study.keys[point.conditions])
    name, asked = point.subject, f"{figure(point.conditions.rate)}/s"
    times_of = {WAYS[2]: [point.get(part) for part in ("p50", "p99", "p999")]}
    run = point.typical
    if run and run.open_loop and (sent := run.open_loop.uncorrected):
        times_of[WAYS[1]] = [sent.p50, sent.p99, sent.p999]
    closed = [p for p in study.series(name, closed_loop) if p.held and p.get("p99")]
    if closed:
        nearest = min(closed, key=lambda p: abs(p.level - point.level))
        times_of[WAYS[0]] = [nearest.get(part) for part in ("p50", "p99", "p999")]
    for way, (p50, p99, p999) in times_of.items():
        said = (
            f"{name} at {asked}, {way}: median {duration(p50 or 0.0)}, p99 {duration(p99 or 0.0)}"
        )
        said += f", p99.9 {duration(p999)}" if p999 else ""
        yield LoopRow(key, name, asked, way, p50 or 0.0, p99 or 0.0, said)


def loops(study: Study, scenario: Conditions) -> str:
    """Return the title of the chart of the loops; empty if it has no rows."""
    rows = [row for row in loop_rows(study) if row.s == study.keys[scenario]]
    return between_loops(rows) if rows else ""


def between_loops(rows: Sequence[LoopRow]) -> str:
    """Return the largest ratio of the open loop's p99 to the closed loop's."""
    ways: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        ways.setdefault((row.subject, row.asked), {})[row.way] = row.p99
    closed_loop, _, from_due = WAYS
    found = [
        (by[from_due] / by[closed_loop], key, by)
        for key, by in ways.items()
        if by.get(closed_loop) and from_due in by
    ]
    if not found:
        return "Latency at a constant rate, independent of the server"
    ratio, (who, rate), by = max(found, key=lambda f: f[0])
    closed, due = duration(by[closed_loop]), duration(by[from_due])
    if ratio < NEAR:
        return (
            f"At {rate} 99 % of {who}'s responses came within {due} of their due time; "
            f"in the closed loop, at full load, within {closed}"
        )
    return (
        f"The closed loop says {closed} for {who} (p99), the open loop at {rate} "
        f"{due}: {times(ratio)} as long"
    )


# ---- The cost of each server relative to its baseline, by workload ----


def over_baselines(study: Study) -> list[tuple[Conditions, list[tuple[float, Point]]]]:
    """Return the workloads with baselines (least waiting first) and the ratio of each server, at
    the level with the most ratios (the highest such level)."""
    found = []
    for scenario in study.scenarios:
        if scenario._replace(workload="", keep_alive=False) != study.usual:
            continue
        by_level = [
            [(r, p) for p in study.contenders(scenario, level) if (r := study.baseline_ratio(p))]
            for level in study.levels(scenario)
        ]
        if most := max(reversed(by_level), key=len, default=[]):
            found.append((scenario, most))
    return sorted(found, key=lambda f: (WAITS.get(f[0].workload, 0), f[0].keep_alive))


def column(scenario: Conditions) -> str:
    """Return the column heading of a workload."""
    return workload_name(scenario.workload) + (", kept" if scenario.keep_alive else "")


def baseline_rows(study: Study) -> list[Row]:
    """Return a row for each server in each workload."""
    return [
        {
            "subject": point.subject,
            "workload": column(scenario),
            "ratio": round(ratio, 3),
            "ratio_said": f"{ratio:.1f}\N{MULTIPLICATION SIGN}",
            "said": f"{point.subject}, {column(scenario)}: {figure(point['cpu'], 'µs')} of CPU per "
            f"request, its baseline {figure(point['cpu'] / ratio, 'µs')}, at "
            f"{connections(point.level)}",
        }
        for scenario, ratios in over_baselines(study)
        for ratio, point in ratios
    ]


def baselines_title(study: Study) -> str:
    """Return the lowest and the highest ratio to the baseline, with their workloads."""
    every = [(ratio, p, s) for s, ratios in over_baselines(study) for ratio, p in ratios]
    if not every:
        return ""
    near, far = min(every, key=lambda e: e[0]), max(every, key=lambda e: e[0])
    words = f"In CPU per request {_placed(near)}"
    return words + (f", {_placed(far)}" if far[0] >= NEAR * near[0] else "")


def _placed(found: tuple[float, Point, Conditions]) -> str:
    ratio, point, scenario = found
    where = f"{column(scenario)}, {connections(point.level)}"
    return f"{point.subject} is {above_baseline(ratio)} ({where})"


# ---- Several instances behind nginx ----


def family_of(scenario: Conditions) -> Conditions:
    """Return the conditions with one instance and without a balancer."""
    return scenario._replace(instances=1, balancer="none")


def families(study: Study) -> dict[Conditions, list[Conditions]]:
    """Return the families with a measurement through nginx."""
    found: dict[Conditions, list[Conditions]] = {}
    for scenario in study.scenarios:
        found.setdefault(family_of(scenario), []).append(scenario)
    return {k: v for k, v in found.items() if any(s.balancer != "none" for s in v)}


def instance_rows(study: Study) -> list[Row]:
    """Return a row for each valid data point of a family. It has the keys of all scenarios of the
    family, because the page shows the whole family for each of them."""
    number = {id(point): index for index, point in enumerate(study.points)}
    return [
        _row(study, point, number[id(point)], [study.keys[s] for s in family])
        for family in families(study).values()
        for scenario in family
        for point in study.of(scenario)
        if point.held
    ]


def _row(study: Study, point: Point, number: int, keys: list[str]) -> Row:
    one, spread, way = one_instance(study, point), point.spread("rate"), point.conditions.balancer
    assert spread
    count, wide = point.conditions.instances, spread.low < spread.high
    return {
        "id": number,
        "s": keys,
        "subject": point.subject,
        "level": point.level,
        "way": way,
        "way_said": way_in_words(way),
        "n": count,
        "rate": round(spread.median, 1),
        "bound": point.lower_bound,
        "low": round(spread.low, 1) if wide else None,
        "high": round(spread.high, 1) if wide else None,
        "ideal": round(count * one["rate"], 1) if one and not one.lower_bound else None,
    }


def one_instance(study: Study, point: Point) -> Point | None:
    """Return the point of one instance with the same balancer and level; None if it is invalid."""
    alone = point.conditions._replace(instances=1)
    found = study.find(point.subject, alone, point.level)
    return found if found and found.held else None


def scaling_finding(study: Study, scenario: Conditions, level: int, way: Balancer) -> str:
    """Return the rate of the most instances relative to one and to the ideal, and the
    bottleneck there."""
    found = list(_compared_with_one(study, scenario, level, way))
    known = [(one, p) for one, p in found if not one.lower_bound]
    if not known:
        words = f"{WITH[way]} {AT_LIMIT} with one instance already: the scaling is unknown"
        return words if found else ""
    most = max(p.conditions.instances for _, p in known)
    ratios = [(p["rate"] / one["rate"], p) for one, p in known if p.conditions.instances == most]
    grown = sorted(ratios, key=lambda g: -g[0])
    best, first = grown[0]
    least, last = next((g for g in reversed(grown) if not g[1].lower_bound), grown[-1])
    more = best >= NEAR or first.lower_bound
    words = f"{WITH[way]} {number_word(most)} instances of {first.subject} carried "
    words += f"{_times(first, best)} as much as one" if more else "no more than one"
    if last is not first and more:
        words += f", of {last.subject} {_times(last, least)}"
    return f"{words}; ideal is {most} times{_limits([p for _, p in grown])}"


def _times(point: Point, ratio: float) -> str:
    if point.lower_bound:
        return f"at least {times(ratio)}"
    return times(ratio) if ratio >= NEAR else "no more"


def _compared_with_one(
    study: Study, scenario: Conditions, level: int, way: Balancer
) -> Iterator[tuple[Point, Point]]:
    """Yield pairs of points: one instance, several instances of the same server."""
    for other in families(study).get(family_of(scenario), ()):
        if other.balancer == way and other.instances > 1:
            for point in study.contenders(other, level):
                one = one_instance(study, point)
                if one:
                    yield one, point


def _limits(points: Sequence[Point]) -> str:
    """Return the most frequent bottleneck of these points."""
    name, its = next(iter(limits_of(points).items()), ("", []))
    many = f" for {len(its)} of {len(points)}" if len(points) > 1 else ""
    return f". There {name} was the limit{many}" if name else ""


def through_finding(study: Study, scenario: Conditions, level: int) -> str:
    """Return the share of one instance's rate that remains behind nginx."""
    family = family_of(scenario)
    kept: dict[str, dict[str, tuple[float, bool]]] = {}
    unknown: dict[str, None] = {}
    for way in WITH:
        for point in study.contenders(family._replace(balancer=way), level):
            straight = study.find(point.subject, family, level)
            if straight and straight.lower_bound:
                unknown[point.subject] = None
            elif straight and straight.held:
                share = (point["rate"] / straight["rate"], point.lower_bound)
                kept.setdefault(point.subject, {})[way] = share
    without = f"without nginx {AT_LIMIT}"
    if not kept:
        return f"The cost of nginx is unknown: {without}" if unknown else ""
    most = max(kept, key=lambda n: max(kept[n].values()))
    least = min(kept, key=lambda n: min(kept[n].values()))
    first = [f"{share_left(*share)} of its rate {AFTER[way]}" for way, share in kept[most].items()]
    words = f"Behind nginx one instance of {most} kept {listed(first)}"
    if least != most:
        words += f"; one of {least} {listed([share_left(*s) for s in kept[least].values()])}"
    return words + (f"; unknown for {listed([*unknown])}: {without}" if unknown else "")


WITH: dict[Balancer, str] = {
    "keep": "With connections to the servers kept,",
    "close": "With a new connection for each request,",
}
AFTER = {"keep": "if nginx keeps its connections", "close": "if it closes them"}
