# SPDX-License-Identifier: MIT
"""The ranking of the servers under test (without baselines), which a sweep prints at its end.

If every server was the bottleneck in most of its runs, the ranking is by measured rates; a CPU
quota for each server (--quota) makes this likely. If the bottleneck of one server was different,
e.g. the load generator, all servers are ranked by the capacity of a full core: 1 / CPU time per
request. The capacity ignores waiting and other work of the core. The capacity also replaces the
rates if other programs used the server's CPU.

Servers share a rank if no two of them differ significantly.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from bench.records.conditions import Conditions
from bench.records.figures import Run, grouped
from bench.records.points import Spread, best_level, data_points, spread_of, verdict
from bench.records.results import Results
from bench.records.words import connections, listed, of_a_core

By = Literal["rate", "cpu"]
STALLS = {
    "one": "one silent client stops it",
    "workers": "one silent client for each worker stops it",
}
"""The texts for values of `Results.stalled_by`."""


class Ranked(NamedTuple):
    """A server in a ranking."""

    subject: str
    place: int  # The rank, from 1. No two servers of the same rank differ significantly.
    spread: Spread  # Requests per second: measured, or the capacity of a full core.
    close_to: tuple[str, ...] = ()
    """Servers of better ranks that do not differ significantly from this server. Such servers can
    exist, because "no significant difference" is not transitive."""


class Order(NamedTuple):
    """A ranking of all servers that have a figure, the best first."""

    conditions: Conditions
    level: int
    by: By
    ranked: list[Ranked]
    why: str  # The reason for this kind of ranking, in a sentence.
    without: list[str]  # Servers without a figure under these conditions at this level.

    @property
    def title(self) -> str:
        """Return the title line."""
        where = f"{self.conditions.describe()}, {connections(self.level)}"
        if self.by == "rate":
            return f"Ranking by requests per second: {where}"
        return f"Ranking by the capacity of a full core (1 / CPU per request): {where}"


def orders(results: Results) -> list[Order]:
    """Return a ranking for each set of closed-loop conditions under which at least two servers have
    a figure."""
    found = (order(results, conditions) for conditions in results.conditions())
    return [one for one in found if one]


def order(results: Results, conditions: Conditions) -> Order | None:
    """Return the ranking under some conditions, at the level that `best_level` returns; None
    if they are not a closed loop's, or if fewer than two servers have a figure."""
    if conditions.mode != "closed":
        return None
    points = [p for p in data_points(results).values() if p.conditions == conditions]
    points = [p for p in points if p.kind != "baseline"]
    level = best_level(points)
    held = {p.subject: p.runs for p in points if p.held and p.level == level}
    limits = {name: list(map(_limit_of, runs)) for name, runs in held.items()}
    # Servers that limited at most half of their runs, and the most frequent other limit of each.
    others = {
        name: Counter(limit for limit in of if limit != "server").most_common(1)[0][0]
        for name, of in limits.items()
        if 2 * of.count("server") <= len(of)
    }
    counted = {
        name: [run for run in runs if others or _limit_of(run) == "server"]
        for name, runs in held.items()
    }
    found = {n: spread_of(runs, "core_rate" if others else "rate") for n, runs in counted.items()}
    spreads = {name: x for name, x in found.items() if x and x.runs == len(counted[name])}
    if len(spreads) < 2:
        return None
    total, used = (sum(map(len, of.values())) for of in (held, counted))
    return Order(
        conditions,
        level,
        "cpu" if others else "rate",
        list(_ranked(spreads)),
        _why_cpu(results, conditions, others)
        if others
        else _why_rate(results, conditions, total, total - used),
        [name for name in dict.fromkeys(point.subject for point in points) if name not in spreads],
    )


def _limit_of(run: Run) -> str:
    """Return the bottleneck of a run: "others" if other programs also used the server's busy CPU.
    If Redis was delayed, the server mostly waits. So other programs are ignored, and "server" is
    returned if there was no bottleneck."""
    found = "load" if run.lower_bound else run.bottleneck or "unknown"
    if run.conditions.redis_delay_ms:
        return "server" if found == "none" else found
    return "others" if found == "server" and run.disturbed else found


def _ranked(spreads: dict[str, Spread]) -> Iterator[Ranked]:
    """Yield the servers with their ranks. Servers of one rank do not differ significantly."""
    place, sharers, better = 0, list[str](), list[str]()
    for number, name in enumerate(sorted(spreads, key=lambda n: -spreads[n].median), 1):
        close = {n for n in spreads if verdict(spreads[n], spreads[name]) == "same"}
        if not sharers or not close.issuperset(sharers):
            place, better, sharers = number, better + sharers, []
        sharers.append(name)
        yield Ranked(name, place, spreads[name], tuple(n for n in better if n in close))


NOT_THE_SERVER = {
    "load": "the load generator was at its limit with {}",
    "redis": "Redis was at its limit with {}",
    "nginx": "nginx was at its limit with {}",
    "none": "{} had to wait, or to share the CPU with other programs",
    "others": "other programs used the CPU of {}",
    "unknown": "the limit of {} is unknown",
}
"""The texts for limits other than the server; {}: the names of the servers."""


def _why_rate(results: Results, conditions: Conditions, total: int, lost: int) -> str:
    quota = conditions.quota
    how = f" (by {results.slicing})" if results.slicing else ""
    had = f"Servers had {of_a_core(quota)}{how} and used it up" if quota else "By measured rates"
    words = f"{had}: the server was the limit, not the load generator."
    if conditions.redis_delay_ms:
        words = "By measured rates: the server or its waits were the limit, not the load generator."
    return words + (f" {lost} of {total} runs with another limit are not counted." if lost else "")


def _why_cpu(results: Results, conditions: Conditions, others: Mapping[str, str]) -> str:
    by = grouped((limit, name) for name, limit in others.items())
    said = "; ".join(NOT_THE_SERVER[limit].format(", ".join(names)) for limit, names in by.items())
    tried = f" even with {of_a_core(conditions.quota)}" if conditions.quota else ""
    cannot = ". The machine does not support CPU quotas for servers (--quota)"
    cannot = cannot if results.slicing == "" else ""
    why = f"Not by measured rates, because not all servers were at their limit{tried}"
    return f"{why}: {said}{cannot}."


def sharing(ranked: Sequence[Ranked]) -> list[list[Ranked]]:
    """Return the servers of each rank, the best rank first."""
    return list(grouped((one.place, one) for one in ranked).values())


def lines(found: Order, stalled_by: Mapping[str, str]) -> Iterator[str]:
    """Yield a ranking as text, a line for each rank."""
    yield found.title
    groups = sharing(found.ranked)
    names = [", ".join(one.subject for one in group) for group in groups]
    width, digits = max(map(len, names)), len(str(found.ranked[-1].place))
    for group, who in zip(groups, names, strict=True):
        rates = ", ".join(f"{one.spread.median:,.0f}" for one in group)
        notes = ["no significant difference"] if len(group) > 1 else []
        notes += [
            f"{one.subject}: not significantly different from {listed(one.close_to)}"
            for one in group
            if one.close_to
        ]
        stalled = (one.subject for one in group if stalled_by.get(one.subject) == "one")
        notes += [f"{name}: {STALLS['one']}" for name in stalled]
        note = f"   ({'; '.join(notes)})" if notes else ""
        yield f"  {group[0].place:>{digits}}. {who:<{width}}  {rates} requests/s{note}"
    if found.without:
        yield f"  {'-':>{digits}}  {', '.join(found.without)}: no valid result"
    yield found.why
