# SPDX-License-Identifier: MIT
"""The order of all subjects: what a sweep answers in its last lines.

There are two kinds, which are never mixed. Where every server was the limit of its own runs, the
order is that of the rates that were measured; a slice of a core for each (--quota) is there to make
it so. Where a load generator was the limit with anybody, nobody knows that server's rate: then all
are ordered by what a core could carry that they had to themselves, 1 / CPU time per request. That
is arithmetic, and counts neither waiting nor a core's other work.

Who differ by less than their runs do share a place. Pure functions on results.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.readers.compare import Spread, verdict
from bench.records.conditions import Conditions
from bench.records.results import Results, cell_of
from bench.records.run import Run

By = Literal["rate", "cpu"]
STALLS = {
    "one": "one silent client stops it",
    "workers": "as many silent clients as it has workers stop it",
}
"""What `Results.stalled_by` means."""


@dataclass(frozen=True)
class Ranked:
    """A subject in an order."""

    subject: str
    place: int
    """From 1; those that cannot be told apart share one."""
    spread: Spread
    """Requests per second."""


@dataclass(frozen=True)
class Order:
    """All subjects that have a figure, the best first."""

    conditions: Conditions
    level: int
    by: By
    ranked: list[Ranked]
    why: str
    """Why by this, in a sentence."""
    without: list[str]
    """Subjects that have no figure there."""

    @property
    def title(self) -> str:
        """What it shows, in a line."""
        where = f"{self.conditions.describe()}, {self.level:,} connections"
        if self.by == "rate":
            return f"Order by requests per second: {where}"
        return f"Order by what a full core would carry (1 / CPU per request): {where}"


def orders(results: Results) -> list[Order]:
    """One for all conditions under which there is something to order."""
    found = (order(results, conditions) for conditions in results.conditions())
    return [one for one in found if one]


def order(results: Results, conditions: Conditions) -> Order | None:
    """At the level that was measured most often of those that most subjects hold; of several the
    nearest to 100. None if fewer than two have a figure there, or no rate comes of it."""
    if not conditions.rated or conditions.mode != "closed":
        return None
    runs = [r for r in results.runs if r.conditions == conditions and r.kind != "floor"]
    levels = {run.concurrency: _held_at(runs, run.concurrency) for run in runs}
    if not levels:
        return None
    level = max(levels, key=lambda n: (len(levels[n]), _runs(levels[n]), -abs(n - USUAL_LEVEL)))
    held = levels[level]
    if len(held) < 2:
        return None
    limits = {name: _limit(of) for name, of in held.items()}
    others = {name: limit for name, limit in limits.items() if limit != "server"}
    by: By = "cpu" if others else "rate"
    spreads = {name: found for name, of in held.items() if (found := _spread(of, by))}
    if len(spreads) < 2:
        return None
    all_names = dict.fromkeys(run.subject for run in runs)
    return Order(
        conditions,
        level,
        by,
        list(_ranked(spreads)),
        _why(results, conditions, others, len(held)),
        [name for name in all_names if name not in spreads],
    )


USUAL_LEVEL = 100


def _held_at(runs: Sequence[Run], level: int) -> dict[str, list[Run]]:
    """By subject all runs of those of whom every run holds."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.concurrency == level:
            found.setdefault(run.subject, []).append(run)
    return {name: of for name, of in found.items() if cell_of(of).median is not None}


def _runs(held: dict[str, list[Run]]) -> int:
    return min((len(of) for of in held.values()), default=0)


def _limit(runs: Sequence[Run]) -> str:
    """Who was the limit of a cell: "server" only if of all its runs; else who was most often."""
    seen = Counter("load" if run.lower_bound else run.bottleneck or "unknown" for run in runs)
    if set(seen) == {"server"}:
        return "server"
    del seen["server"]
    return max(seen, key=lambda name: seen[name])


def _spread(runs: Sequence[Run], by: By) -> Spread | None:
    if by == "rate":
        values = [run.requests_per_second for run in runs]
    else:
        costs = [run.process.cpu_us_per_request if run.process else 0.0 for run in runs]
        values = [1e6 / cost if cost else None for cost in costs]
    known = [value for value in values if value is not None]
    if len(known) < len(runs):
        return None
    return Spread(statistics.median(known), min(known), max(known), len(known))


def _ranked(spreads: dict[str, Spread]) -> Iterator[Ranked]:
    """Who cannot be told apart from the first of a place shares it."""
    place, first = 0, None
    for number, name in enumerate(sorted(spreads, key=lambda n: -spreads[n].median), 1):
        if first is None or verdict(first, spreads[name]) != "same":
            place, first = number, spreads[name]
        yield Ranked(name, place, spreads[name])


LIMITS = {
    "load": "the load generator",
    "redis": "Redis",
    "nginx": "nginx",
    "none": "nobody: it waited, or something else used its CPU",
    "unknown": "not known",
}


def _why(results: Results, conditions: Conditions, others: dict[str, str], total: int) -> str:
    quota = conditions.quota
    if not others:
        limit = "the server was the limit of each run"
        if quota:
            how = f" ({results.slicing})" if results.slicing else ""
            return f"Each had {quota:.0%} of a core{how} and used it up, so {limit}."
        return f"Measured rates: {limit}."
    by: dict[str, list[str]] = {}
    for name, limit in others.items():
        by.setdefault(limit, []).append(name)
    said = "; ".join(
        f"{LIMITS[limit]} ({'all of them' if len(names) == total else ', '.join(names)})"
        for limit, names in by.items()
    )
    tried = f"in {quota:.0%} of a core each " if quota else ""
    cannot = "" if quota or results.slicing else "; no server could be given a slice of a core here"
    return f"Not by measured rates: {tried}the server was not always the limit, but {said}{cannot}."


def lines(found: Order, stalled_by: dict[str, str]) -> Iterator[str]:
    """An order as text, a line for each place."""
    yield f"{found.title}"
    for place in dict.fromkeys(one.place for one in found.ranked):
        sharing = [one for one in found.ranked if one.place == place]
        rates = " and ".join(_rate(one) for one in sharing)
        tie = ": too close to tell apart" if len(sharing) > 1 else ""
        notes = [
            f"{one.subject}: {STALLS[how]}"
            for one in sharing
            if (how := stalled_by.get(one.subject, "")) == "one"
        ]
        note = f"   ({'; '.join(notes)})" if notes else ""
        yield f"  {place}.  {', '.join(one.subject for one in sharing):<28} {rates}{tie}{note}"
    if found.without:
        yield f"  -   {', '.join(found.without)}: no figure there"
    yield found.why


def _rate(one: Ranked) -> str:
    return f"{one.spread.median:,.0f}"
