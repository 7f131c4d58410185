# SPDX-License-Identifier: MIT
"""Comparisons of scenarios, and the titles of their charts. All functions are pure.

In a contrast only one condition changes: the workload, the delay of Redis' replies, or the number
of idle connections during the load. Other functions compare the two loops, several instances with
one, and rates with and without nginx. Scenarios that differ only in instances and balancer form a
family.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from bench.records.conditions import Balancer, Conditions, as_typed, way_in_words
from bench.records.figures import grouped
from bench.records.points import BY_KEY, Point
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
from bench.report.findings import AT_LIMIT, EACH_AT_LIMIT, NEAR
from bench.report.limits import limits_of
from bench.report.study import WAITS, WAYS, Row, Study, workload_name

BASES = ("redirect", "link")
"""The first of these workloads that was measured is compared with the workload that waits most
often for Redis. A file or a sorted page would add other costs."""


class ContrastKind(NamedTuple):
    """A condition that changes in a contrast, and its texts."""

    key: str
    field: str  # The name of the condition.
    axis: str
    metrics: Sequence[str]
    """Keys of figures. The first key whose figure all scenarios have is used; if there is none,
    the last key."""
    words: str
    """A format of two texts: the last label; " in place of " and the first label, or empty."""

    def value(self, scenario: Conditions) -> str:
        """Return the scenario's name in the chart: the value of the condition."""
        return as_typed(getattr(scenario, self.field))

    def label(self, scenario: Conditions) -> str:
        """Return the label of a scenario; | separates its lines."""
        if self.key == "delays":
            return f"{scenario.redis_delay_ms:g} ms" if scenario.redis_delay_ms else "none"
        if self.key == "idles":
            return f"{scenario.idle:,}"
        count = WAITS.get(scenario.workload)
        waits = "" if count is None else plural(count, "wait") if count else "no wait"
        waits = "pure CPU" if scenario.workload == "sorted" else waits
        return f"{workload_name(scenario.workload)}|{waits}"


DELAY, IDLE = "delay of each reply of Redis", "idle connections during the load"
KINDS = (
    ContrastKind("workloads", "workload", "workload", ("rate",), "{}{}"),
    ContrastKind(
        "delays", "redis_delay_ms", DELAY, ("rate",), "{}{} of delay in each reply of Redis"
    ),
    ContrastKind("idles", "idle", IDLE, ("cpu", "rate"), "{} idle connections{}"),
)


class Contrast(NamedTuple):
    """One figure of all servers in several scenarios, at one level."""

    kind: ContrastKind
    scenarios: Sequence[Conditions]  # The scenarios in the order of the chart.
    level: int
    metric: str
    points: Sequence[Point]  # The data points that have the figure.

    @property
    def labels(self) -> dict[str, str]:
        """Return the label of each scenario by its name in the chart."""
        return {self.kind.value(s): self.kind.label(s) for s in self.scenarios}

    @property
    def rows(self) -> list[Row]:
        """Return the figures as rows for the chart."""
        return [self._row(point) for point in self.points]

    def _row(self, point: Point) -> Row:
        value, bound = point[self.metric], self.metric == "rate" and point.lower_bound
        words = f"{'≥ ' if bound else ''}{figure(value)} {BY_KEY[self.metric].label}"
        label = self.kind.label(point.conditions).replace("|", ", ")
        return {
            "subject": point.subject,
            "condition": self.kind.value(point.conditions),
            "value": value,
            "said": f"{point.subject}, {label}: {words} at {connections(self.level)}",
            "bound": bound,
        }

    @property
    def ends(self) -> tuple[Conditions, Conditions] | None:
        """Return the two scenarios whose figures are compared; None if there are none."""
        if self.kind.field != "workload":
            return self.scenarios[0], self.scenarios[-1]
        by_name = {s.workload: s for s in self.scenarios}
        base = next((by_name[name] for name in BASES if name in by_name), None)
        most = max(self.scenarios, key=lambda s: WAITS.get(s.workload, 0))
        return (base, most) if base and WAITS[base.workload] < WAITS.get(most.workload, 0) else None


def contrasts(study: Study) -> Iterator[Contrast]:
    """Yield the contrasts of a study. Workloads are sorted by their number of waits for Redis (the
    sorted page is last), and compared without a CPU quota or with the lowest quota. For idle
    connections the figure is CPU per request, or the rate if CPU was not measured."""
    usual = Conditions("", quota=min((s.quota for s in study.scenarios), default=0.0))
    plain = [s for s in study.scenarios if s._replace(workload="") == usual]
    plain.sort(key=lambda s: (s.workload == "sorted", WAITS.get(s.workload, 0), s.workload))
    for kind in KINDS:
        scenarios = plain
        if kind.field != "workload":
            largest = max([[], *_alike(study, kind.field).values()], key=len)
            scenarios = sorted(largest, key=attrgetter(kind.field))
        if found := _compare(kind, study, scenarios):
            yield found


def _alike(study: Study, *names: str) -> dict[Conditions, list[Conditions]]:
    """Group the scenarios that differ only in these conditions. In a group's key these conditions
    have their defaults."""
    usual = {name: Conditions._field_defaults[name] for name in names}
    return grouped((scenario._replace(**usual), scenario) for scenario in study.scenarios)


def _compare(kind: ContrastKind, study: Study, scenarios: Sequence[Conditions]) -> Contrast | None:
    """Return the contrast; None if no level has two scenarios to compare."""
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


def title(found: Contrast) -> str:
    """Return the title of a contrast: the effect of the change and the level. If the effect is
    unknown, the title names the changed condition."""
    label = BY_KEY[found.metric].label
    title = comparison(found) or upper_first(f"{label} by {found.kind.axis}")
    about = f"{workload_name(found.scenarios[0].workload)}, "
    return f"{title} ({'' if found.kind.field == 'workload' else about}{connections(found.level)})"


def comparison(found: Contrast) -> str:
    """Return in words the largest and the smallest ratio of the last scenario's figure to the
    first's, with their servers. If the first rate is only a lower bound, the ratio is unknown."""
    key, ends = found.metric, found.ends
    if ends is None:
        return ""
    known = [p for p in found.points if p.kind != "baseline" and p[key]]
    at_first, at_last = ({p.subject: p for p in known if p.conditions == end} for end in ends)
    pairs = {name: (at_first[name], at_last[name]) for name in at_first if name in at_last}
    if not pairs:
        return ""
    before, after = (found.kind.label(end).partition("|")[0] for end in ends)
    instead = f" in place of {before}" if getattr(ends[0], found.kind.field) else ""
    what, rated = found.kind.words.format(after, instead), key == "rate"
    unknown = [name for name, (first, _) in pairs.items() if rated and first.lower_bound]
    ratios = sorted(
        (last[key] / first[key], name, rated and last.lower_bound)
        for name, (first, last) in pairs.items()
        if name not in unknown
    )
    if not ratios:
        words = f"{upper_first(what)}: the share of the rate that is kept is unknown"
        return f"{words}; without this change {EACH_AT_LIMIT}"
    before, after, end = f"With {what}, a request costs", "", "as much CPU"
    if rated:
        before, after, end = f"With {what},", " kept", "of its rate"
    exact = [one for one in ratios if not one[2]]
    (less, low, _), (more, high, _) = least, most = (exact or ratios)[0], ratios[-1]
    if len(exact) == len(pairs) > 1 and more < NEAR * less:
        return f"{before} each server{after} {_effect(least, rated)} {end}"
    words = f"{before} {high}{after} {_effect(most, rated)} {end}"
    words += f", {low} {_effect(least, rated)}" if low != high else ""
    return words + (f"; unknown for {listed(unknown)}" if unknown else "")


def _effect(ratio: tuple[float, str, bool], rated: bool) -> str:
    value, _, bound = ratio
    return share_left(value, bound) if rated else times(value)


def share_left(ratio: float, at_least: bool = False) -> str:
    """Return the remaining share of a rate: "60 %", "at least 60 %", "all"."""
    return f"{'at least ' if at_least else ''}{percent(ratio)}" if ratio < 1 / NEAR else "all"


# ---- The closed and the open loop ----


def loop_rows(study: Study) -> list[Row]:
    """Return each server's latency percentiles (ms) in each open loop, and in the closed
    loop at the nearest level. The page shows a row for the scenario with the key `s`; `asked` is
    the requested rate of the open loop.

    If an open loop ran with several limits of connections, the highest limit is used, because it
    restricts the rate least.
    """
    highest: dict[tuple[str, Conditions], Point] = {}
    for point in sorted(study.points, key=lambda p: p.level):
        if point.conditions.mode == "open" and point.held and point.get("p99"):
            highest[point.subject, point.conditions] = point
    return [row for point in highest.values() for row in _loop_rows(study, point)]


def _loop_rows(study: Study, point: Point) -> Iterator[Row]:
    closed_loop = point.conditions._replace(mode="closed", rate=None)
    key = study.keys.get(closed_loop, study.keys[point.conditions])
    name, asked = point.subject, f"{figure(point.conditions.rate)}/s"
    parts = ("p50", "p99", "p999")
    times_of = {WAYS[2]: [point.get(part) for part in parts]}
    run = point.typical
    if run and run.open_loop and (sent := run.open_loop.uncorrected):
        times_of[WAYS[1]] = [getattr(sent, part) for part in parts]
    closed = [p for p in study.series(name, closed_loop) if p.held and p.get("p99")]
    if closed:
        nearest = min(closed, key=lambda p: abs(p.level - point.level))
        times_of[WAYS[0]] = [nearest.get(part) for part in parts]
    for way, found in times_of.items():
        p50, p99, p999 = (value or 0.0 for value in found)
        said = f"{name} at {asked}, {way}: median {duration(p50)}, p99 {duration(p99)}"
        said += f", p99.9 {duration(p999)}" if p999 else ""
        row: Row = {"s": key, "subject": name, "asked": asked, "way": way}
        yield row | {"p50": p50, "p99": p99, "said": said}


def loops(study: Study, scenario: Conditions) -> str:
    """Return the title of the chart of the loops; empty if it has no rows."""
    rows = [row for row in loop_rows(study) if row["s"] == study.keys[scenario]]
    return between_loops(rows) if rows else ""


def between_loops(rows: Sequence[Row]) -> str:
    """Return a title with the p99 of both loops, for the server where they differ most."""
    ways: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        ways.setdefault((row["subject"], row["asked"]), {})[row["way"]] = row["p99"]
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
            f"At {rate} 99 % of the responses of {who} came within {due} of their due time; "
            f"in the closed loop, at full load, within {closed}"
        )
    return (
        f"The p99 of {who} is {closed} in the closed loop, and {due} in the open loop at {rate}: "
        f"{times(ratio)} as long"
    )


# ---- nginx and several instances ----


def family_of(scenario: Conditions) -> Conditions:
    """Return the scenario with one instance and without a balancer, which identifies its family."""
    return scenario._replace(instances=1, balancer="none")


def families(study: Study) -> dict[Conditions, list[Conditions]]:
    """Return the families with a measurement through nginx."""
    found = _alike(study, "instances", "balancer")
    return {k: v for k, v in found.items() if any(s.balancer != "none" for s in v)}


def family_row(study: Study, point: Point) -> Row:
    """Return the columns that a data point of a family has in addition. The column `family` has all
    scenarios of the family, because the page shows the whole family for each scenario."""
    family = families(study).get(family_of(point.conditions))
    if family is None or not point.held:
        return {}
    one, way = one_instance(study, point), point.conditions.balancer
    count = point.conditions.instances
    return {
        "family": [study.keys[s] for s in family],
        "way": way,
        "way_said": way_in_words(way),
        "n": count,
        "ideal": round(count * one["rate"], 1) if one and not one.lower_bound else None,
    }


def one_instance(study: Study, point: Point) -> Point | None:
    """Return the valid point of one instance with the same balancer and level, or None."""
    alone = point.conditions._replace(instances=1)
    found = study.find(point.subject, alone, point.level)
    return found if found and found.held else None


def scaling_finding(study: Study, scenario: Conditions, level: int, way: Balancer) -> str:
    """Return the title: the rate of the most instances relative to one instance, the ideal ratio,
    and the bottleneck."""
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
    words = f"{WITH[way]} {number_word(most)} instances of {first.subject} served "
    words += f"{_times(first, best)} as much as one" if more else "no more than one"
    if last is not first and more:
        words += f", those of {last.subject} {_times(last, least)}"
    return f"{words}; {most} times is ideal{_limits([p for _, p in grown])}"


def _times(point: Point, ratio: float) -> str:
    if point.lower_bound:
        return f"at least {times(ratio)}"
    return times(ratio) if ratio >= NEAR else "no more"


def _compared_with_one(
    study: Study, scenario: Conditions, level: int, way: Balancer
) -> Iterator[tuple[Point, Point]]:
    """Yield pairs of points of the same server: with one instance, with several instances."""
    for other in families(study).get(family_of(scenario), ()):
        if other.balancer == way and other.instances > 1:
            for point in study.contenders(other, level):
                one = one_instance(study, point)
                if one:
                    yield one, point


def _limits(points: Sequence[Point]) -> str:
    """Return the most frequent bottleneck of these points in words."""
    name, its = next(iter(limits_of(points).items()), ("", []))
    many = f" of {len(its)} of {len(points)} servers" if len(points) > 1 else ""
    return f"; the limit{many} was {name}" if name else ""


def through_finding(study: Study, scenario: Conditions, level: int) -> str:
    """Return the title: the share of one instance's rate that remains with nginx."""
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
    "keep": "With persistent connections to the servers,",
    "close": "With a new connection for each request,",
}
AFTER = {"keep": "if nginx keeps its connections", "close": "if it closes them"}
