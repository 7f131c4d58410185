"""The titles of the charts: each states what its chart shows, with the figure. Pure functions.

Every function answers with a sentence, or with an empty text where there is nothing to say.
"""

from collections.abc import Sequence

from bench.report.holding import holdings
from bench.report.scaling import scalings
from bench.report.study import Point, Study
from bench.report.words import duration, figure, listed, number_word, percent, times, upper_first
from bench.results import Conditions

NEAR = 1.05
"""Figures whose ratio is below this are called equal."""


def best_of_each(points: Sequence[Point], key: str) -> list[Point]:
    """Of each subject the point at which that figure is highest; the highest first."""
    best: dict[str, Point] = {}
    for point in points:
        value, name = point.get(key), point.subject.name
        if value is not None and (name not in best or value > (best[name].get(key) or 0)):
            best[name] = point
    return sorted(best.values(), key=lambda p: -(p.get(key) or 0))


def ranked(points: Sequence[Point], key: str) -> list[Point]:
    """Points that have that figure, the lowest first."""
    return sorted((p for p in points if p.get(key) is not None), key=lambda p: p.get(key) or 0)


def rates(study: Study, scenario: Conditions) -> str:
    """Who served most, and how much more than the slowest."""
    best = best_of_each(study.contenders(scenario), "rate")
    if not best:
        return "No cell of this workload has a figure"
    first, last = best[0], best[-1]
    rate, low = first.get("rate") or 0, last.get("rate") or 0
    least = "at least " if first.lower_bound else ""
    words = f"{least}{figure(rate)} requests per second at {first.level:,} connections"
    if len(best) == 1:
        return f"{first.subject.name} served {words}"
    if rate < NEAR * low:
        return f"All are equally fast: {words}, within {percent(rate / low - 1)} of each other"
    return (
        f"{first.subject.name} served most, {words}: "
        f"{times(rate / low)} as many as {last.subject.name} at its best"
    )


def headline(study: Study, scenario: Conditions) -> str:
    """The page's heading: who was first in what."""
    points = study.contenders(scenario, study.reference(scenario))
    if len(points) < 2:
        return rates(study, scenario)
    asked = (("rate", "served most"), ("cpu", "cost least CPU"), ("p99", "answered soonest"))
    first: dict[str, list[str]] = {}
    for key, words in asked:
        order = ranked(points, key)
        if len(order) > 1:
            best = order[-1] if key == "rate" else order[0]
            first.setdefault(best.subject.name, []).append(words)
    told = [f"{name} {listed(words)}" for name, words in first.items()]
    return f"At {points[0].level:,} connections {', '.join(told)}"


def holding(study: Study, scenario: Conditions) -> str:
    """Who held how far."""
    found = [h for h in holdings(study, scenario) if h.kind != "floor"]
    tried = [p.level for p in study.of(scenario) if p.state != "skipped"]
    if not tried:
        return "This machine allowed none of the levels"
    top, broken = max(tried), [h for h in found if h.broken_at is not None]
    if not broken:
        who = found[0].subject if len(found) == 1 else f"All {number_word(len(found))}"
        return f"{who} held every level up to {top:,} connections"
    where = [f"{h.subject} at {h.broken_at:,}" for h in broken]
    if len(broken) == len(found):
        return upper_first(f"{'it' if len(found) == 1 else 'all'} stopped holding: {listed(where)}")
    held = f"{len(found) - len(broken)} of {len(found)} held every level up to {top:,}"
    return f"{held}; broken: {listed(where)}"


def latency(study: Study, scenario: Conditions, level: int) -> str:
    """The shortest and the longest p99."""
    order = ranked(study.contenders(scenario, level), "p99")
    if not order:
        return ""
    low, high = order[0], order[-1]
    words = (
        f"At {level:,} connections 99 % of {low.subject.name}'s answers came within "
        f"{duration(low.get('p99') or 0)}"
    )
    if len(order) == 1:
        return words
    ratio = (high.get("p99") or 0) / max(low.get("p99") or 0, 1e-9)
    return f"{words}, of {high.subject.name}'s within {duration(high.get('p99') or 0)}" + (
        f": {times(ratio)} as long" if ratio >= NEAR else ""
    )


def latency_growth(study: Study, scenario: Conditions) -> str:
    """By how much the slow requests got slower from the lowest level to the highest."""
    growth = []
    for subject in {p.subject.name for p in study.contenders(scenario)}:
        points = [p for p in study.series(subject, scenario) if p.held and p.get("p99")]
        if len(points) > 1:
            growth.append((points[-1].get("p99") or 0, points[0], points[-1]))
    if not growth:
        return ""
    _, low, high = max(growth, key=lambda g: (g[2].level, -g[0]))
    return (
        f"More connections wait longer: {low.subject.name}'s p99 went from "
        f"{duration(low.get('p99') or 0)} at {low.level:,} to {duration(high.get('p99') or 0)} "
        f"at {high.level:,}"
    )


def cpu(study: Study, scenario: Conditions, level: int) -> str:
    """Who needs least CPU, and how far the cheapest is from its floor."""
    order = ranked(study.contenders(scenario, level), "cpu")
    if not order:
        return ""
    low, high = order[0], order[-1]
    words = f"A request costs {low.subject.name} {figure(low.get('cpu'), 'µs')} of CPU"
    if len(order) > 1:
        ratio = (high.get("cpu") or 0) / max(low.get("cpu") or 0, 1e-9)
        words += f", {high.subject.name} {figure(high.get('cpu'), 'µs')}"
        words += f", {times(ratio)} as much" if ratio >= NEAR else ""
    near = study.floor_ratio(low)
    if near:
        words += f"; {low.subject.name} is {above_floor(near)}"
    return words


def above_floor(ratio: float) -> str:
    """How far a server is from its floor. Below it nothing can be: then it is noise."""
    if ratio < NEAR:
        return "at its floor, as far as these runs can tell"
    return f"at {times(ratio)} its floor"


def cpu_growth(study: Study, scenario: Conditions) -> str:
    """Whose cost per request grew most with the number of connections."""
    growth = []
    for subject in dict.fromkeys(p.subject.name for p in study.contenders(scenario)):
        points = [p for p in study.series(subject, scenario) if p.held and p.get("cpu")]
        if len(points) > 1:
            ratio = (points[-1].get("cpu") or 0) / (points[0].get("cpu") or 1)
            growth.append((ratio, points[0], points[-1]))
    if not growth:
        return ""
    ratio, low, high = max(growth, key=lambda g: g[0])
    if ratio < 1.1:
        return f"No server's cost per request grew by a tenth from {low.level:,} to {high.level:,}"
    return (
        f"{low.subject.name}'s cost per request grew most: {figure(low.get('cpu'), 'µs')} at "
        f"{low.level:,} connections, {figure(high.get('cpu'), 'µs')} at {high.level:,}"
    )


def switches(study: Study, scenario: Conditions, level: int) -> str:
    """Who waits most often."""
    points = study.contenders(scenario, level)
    order = ranked(points, "switches_voluntary")
    if not order:
        return ""
    low, high = order[0], order[-1]
    words = f"Per request {high.subject.name} went to sleep "
    words += f"{figure(high.get('switches_voluntary'))} times"
    if len(order) == 1:
        return words
    return f"{words}, {low.subject.name} {figure(low.get('switches_voluntary'))} times"


def memory(study: Study, scenario: Conditions) -> str:
    """Least and most memory at the reference level."""
    level = study.reference(scenario)
    order = ranked(study.contenders(scenario, level), "memory")
    if not order:
        return ""
    low, high = order[0], order[-1]
    if not study.whole_memory():
        most = f"{high.subject.name}, with {figure(high.get('memory'), 'MB')}"
        return f"The largest single process at {level:,} connections was that of {most}"
    words = f"At {level:,} connections {low.subject.name} needed {figure(low.get('memory'), 'MB')}"
    if len(order) > 1 and (high.get("memory") or 0) > NEAR * (low.get("memory") or 0):
        words += f", {high.subject.name} {figure(high.get('memory'), 'MB')}"
    return words


def law(study: Study, scenario: Conditions) -> str:
    """How many servers follow the law."""
    found = scalings(study, scenario)
    fitted = [s for s in found if s.fit]
    if not fitted:
        return ""
    best = max(fitted, key=lambda s: s.fit.ceiling or 0 if s.fit else 0)
    ceiling = best.fit.ceiling if best.fit else None
    words = f"The scalability law fits {len(fitted)} of {len(found)}"
    return words + (
        f"; it sees the highest cap for {best.subject}, {figure(ceiling)} requests/s"
        if ceiling
        else ""
    )
