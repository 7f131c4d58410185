# SPDX-License-Identifier: MIT
"""The section "Which one should I choose?": rules that read the figures of this result.

Each question ranks the servers of a scenario by one criterion. Servers whose difference is within
the noise of the runs are equal. A server that one silent client stops is never the answer, even
with good figures; the answer names it with the reason. The last answer is `recommendation`'s.
"""

from collections.abc import Sequence

from bench.records.conditions import Conditions
from bench.records.metrics import BY_KEY
from bench.records.points import NOISE_OF_ONE, Point
from bench.records.words import connections, figure, listed, times, upper_first
from bench.report.findings.findings import (
    EACH_AT_LIMIT,
    FASTEST_UNKNOWN,
    MOST_NAMED,
    above_floor,
    names_of,
    told_apart,
    too_close,
    undecided,
)
from bench.report.findings.recommendation import Advice, but_stalled, named, recommended, stalled
from bench.report.study.across import delays, idles
from bench.report.study.holding import Holding, holdings
from bench.report.study.study import Study

LEAST_EACH = 0.1
"""Smaller growth of memory per connection, in kilobytes, is not mentioned."""


def answers(study: Study, scenario: Conditions) -> list[Advice]:
    """Return the answers that these results allow."""
    level = study.reference(scenario)
    points = study.contenders(scenario, level)
    if len(points) < 2:
        return []
    found = [
        _ranked(study, points, "cpu", "The least CPU for each request?", "cpu"),
        _reach(study, scenario),
        _memory(study, scenario, points),
        _ranked(study, points, "p99", "Short waits under load?", "latency"),
        _ranked(study, points, "rate", "The most requests per second?", "rates"),
        _waiting(study),
        _idle(study),
        recommended(study, scenario, level),
    ]
    return [answer for answer in found if answer]


def _ranked(
    study: Study, points: Sequence[Point], key: str, question: str, anchor: str
) -> Advice | None:
    known = [p for p in points if p.get(key)]
    if len(known) < 2:
        return None
    bounds = [p for p in known if key == "rate" and p.lower_bound]
    if len(bounds) == len(known):
        words = f"{upper_first(EACH_AT_LIMIT)}: {FASTEST_UNKNOWN}."
        return Advice(question, "Unknown", words, anchor)
    order = sorted(known, key=lambda p: p[key], reverse=BY_KEY[key].more_is_better)
    able, passed = _without_stalled(study, order)
    best, (equal, rest) = able[0], told_apart(able, key)
    say, value = BY_KEY[key].words, best[key]
    least = "99 % within " if key == "p99" else "at least " if best in bounds else ""
    whose = f" with {best.subject}" if equal else ""
    words = f"{least}{say(value)}{whose} at {connections(best.level)}"
    words += undecided(best, [p for p in equal if p not in bounds])
    bounded = names_of([p for p in equal if p in bounds])
    words += f"; only a lower bound is known of {listed(bounded)}" if bounded else ""
    if rest:
        words += f". Next: {rest[0].subject}, {say(rest[0][key])}"
    if len(rest) > 1:
        words += f"; last: {rest[-1].subject}, {say(rest[-1][key])}"
    if key == "cpu" and (ratio := study.floor_ratio(best)):
        words += f". {best.subject} is {above_floor(ratio)}"
    words += but_stalled(names_of(passed))
    who = named(names_of([best, *equal]), len(order))
    return Advice(question, who, f"{upper_first(words)}.", anchor)


def _without_stalled(
    study: Study, order: Sequence[Point]
) -> tuple[Sequence[Point], Sequence[Point]]:
    """Return the possible answers, the best first, and the excluded servers ranked before them.
    If a silent client stops all servers, none is excluded."""
    bad = stalled(study)
    able = [p for p in order if p.subject not in bad]
    return (able, order[: order.index(able[0])]) if able else (order, [])


def _reach(study: Study, scenario: Conditions) -> Advice | None:
    found = [h for h in holdings(study, scenario) if h.kind != "floor"]
    top = max(h.highest or 0 for h in found)
    if top == 0:
        return None
    names = [h.subject for h in found if (h.highest or 0) == top]
    lost = [h for h in found if h.subject not in names]
    able = [name for name in names if name not in stalled(study)] or names
    passed = [name for name in names if name not in able]
    many = len(able) > MOST_NAMED and (lost or passed)
    words = f"Valid at every level up to {connections(top)}" + (f": {listed(able)}" if many else "")
    if lost:
        lowest = min(study.levels(scenario))
        words += f"; the others: {listed([_how_far(h, lowest) for h in lost])}"
    elif top == max(study.levels(scenario)) and study.results.state == "complete":
        words += ", the highest level requested: higher levels could show a difference"
    words += but_stalled(passed)
    return Advice("Many connections at once?", named(able, len(found)), f"{words}.", "holding")


def _how_far(found: Holding, lowest: int) -> str:
    if found.highest:
        untried = " (not tried beyond)" if found.broken_at is None else ""
        return f"{found.subject} to {found.highest:,}{untried}"
    where = "not even" if found.broken_at == lowest else "not tried at"
    return f"{found.subject} {where} {lowest:,}"


def _memory(study: Study, scenario: Conditions, points: Sequence[Point]) -> Advice | None:
    """Compare the memory of all processes at one level, and the growth per connection."""
    order = sorted((p for p in points if p.get("memory")), key=lambda p: p["memory"])
    if not study.whole_memory() or len(order) < 2:
        return None

    def each(point: Point) -> float:
        """Return the kilobytes that a connection adds; 0 if the growth is not significant."""
        first = next(p for p in study.series(point.subject, scenario) if p.get("memory"))
        if point.level == first.level or too_close(first, point, "memory"):
            return 0.0
        grown = (point["memory"] - first["memory"]) * 1000 / (point.level - first.level)
        return grown if grown >= LEAST_EACH else 0.0

    def said(point: Point) -> str:
        grown = each(point)
        return figure(point["memory"], "MB") + (f", {figure(grown, 'kB')} each" if grown else "")

    able, passed = _without_stalled(study, order)
    best, most = able[0], order[-1]
    equal, _ = told_apart(able, "memory")
    told = [best] if most in (best, *equal) else [best, most]
    whose = f" with {best.subject}" if equal else ""
    words = f"{said(best)}{whose} at {connections(best.level)}{undecided(best, equal)}"
    words += f"; most: {most.subject}, {said(most)}" if len(told) > 1 else ""
    words += f"{but_stalled(names_of(passed))}."
    words += " “Each” is what a connection adds." if any(map(each, told)) else ""
    who = named(names_of([best, *equal]), len(order))
    return Advice("Little memory?", who, words, "memory")


def _waiting(study: Study) -> Advice | None:
    """Compare the rates with the longest delay of Redis. Pages with and without Redis are not
    compared: with a fast Redis their difference is work, not waiting."""
    found = delays(study)
    if found is None:
        return None
    points = study.contenders(found.last, found.level)
    said = _ranked(study, points, "rate", "A slow database behind it?", "figure-delays")
    if said:
        said.because += f" Each reply was delayed by {found.order[-1]} ms{found.instead}."
    return said


def _servers(study: Study) -> set[str]:
    """Return the names of all servers except the baselines."""
    return {s.name for s in study.subjects if s.kind != "floor"}


def _idle(study: Study) -> Advice | None:
    found = idles(study)
    if found is None or found.metric != "cpu":
        return None
    last = found.order[-1]
    grown = {name: change.ratio for name, change in found.changes(_servers(study)).items()}
    if len(grown) < 2:
        return None
    best, *others = sorted(grown, key=lambda n: grown[n])
    equal = [name for name in others if grown[name] < grown[best] * (1 + NOISE_OF_ONE)]
    shown = [*equal, *(name for name in others[-1:] if name not in equal)]
    words = (
        f"With {int(last):,} of them{found.instead} a request costs {times(grown[best])} as much "
        f"CPU with {best}{''.join(f', {times(grown[name])} with {name}' for name in shown)}."
    )
    who = named([best, *equal], len(grown))
    return Advice("Many silent clients?", who, words, "figure-idles")
