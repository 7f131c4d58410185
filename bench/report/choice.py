"""Which one should I choose? Answered by rules that read the figures of this very result.

Each question ranks the servers of a scenario by one criterion; figures nearer to each other than
what the runs themselves differ by are called equal. The last answer weighs all of them: the
server that is, in the geometric mean of all questions, closest to the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean

from bench.report.across import delays, idles, workloads
from bench.report.findings import above_floor
from bench.report.holding import holdings
from bench.report.study import Point, Study
from bench.report.words import duration, figure, listed, number_word, percent, times, upper_first
from bench.results import Conditions

NOISE = 0.10
"""Differences below this share are not believed of a single run."""
MOST_NAMED = 3
TOGETHER = (
    "That is the geometric mean of how many times worse than the best it is in each of them, so "
    "that all questions weigh the same, whatever their units."
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
    """How many times worse than the best each server is. Empty: not weighed."""


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
    order = sorted(known, key=lambda p: p.get(key) or 0, reverse=high)
    best, others = order[0], order[1:]
    equal = [p for p in others if _too_close(best, p, key)]
    names = [p.subject.name for p in (best, *equal)]
    say = duration if unit == "ms" else lambda v: figure(v, unit)
    value, last = best.get(key) or 0, order[-1].get(key) or 0
    least = "at least " if key == "rate" and best.lower_bound else ""
    words = f"{least}{say(value)} at {best.level:,} connections"
    if equal:
        bounded = key == "rate" and any(p.lower_bound for p in equal)
        why = "are lower bounds" if bounded else "are too close to tell apart"
        words += f"; the others named {why}"
    following = next((p for p in others if p not in equal), None)
    if following:
        words += f". Next: {following.subject.name}, {say(following.get(key) or 0)}"
        if following is not order[-1]:
            words += f"; last: {order[-1].subject.name}, {say(last)}"
    if key == "cpu" and (ratio := study.floor_ratio(best)):
        words += f". {best.subject.name} is {above_floor(ratio)}"
    worse = {
        p.subject.name: max(p.get(key) or 0, value) / min(p.get(key) or 1e9, value) for p in known
    }
    return Answer(question, _named(names), f"{upper_first(words)}.", anchor, worse)


def _too_close(best: Point, other: Point, key: str) -> bool:
    """Whether their runs overlap; of single runs, whether they differ by less than noise; and of
    rates that are lower bounds nobody knows which is higher."""
    if key == "rate" and other.lower_bound:
        return True
    mine, its = best.figures[key], other.figures[key]
    if min(best.runs, other.runs) < 2:
        return abs(mine.median - its.median) < NOISE * max(mine.median, its.median)
    return mine.low <= its.high and its.low <= mine.high


def _reach(study: Study, scenario: Conditions) -> Answer:
    found = [h for h in holdings(study, scenario) if h.kind != "floor"]
    top = max(h.highest or 0 for h in found)
    names = [h.subject for h in found if (h.highest or 0) == top]
    lost = [h for h in found if h.subject not in names]
    many = len(names) > MOST_NAMED and lost
    words = f"Every level up to {top:,} connections" + (f": {listed(names)}" if many else "")
    if lost:
        lowest = f"not even {min(study.levels(scenario)):,}"
        far = {h.subject: f"to {h.highest:,}" if h.highest else lowest for h in lost}
        rest = listed([f"{name} {where}" for name, where in far.items()])
        words += f"; the others less far: {rest}"
    elif top == max(study.levels(scenario)):
        words += ", the highest asked for: a longer ladder could tell them apart"
    every = len(names) == len(found)
    regret = {h.subject: top / max(h.highest or 1, 1) for h in found}
    who = "All of them" if every else _named(names)
    return Answer("Many connections at once?", who, f"{words}.", "holding", regret)


def _memory(study: Study, scenario: Conditions, points: Sequence[Point]) -> Answer | None:
    """All processes at one level; and what a connection adds, from the lowest level to there."""
    order = sorted((p for p in points if p.get("memory")), key=lambda p: p.get("memory") or 0)
    if not study.whole_memory() or len(order) < 2:
        return None

    def said(point: Point) -> str:
        held = [p for p in study.series(point.subject.name, scenario) if p.get("memory")]
        words, steps = figure(point.get("memory"), "MB"), point.level - held[0].level
        grown = (point.get("memory") or 0) - (held[0].get("memory") or 0)
        each = grown * 1000 / steps if steps else 0
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
    if found is None:
        return None
    order = found.order if slowed else [w for w in found.order if w != "sorted"]
    if len(order) < 2:
        return None
    floors = {s.name for s in study.subjects if s.kind == "floor"}
    first, last = order[0], order[-1]
    kept = {
        name: by[last] / by[first]
        for name, by in found.values.items()
        if by.get(first) and by.get(last) and name not in floors
    }
    if len(kept) < 2:
        return None
    most, least = max(kept, key=lambda n: kept[n]), min(kept, key=lambda n: kept[n])
    what = f"With {last} ms more for each reply" if slowed else f"From {first} to {last}"
    words = f"{what} {most} kept {_share(kept[most])} of its rate, {least} {_share(kept[least])}."
    regret = {name: kept[most] / share for name, share in kept.items() if share}
    return Answer("A slow database behind it?", most, words, f"figure-{found.key}", regret)


def _share(kept: float) -> str:
    return percent(kept) if kept < 1 - NOISE / 2 else "all"


def _idle(study: Study) -> Answer | None:
    found = idles(study)
    if found is None or found.metric != "cpu":
        return None
    first, last = found.order[0], found.order[-1]
    floors = {s.name for s in study.subjects if s.kind == "floor"}
    grown = {
        name: by[last] / by[first]
        for name, by in found.values.items()
        if by.get(first) and by.get(last) and name not in floors
    }
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
        f"Taken together it is {times(means[best])} worse than the best of each question; "
        f"next: {others[0]}, {times(means[others[0]])}."
    )
    if means[best] < 1 + NOISE:
        words = f"Taken together it is close to the best of each question; next: {others[0]}."
    words += f" {TOGETHER} Weighed at {level:,} connections."
    return [Answer("One for everything here?", best, words, "choose")]


def _named(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{number_word(len(names))} of them".capitalize()
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
