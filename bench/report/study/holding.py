# SPDX-License-Identifier: MIT
"""Where each server stops holding, and why, in words."""

from dataclasses import dataclass
from math import ceil

from bench.records.conditions import Conditions
from bench.records.words import connections, duration, figure, listed, plural
from bench.report.study.hosts import limit_words
from bench.report.study.study import Point, Study

SLOW_MS = 1000.0
"""A p99 from here on is worth a word: nobody calls that held who waits for it."""


@dataclass(frozen=True)
class Holding:
    """One subject in one scenario."""

    subject: str
    kind: str
    highest: int | None
    """The highest level up to which every level holds; None if the lowest does not."""
    broken_at: int | None
    """The lowest level that failed. What the machine did not let it try is no failure."""
    words: str


def holdings(study: Study, scenario: Conditions) -> list[Holding]:
    """All subjects of a scenario."""
    found = [(s, study.series(s.name, scenario)) for s in study.subjects]
    return [_holding(s.name, s.kind, points, study) for s, points in found if points]


def _holding(name: str, kind: str, points: list[Point], study: Study) -> Holding:
    bad = next((p for p in points if p.state != "held"), None)
    good = [p.level for p in points if p.held and (bad is None or p.level < bad.level)]
    highest = max(good, default=None)
    words = [_held_words(points, highest, bad, study.results.state == "complete")]
    if bad is not None:
        words.append(_why(bad, study))
        again = [f"{p.level:,}" for p in points if p.held and p.level > bad.level]
        if again:
            words.append(f"It holds again at {listed(again)}.")
    words += _limits(points)
    words += _strain(points)
    broken_at = next((p.level for p in points if p.state == "failed"), None)
    return Holding(name, kind, highest, broken_at, " ".join(words))


def _held_words(points: list[Point], highest: int | None, bad: Point | None, complete: bool) -> str:
    if highest is None and points[0].state == "skipped":
        return f"Was not tried at {points[0].level:,}, the lowest level."
    if highest is None:
        return f"Did not hold at {points[0].level:,}, the lowest level."
    if bad is None and not complete:
        return f"Held all that was measured, up to {connections(highest)}."
    if bad is None:
        return f"Held every level up to {connections(highest)}, the highest asked for."
    if bad.state == "skipped":
        return f"Held every level up to {connections(highest)}, the highest tried."
    return f"Held up to {connections(highest)}."


def _why(bad: Point, study: Study) -> str:
    label = bad.reason.label if bad.reason else bad.state
    text = bad.reason.text if bad.reason else "no reason was recorded"
    verb = "not tried" if bad.state == "skipped" else label
    words = f"At {bad.level:,}: {verb}: {text.rstrip('.')}."
    limits = study.results.limits
    queue = limits.somaxconn if limits else None
    if bad.state == "failed" and queue and bad.level > queue:
        words += f" The queue of the listening socket ends at {queue:,} (somaxconn)."
    return words


def _limits(points: list[Point]) -> list[str]:
    """Which host was the limit at the highest level that holds, where there are several hosts."""
    last = next((p for p in reversed(points) if p.held and p.hosts), None)
    words = limit_words(last) if last else ""
    return [f"At {last.level:,} {words}."] if last and words else []


def _strain(points: list[Point]) -> list[str]:
    """What shows that a level that holds is held with difficulty."""
    words = []
    slow = [p for p in points if p.held and (p.get("p99") or 0) >= SLOW_MS]
    if slow:
        where = f"At {listed([figure(p.level) for p in slow])}"
        if len(slow) > 1 and slow == points[-len(slow) :]:
            where = f"From {slow[0].level:,} on"
        p99 = duration(min(p.get("p99") or 0 for p in slow))
        words.append(f"{where} one request in a hundred takes {p99} or longer.")
    full = next((p for p in points if p.held and (p.get("overflows") or 0) > 0), None)
    if full:
        count = plural(ceil(full.get("overflows") or 0), "time")
        words.append(f"At {full.level:,} the kernel met a full accept queue {count}.")
    bounded = [p for p in points if p.held and p.lower_bound]
    if bounded:
        levels = listed([figure(p.level) for p in bounded])
        words.append(f"At {levels} the load generator was at its limit: it may be faster there.")
    return words
