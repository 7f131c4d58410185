# SPDX-License-Identifier: MIT
"""Which one should I choose? Answered by rules that read the figures of this very result.

Each question ranks the servers of a scenario by one criterion; figures nearer to each other than
what the runs themselves differ by are called equal. The last answer weighs all of them: the
server that is, in the geometric mean of all questions, closest to the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean

from bench.records.conditions import Conditions
from bench.report.findings.findings import (
    AT_LIMIT,
    EACH_AT_LIMIT,
    FASTEST_UNKNOWN,
    MOST_NAMED,
    NOISE,
    above_floor,
    names_of,
    share_left,
    told_apart,
    too_close,
    undecided,
)
from bench.report.study.across import delays, idles, workloads
from bench.report.study.holding import Holding, holdings
from bench.report.study.study import Point, Study
from bench.report.study.words import duration, figure, listed, number_word, times, upper_first

TOGETHER = (
    "That is the geometric mean of the ratios between it and the best of each question (1.0: as "
    "good), so that all questions weigh the same, whatever their units."
)
LEAST_EACH = 0.1
"""Kilobytes by which a server must grow with each connection for that to be said."""


@dataclass
class Answer:
    """An answer to one question."""

    question: str
    answer: str
    """Who, in a word or two."""
    because: str
    anchor: str
    """Where on the page it can be seen."""
    regret: dict[str, float] = field(default_factory=dict)
    """The ratio between each server and the best, 1 or more. Empty: not weighed."""
    unknown: bool = False
    """Not weighed because it is not known of each: its load generator was at its limit, or it was
    not tried."""
    best_at_least: bool = False
    """The best is a lower bound: the others are worse by their regrets, or by more."""


def answers(study: Study, scenario: Conditions) -> list[Answer]:
    """All questions that these results can answer."""
    level = study.reference(scenario)
    points = study.contenders(scenario, level)
    if len(points) < 2:
        return []
    found = [
        _ranked(study, points, "cpu", "The least CPU for each request?", "cpu", "µs"),
        _reach(study, scenario),
        _memory(study, scenario, points),
        _ranked(study, points, "p99", "Short waits under load?", "latency", "ms"),
        _ranked(study, points, "rate", "The most requests per second?", "rates", "/s", high=True),
        _waiting(study),
        _idle(study),
    ]
    given = [answer for answer in found if answer]
    return [*given, *_altogether(given, level)]


def _ranked(  # noqa: PLR0913  one criterion
    study: Study,
    points: Sequence[Point],
    key: str,
    question: str,
    anchor: str,
    unit: str,
    *,
    high: bool = False,
) -> Answer | None:
    known = [p for p in points if p.get(key)]
    if len(known) < 2:
        return None
    bounds = [p for p in known if key == "rate" and p.lower_bound]
    if len(bounds) == len(known):
        words = f"{upper_first(EACH_AT_LIMIT)}: {FASTEST_UNKNOWN}."
        return Answer(question, "Not found out", words, anchor, unknown=True)
    order = sorted(known, key=lambda p: p.get(key) or 0, reverse=high)
    best, (equal, rest) = order[0], told_apart(order, key)
    say = duration if unit == "ms" else lambda v: figure(v, unit)
    value = best.get(key) or 0
    least = "99 % within " if key == "p99" else "at least " if best in bounds else ""
    whose = f" with {best.subject.name}" if equal else ""
    words = f"{least}{say(value)}{whose} at {best.level:,} connections"
    words += undecided(best, [p for p in equal if p not in bounds])
    bounded = names_of([p for p in equal if p in bounds])
    words += f"; only a lower bound is known of {listed(bounded)}" if bounded else ""
    if rest:
        words += f". Next: {rest[0].subject.name}, {say(rest[0].get(key) or 0)}"
    if len(rest) > 1:
        words += f"; last: {rest[-1].subject.name}, {say(rest[-1].get(key) or 0)}"
    if key == "cpu" and (ratio := study.floor_ratio(best)):
        words += f". {best.subject.name} is {above_floor(ratio)}"
    worse = {
        p.subject.name: max(p.get(key) or 0, value) / min(p.get(key) or 1e9, value) for p in known
    }
    unknown = any(p in bounds for p in order[1:])
    return Answer(
        question,
        _named(names_of([best, *equal]), len(known)),
        f"{upper_first(words)}.",
        anchor,
        regret={} if unknown else worse,
        unknown=unknown,
        best_at_least=best in bounds,
    )


def _reach(study: Study, scenario: Conditions) -> Answer | None:
    found = [h for h in holdings(study, scenario) if h.kind != "floor"]
    top = max(h.highest or 0 for h in found)
    if top == 0:
        return None
    names = [h.subject for h in found if (h.highest or 0) == top]
    lost = [h for h in found if h.subject not in names]
    many = len(names) > MOST_NAMED and lost
    words = f"Every level up to {top:,} connections" + (f": {listed(names)}" if many else "")
    if lost:
        lowest = min(study.levels(scenario))
        words += f"; the others less far: {listed([_how_far(h, lowest) for h in lost])}"
    elif top == max(study.levels(scenario)):
        words += ", the highest asked for: a longer ladder could tell them apart"
    unknown = any(h.broken_at is None for h in lost)
    regret = {} if unknown else {h.subject: top / (h.highest or 1) for h in found}
    who = _named(names, len(found))
    return Answer("Many connections at once?", who, f"{words}.", "holding", regret, unknown)


def _how_far(found: Holding, lowest: int) -> str:
    if found.highest:
        untried = " (not tried beyond)" if found.broken_at is None else ""
        return f"{found.subject} to {found.highest:,}{untried}"
    where = "not even" if found.broken_at == lowest else "not tried at"
    return f"{found.subject} {where} {lowest:,}"


def _memory(study: Study, scenario: Conditions, points: Sequence[Point]) -> Answer | None:
    """All processes at one level; and what a connection adds, from the lowest level to there."""
    order = sorted((p for p in points if p.get("memory")), key=lambda p: p.get("memory") or 0)
    if not study.whole_memory() or len(order) < 2:
        return None

    def said(point: Point) -> str:
        held = [p for p in study.series(point.subject.name, scenario) if p.get("memory")]
        words = figure(point.get("memory"), "MB")
        if too_close(held[0], point, "memory"):
            return words
        grown = (point.get("memory") or 0) - (held[0].get("memory") or 0)
        each = grown * 1000 / (point.level - held[0].level)
        return words + (f", {figure(each, 'kB')} each" if each >= LEAST_EACH else "")

    best, most = order[0], order[-1]
    words = f"{said(best)} at {best.level:,} connections"
    words += f"; most: {most.subject.name}, {said(most)}."
    words += " “Each” is what a connection adds." if " each" in words else ""
    least = best.get("memory") or 1
    regret = {p.subject.name: (p.get("memory") or least) / least for p in order}
    return Answer("Little memory?", best.subject.name, words, "memory", regret)


def _waiting(study: Study) -> Answer | None:
    """What waiting for Redis does: by delay if that was measured, else by workload."""
    slowed, plain = delays(study), workloads(study)
    found = slowed or plain
    if found is None or found.ends is None:
        return None
    first, last = found.ends
    changes = found.changes(_servers(study))
    kept = {name: change for name, change in changes.items() if not change.unknown}
    if len(kept) < 2:
        return None
    most, *others = sorted(kept, key=lambda n: -kept[n].ratio)
    bounds = [name for name in others if kept[name].at_least]
    least = [name for name in others if name not in bounds][-1:]
    words = f"With {last} ms more for each reply" if slowed else f"From {first} to {last}"
    words += f" {most} kept {share_left(kept[most].ratio, kept[most].at_least)} of its rate"
    for name in (*bounds, *least):
        words += f", {name} {share_left(kept[name].ratio, kept[name].at_least)}"
    left_out = [name for name in changes if name not in kept]
    if left_out:
        words += f"; not found out for {listed(left_out)}: {AT_LIMIT}"
    unknown = any(change.unknown or change.at_least for change in changes.values())
    regret = {} if unknown else {n: kept[most].ratio / c.ratio for n, c in kept.items()}
    anchor = f"figure-{found.key}"
    who = _named([most, *bounds], len(changes))
    return Answer("A slow database behind it?", who, f"{words}.", anchor, regret, unknown)


def _servers(study: Study) -> set[str]:
    """All but the floors."""
    return {s.name for s in study.subjects if s.kind != "floor"}


def _idle(study: Study) -> Answer | None:
    found = idles(study)
    if found is None or found.metric != "cpu":
        return None
    last = found.order[-1]
    grown = {name: change.ratio for name, change in found.changes(_servers(study)).items()}
    if len(grown) < 2:
        return None
    best, worst = min(grown, key=lambda n: grown[n]), max(grown, key=lambda n: grown[n])
    words = (
        f"{int(last):,} of them made a request cost {times(grown[best])} as much CPU with {best}, "
        f"{times(grown[worst])} with {worst}."
    )
    return Answer("Many clients that say nothing?", best, words, "figure-idles")


def _altogether(given: Sequence[Answer], level: int) -> list[Answer]:
    weighed = [a for a in given if a.regret]
    names = set.intersection(*(set(a.regret) for a in weighed)) if weighed else set()
    if len(weighed) < 3 or len(names) < 2:
        return []
    means = {n: geometric_mean([a.regret[n] for a in weighed]) for n in sorted(names)}
    best, *others = sorted(means, key=lambda n: means[n])
    words = (
        f"On average it is {times(means[best])} the best; "
        f"next: {others[0]}, {times(means[others[0]])}."
    )
    if means[best] < 1 + NOISE:
        words = f"On average it is close to the best; next: {others[0]}."
    words += f" {TOGETHER} Weighed at {level:,} connections."
    if any(a.best_at_least for a in weighed):
        words += " The highest rate counts as measured, though it is a lower bound."
    unknown = [f"“{a.question}”" for a in given if a.unknown]
    if unknown:
        words += f" Not weighed, because not all was found out: {listed(unknown)}."
    return [Answer("One for everything here?", best, words, "choose")]


def _named(names: Sequence[str], total: int) -> str:
    if len(names) == total > 1:
        return "Both of them" if total == 2 else "All of them"
    if len(names) > MOST_NAMED:
        return f"{number_word(len(names))} of them".capitalize()
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
