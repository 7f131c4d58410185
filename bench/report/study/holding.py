# SPDX-License-Identifier: MIT
"""The levels that each server passes, and why it fails at a higher one, in words."""

from dataclasses import dataclass
from math import ceil

from bench.records.conditions import Conditions
from bench.records.points import Point
from bench.records.words import connections, duration, figure, listed, plural
from bench.report.study.hosts import limit_words
from bench.report.study.study import Study

SLOW_MS = 1000.0
"""A p99 of at least this many milliseconds is reported although the level is passed."""


@dataclass(frozen=True)
class Holding:
    """The levels that one server under test passes in one scenario."""

    subject: str
    kind: str
    highest: int | None
    """The highest level up to which every level is passed; None if the lowest is not."""
    broken_at: int | None
    """The lowest level that failed. A level that the machine does not allow is no failure."""
    words: str


def holdings(study: Study, scenario: Conditions) -> list[Holding]:
    """Return the levels that each server of a scenario passes."""
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
            words.append(f"It passes again at {listed(again)}.")
    words += _limits(points)
    words += _strain(points)
    broken_at = next((p.level for p in points if p.state == "failed"), None)
    return Holding(name, kind, highest, broken_at, " ".join(words))


def _held_words(points: list[Point], highest: int | None, bad: Point | None, complete: bool) -> str:
    if highest is None and points[0].state == "skipped":
        return f"Was not tried at {points[0].level:,}, the lowest level."
    if highest is None:
        return f"Failed at {points[0].level:,}, the lowest level."
    if bad is None and not complete:
        return f"Passed all measured levels, up to {connections(highest)}."
    if bad is None:
        return f"Passed every level up to {connections(highest)}, the highest requested."
    if bad.state == "skipped":
        return f"Passed every level up to {connections(highest)}, the highest tried."
    return f"Passed up to {connections(highest)}."


def _why(bad: Point, study: Study) -> str:
    label = bad.reason.label if bad.reason else bad.state
    text = bad.reason.text if bad.reason else "no reason was recorded"
    verb = "not tried" if bad.state == "skipped" else label
    words = f"At {bad.level:,}: {verb}: {text.rstrip('.')}."
    limits = study.results.limits
    queue = limits.somaxconn if limits else None
    if bad.state == "failed" and queue and bad.level > queue:
        words += f" The accept queue is limited to {queue:,} (somaxconn)."
    return words


def _limits(points: list[Point]) -> list[str]:
    """Return which of several hosts was the limit at the highest valid level."""
    last = next((p for p in reversed(points) if p.held and p.hosts), None)
    words = limit_words(last) if last else ""
    return [f"At {last.level:,} {words}."] if last and words else []


def _strain(points: list[Point]) -> list[str]:
    """Return the signs of overload at valid levels."""
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
        words.append(f"At {full.level:,} the accept queue was full {count}.")
    bounded = [p for p in points if p.held and p.lower_bound]
    if bounded:
        levels = listed([figure(p.level) for p in bounded])
        words.append(f"At {levels} the load generator was at its limit: its rate may be higher.")
    return words
