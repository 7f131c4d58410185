# SPDX-License-Identifier: MIT
"""The ranking of one scenario on the page, and the recommended servers.

A server is excluded if one silent client stops it, if it fails at a level that another server
passes, or if it needs more than half of the machine's memory. Of the others, those of the best rank
are recommended.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bench.readers.order import STALLS, Order, Ranked, order, sharing
from bench.records.conditions import Conditions
from bench.records.words import connections, figure, listed, number_word, percent, times
from bench.report.findings.findings import MOST_NAMED
from bench.report.limits import holdings
from bench.report.study import Row, Study


def ranking_title(study: Study, scenario: Conditions) -> str:
    """Return the first and the last of the ranking; empty if there is no ranking."""
    found = order(study.results, scenario)
    if found is None:
        return ""
    ties = sharing(found.ranked)
    first, last = ties[0], ties[-1]
    best = first[0].spread.median
    who = f"{listed([one.subject for one in first])} {'comes' if len(first) == 1 else 'come'} first"
    rate = f"{figure(best)} requests per second"
    if len(ties) == 1:
        who = f"{listed([one.subject for one in first])} have no significant difference"
        words = f"{who}, at up to {rate}"
    elif first[0].subject in last[-1].close_to:
        words = f"{who}: {rate}"
    else:
        least = last[-1].spread.median
        words = f"{who}: {rate}, {times(best / least)} as many as {last[-1].subject}"
    where = f"At {connections(found.level)}"
    if found.by == "cpu":
        where += ", by the capacity of a full core (1 / CPU per request)"
    return f"{where}, {words}"


def order_rows(study: Study) -> list[Row]:
    """Return a row for each server of each scenario that has a ranking."""
    return [
        _row(study, found, one, study.keys[scenario])
        for scenario in study.scenarios
        if (found := order(study.results, scenario))
        for one in found.ranked
    ]


def _row(study: Study, found: Order, one: Ranked, key: str) -> Row:
    out = f"   {STALLS['one']}" if study.results.stalled_by.get(one.subject) == "one" else ""
    close = f"{one.subject} has no significant difference to {listed(one.close_to)}, either. "
    return {
        "s": key,
        "subject": one.subject,
        "by": found.by,
        "value": float(f"{one.spread.median:.5g}"),
        "low": float(f"{one.spread.low:.5g}"),
        "high": float(f"{one.spread.high:.5g}"),
        "said": f"{one.place}.  {figure(one.spread.median)}{out}",
        "why": f"{close if one.close_to else ''}{found.why}",
    }


class Advice(NamedTuple):
    """The recommended servers."""

    answer: str
    because: str


MOST_MEMORY = 0.5
"""A server may use this share of the machine's memory; Redis and other programs need the rest."""
NOT_KNOWN = (
    "These results do not say which servers a single silent client stops, and this is more "
    "important than all figures: measure again with the current version."
)


def recommended(study: Study, scenario: Conditions, level: int) -> Advice | None:
    """Return the recommendation; None if the results allow no ranking. With a delayed Redis only
    measured rates allow one, because a core's capacity has no waiting."""
    found = order(study.results, scenario)
    if found is None or (found.by == "cpu" and scenario.redis_delay_ms):
        return None
    if not study.results.stalled_by:
        return Advice("Not said", NOT_KNOWN)
    names = [one.subject for one in found.ranked] + found.without
    out = {name: why for name in names if (why := _against(study, scenario, level, name))}
    ordered = "; ".join(listed([one.subject for one in tie]) for tie in sharing(found.ranked))
    by = "requests per second" if found.by == "rate" else "the capacity of a full core"
    seen = f" In order: {ordered}, by {by}.{_out_in_words(out)}"
    left = [one for one in found.ranked if one.subject not in out]
    if not left:
        return Advice("None of them", f"Each is excluded.{seen}")
    *some, last = chosen = [one.subject for one in left if one.place == left[0].place]
    most = "serve most, without a significant difference" if some else "serves most"
    words = f"Of the servers that are not excluded {listed(chosen)} {most}.{seen}"
    if any(study.results.stalled_by.get(name) == "workers" for name in chosen):
        words += f" Note that {STALLS['workers']}."
    answer = f"{', '.join(some)} or {last}" if some else last
    if len(chosen) > MOST_NAMED:
        answer = f"{number_word(len(chosen))} of them".capitalize()
    return Advice(answer, words)


def _against(study: Study, scenario: Conditions, level: int, name: str) -> str:
    """Return the reason why a server is excluded; empty if it is not."""
    by = study.results.stalled_by.get(name)
    if by == "one":
        return STALLS[by]
    if by is None:
        return "the effect of a silent client is unknown"
    held = {h.subject: h for h in holdings(study, scenario) if h.kind != "baseline"}
    top = max(h.highest or 0 for h in held.values())
    broken = held[name].broken_at if name in held else None
    if broken is not None and broken <= top:
        return f"fails at {connections(broken)}"
    point = study.find(name, scenario, level)
    memory, whole = (point.get("memory") if point else None), _memory_of(study)
    if memory and whole and memory > MOST_MEMORY * whole:
        share = percent(memory / whole)
        return f"needs {figure(memory, 'MB')}, {share} of its machine's memory"
    return ""


def _memory_of(study: Study) -> float | None:
    """Return the memory of the smallest server machine in megabytes; None if unknown."""
    hosts = [h.memory_mb for h in study.results.hosts if h.role == "server" and h.memory_mb]
    if hosts:
        return min(hosts)
    whole = study.results.machine.memory_bytes
    return whole / 1e6 if whole else None


def _out_in_words(out: Mapping[str, str]) -> str:
    """Return the excluded servers, each reason once."""
    by: dict[str, list[str]] = {}
    for name, why in out.items():
        by.setdefault(why, []).append(name)
    said = "; ".join(f"{listed(names)} ({why})" for why, names in by.items())
    return f" Excluded: {said}." if said else ""
