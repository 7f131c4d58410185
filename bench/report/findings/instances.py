# SPDX-License-Identifier: MIT
"""Several instances behind nginx: rates over their number, and what nginx itself costs.

A family is what scenarios have in common that differ in instances and balancer only.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.records.conditions import THROUGH, Conditions
from bench.records.figures import Balancer
from bench.records.points import Point
from bench.records.words import listed, number_word, times
from bench.report.findings.findings import AT_LIMIT, NEAR, share_left
from bench.report.study.hosts import WHO, label, limit_of
from bench.report.study.study import Study


class InstanceRow(NamedTuple):
    """One or several instances of a server at one level."""

    id: int
    """The data point's number."""
    s: list[str]
    """The keys of all scenarios of the family. The page shows the whole family for each of them."""
    subject: str
    level: int
    way: Balancer
    way_said: str
    n: int
    rate: float
    bound: bool
    low: float | None
    high: float | None
    """The highest run; None if all runs are equal."""
    ideal: float | None
    """`n` times the rate of one instance; None if that rate is unknown."""


def family_of(scenario: Conditions) -> Conditions:
    """Return the conditions with one instance and without a balancer."""
    return scenario._replace(instances=1, balancer="none")


def families(study: Study) -> dict[Conditions, list[Conditions]]:
    """Return the families with a measurement through nginx."""
    found: dict[Conditions, list[Conditions]] = {}
    for scenario in study.scenarios:
        found.setdefault(family_of(scenario), []).append(scenario)
    return {k: v for k, v in found.items() if any(s.balancer != "none" for s in v)}


def instance_rows(study: Study) -> list[InstanceRow]:
    """Return a row for each valid data point of a family."""
    number = {id(point): index for index, point in enumerate(study.points)}
    return [
        _row(study, point, number[id(point)], [study.keys[s] for s in family])
        for family in families(study).values()
        for scenario in family
        for point in study.of(scenario)
        if point.held
    ]


def _row(study: Study, point: Point, number: int, keys: list[str]) -> InstanceRow:
    one, spread, way = one_instance(study, point), point.spread("rate"), point.conditions.balancer
    assert spread
    count, wide = point.conditions.instances, spread.low < spread.high
    return InstanceRow(
        id=number,
        s=keys,
        subject=point.subject,
        level=point.level,
        way=way,
        way_said=THROUGH[way],
        n=count,
        rate=round(spread.median, 1),
        bound=point.lower_bound,
        low=round(spread.low, 1) if wide else None,
        high=round(spread.high, 1) if wide else None,
        ideal=round(count * one["rate"], 1) if one and not one.lower_bound else None,
    )


def one_instance(study: Study, point: Point) -> Point | None:
    """Return the point of one instance with the same balancer and level; None if it is invalid."""
    alone = point.conditions._replace(instances=1)
    found = study.find(point.subject, alone, point.level)
    return found if found and found.held else None


def scaling_finding(study: Study, scenario: Conditions, level: int, way: Balancer) -> str:
    """Return the rate of the most instances relative to one and to the ideal, and the
    bottleneck there."""
    found = list(_beside_one(study, scenario, level, way))
    known = [(one, p) for one, p in found if not one.lower_bound]
    if not known:
        words = f"{WITH[way]} {AT_LIMIT} with one instance already: the scaling is unknown"
        return words if found else ""
    most = max(p.conditions.instances for _, p in known)
    ratios = [(_ratio(p, one), p) for one, p in known if p.conditions.instances == most]
    grown = sorted(ratios, key=lambda g: -g[0])
    best, first = grown[0]
    least, last = next((g for g in reversed(grown) if not g[1].lower_bound), grown[-1])
    more = best >= NEAR or first.lower_bound
    words = f"{WITH[way]} {number_word(most)} instances of {first.subject} carried "
    words += f"{_times(first, best)} as much as one" if more else "no more than one"
    if last is not first and more:
        words += f", of {last.subject} {_times(last, least)}"
    return f"{words}; ideal is {most} times{_limits([p for _, p in grown])}"


def _ratio(point: Point, other: Point) -> float:
    return (point.get("rate") or 0) / (other.get("rate") or 1e-9)


def _times(point: Point, ratio: float) -> str:
    if point.lower_bound:
        return f"at least {times(ratio)}"
    return times(ratio) if ratio >= NEAR else "no more"


def _beside_one(
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
    by: dict[str, int] = {}
    for point in points:
        host = limit_of(point)
        name = label(host.role, host.name) if host else WHO.get(point.bottleneck or "", "")
        by[name] = by.get(name, 0) + 1
    by.pop("", None)
    if not by:
        return ""
    name, count = max(by.items(), key=lambda pair: pair[1])
    many = f" for {count} of {len(points)}" if len(points) > 1 else ""
    return f". There {name} was the limit{many}"


def through_finding(study: Study, scenario: Conditions, level: int) -> str:
    """Return the share of one instance's rate that remains behind nginx."""
    family = family_of(scenario)
    kept: dict[str, dict[str, tuple[float, bool]]] = {}
    unknown: dict[str, None] = {}
    for way in WITH:
        for point in study.contenders(family._replace(balancer=way), level):
            name = point.subject
            straight = study.find(name, family, level)
            if straight and straight.lower_bound:
                unknown[name] = None
            elif straight and straight.held:
                kept.setdefault(name, {})[way] = (_ratio(point, straight), point.lower_bound)
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
