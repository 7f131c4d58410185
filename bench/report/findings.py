# SPDX-License-Identifier: MIT
"""The titles of the charts. A title states the result that its chart shows. All functions are pure.

Functions for titles return an empty text if the results allow no title.

`recommended` excludes a server if one silent client stops it (or this is unknown), if it fails at a
level that another server passes, or if it needs too much memory. Of the other servers, those with
the best rank are recommended.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.readers import order as ranking
from bench.records.conditions import Conditions
from bench.records.figures import QUIET, grouped
from bench.records.points import BY_KEY, Point, verdict
from bench.records.words import (
    all_of,
    connections,
    duration,
    figure,
    listed,
    lower_first,
    number_word,
    of_a_core,
    percent,
    plural,
    times,
    upper_first,
)
from bench.report.limits import holdings
from bench.report.study import Row, Study, describe

NEAR = 1.05
"""Titles do not mention smaller ratios."""
GROWN = 1.1
"""Titles do not mention a smaller growth of the CPU per request."""
AT_LIMIT = "the load generator was at its limit"
MOST_NAMED = 3
"""A recommendation's answer names at most this number of servers; of more, it gives the number."""
EACH_AT_LIMIT = f"{AT_LIMIT} with each server"
FASTEST_UNKNOWN = "the fastest server is unknown"


def ranked(points: Sequence[Point], key: str) -> list[Point]:
    """Return the points that have this figure, the lowest first."""
    return sorted((p for p in points if p.get(key) is not None), key=lambda p: p[key])


def equal_and_others(order: Sequence[Point], key: str) -> tuple[list[Point], list[Point]]:
    """Return the points that do not differ significantly from the first (the best), and the rest. A
    lower bound does not count as different, because the true rate may be higher."""
    best = order[0].spread(key)
    equal = [
        p
        for p in order[1:]
        if (key == "rate" and p.lower_bound) or verdict(best, p.spread(key)) == "same"
    ]
    return equal, [p for p in order[1:] if p not in equal]


def names_of(found: Sequence[Point] | Sequence[ranking.Ranked]) -> list[str]:
    """Return the names of the servers."""
    return [one.subject for one in found]


def with_quota(quota: float, words: str) -> str:
    """Return the title with the CPU quota of each server, if there is a quota."""
    return f"With {of_a_core(quota)}, {lower_first(words)}" if quota else words


def rates(study: Study, scenario: Conditions) -> str:
    """Return the server with the highest rate, and the ratio to the slowest server's best rate."""
    points = study.contenders(scenario)
    falling = sorted(points, key=lambda p: -p["rate"])
    best = [p for i, p in enumerate(falling) if p.subject not in names_of(falling[:i])]
    if not best:
        return "No data point of this workload is valid"
    first = best[0]
    rate, least = first["rate"], "at least " if first.lower_bound else ""
    words = f"{least}{figure(rate)} requests per second at {connections(first.level)}"
    if len(best) == 1:
        return f"{first.subject} served {words}"
    # If the load generator was a server's bottleneck at any level, this server's best rate is
    # unknown.
    held_back = {p.subject for p in points if p.lower_bound}
    known = [p for p in best if p.subject not in held_back]
    if not known:
        served = f"at up to {figure(rate)} requests per second"
        return f"{upper_first(EACH_AT_LIMIT)}, {served}: {FASTEST_UNKNOWN}"
    equal, rest = equal_and_others([first, *(p for p in known if p is not first)], "rate")
    others = [name for name in names_of(best[1:]) if name in held_back]
    words = f"{first.subject} {'served' if equal or others else 'served most,'} {words}"
    if equal and not rest and not held_back:
        return f"{all_of(len(best))} have no significant difference: {words}"
    if equal:
        words = f"{listed(names_of([first, *equal]))} have no significant difference; {words}"
    ratio = rate / (rest[-1].get("rate") or 1e-9) if rest else 0
    if ratio >= NEAR:
        words += f": {least}{times(ratio)} as many as {rest[-1].subject} at its best"
    return words + (f"; {AT_LIMIT} with {listed(others)}" if others else "")


def holding(study: Study, scenario: Conditions) -> str:
    """Return the levels that the servers pass."""
    found = [h for h in holdings(study, scenario) if h.kind != "baseline"]
    tried = [p.level for p in study.of(scenario) if p.state != "skipped"]
    if not tried:
        return "No level was possible on this machine"
    if not found:
        return "Only baselines were measured"
    top, broken = max(tried), [h for h in found if h.broken_at is not None]
    whole = [h for h in found if h.highest == top]
    if len(whole) == len(found):
        who = found[0].subject if len(found) == 1 else all_of(len(found))
        return f"{who} passed every level up to {connections(top)}"
    where = listed([f"{h.subject} at {h.broken_at:,}" for h in broken])
    if len(broken) == len(found):
        return f"{'It' if len(found) == 1 else all_of(len(found))} failed: {where}"
    words = f"{len(whole)} of {len(found)} passed every level up to {top:,}"
    words += f"; failed: {where}" if broken else ""
    rest = [h.subject for h in found if h not in whole and h not in broken]
    return words + (f"; not tried at every level: {listed(rest)}" if rest else "")


def _value(point: Point, key: str) -> str:
    return duration(point[key]) if key == "p99" else figure(point[key], BY_KEY[key].unit)


def _ends(order: Sequence[Point], key: str, words: str, other: str, ratio: str) -> str:
    """Return a text with the lowest and the highest figure, their servers, and a significant ratio.
    It also names the servers that do not differ significantly from the first. `order`: sorted by
    the figure; `words`, `other`, `ratio`: the formats of the two figures and of their ratio."""
    if not order:
        return ""
    low, high = order[0], order[-1]
    text = words.format(low.subject, _value(low, key))
    if len(order) == 1:
        return text
    equal, rest = equal_and_others(order, key)
    above = high[key] / max(low[key], 1e-9)
    text += other.format(high.subject, _value(high, key))
    text += ratio.format(times(above)) if high in rest and above >= NEAR else ""
    near = f"; not significantly different from {low.subject}: {listed(names_of(equal))}"
    return text + (near if equal else "")


def latency(study: Study, scenario: Conditions, level: int) -> str:
    """Return the lowest and the highest p99."""
    order = ranked(study.contenders(scenario, level), "p99")
    words = f"At {connections(level)} 99 % of the responses of {{}} came within {{}}"
    return _ends(order, "p99", words, ", those of {} within {}", ": {} as long")


def _over_levels(study: Study, scenario: Conditions, key: str) -> Iterator[list[Point]]:
    """Yield each server's points that have this figure, if there are at least two."""
    for subject in dict.fromkeys(p.subject for p in study.contenders(scenario)):
        points = [p for p in study.series(subject, scenario) if p.held and p.get(key)]
        if len(points) > 1:
            yield points


def latency_growth(study: Study, scenario: Conditions) -> str:
    """Return whether the p99 of all servers grew, and an example: the server with the lowest p99 at
    the highest level."""
    growth = [(first, last) for first, *_, last in _over_levels(study, scenario, "p99")]
    if not growth:
        return ""
    low, high = max(growth, key=lambda g: (g[1].level, -g[1]["p99"]))
    longer = all(b["p99"] > NEAR * a["p99"] for a, b in growth)
    words = "More connections wait longer: the" if longer else "The"
    return (
        f"{words} p99 of {low.subject} went from {_value(low, 'p99')} at "
        f"{connections(low.level)} to {duration(high['p99'])} at {high.level:,}"
    )


def cpu(study: Study, scenario: Conditions, level: int) -> str:
    """Return the least and the most CPU per request, and the ratio of the least to its baseline."""
    order = ranked(study.contenders(scenario, level), "cpu")
    words = _ends(order, "cpu", "A request costs {} {} of CPU", ", {} {}", ", {} as much")
    if order and (near := study.baseline_ratio(order[0])):
        close = "as cheap as its baseline, within the accuracy of these runs"
        close = close if near < NEAR else f"at {times(near)} its baseline"
        words += f"; {order[0].subject} is {close}"
    return words


def cpu_growth(study: Study, scenario: Conditions) -> str:
    """Return the server whose CPU per request grew most with the number of connections."""
    growth, between = [], []
    for low, *middle, high in _over_levels(study, scenario, "cpu"):
        growth.append((high["cpu"] / low["cpu"], low, high))
        for point in middle:
            ratio = point["cpu"] / low["cpu"]
            between.append((max(ratio, 1 / ratio), low, point, high))
    if not growth:
        return ""
    ratio, low, high = max(growth, key=lambda g: g[0])
    far, *bend = max(between, key=lambda b: b[0], default=(1.0,))
    if ratio < GROWN and far > GROWN:
        costs = [f"{_value(p, 'cpu')} at {p.level:,}" for p in bend]
        return f"The CPU per request of {bend[0].subject} by connections: {', '.join(costs)}"
    if ratio < GROWN:
        levels = f"from {low.level:,} to {connections(high.level)}"
        return f"No server's CPU per request grew by 10 % {levels}"
    return (
        f"The CPU per request of {low.subject} grew most: {_value(low, 'cpu')} at "
        f"{connections(low.level)}, {_value(high, 'cpu')} at {high.level:,}"
    )


def switches(study: Study, scenario: Conditions, level: int) -> str:
    """Return the most and the fewest context switches per request."""
    points = study.contenders(scenario, level)
    found = [(total, p.subject) for p in points if (total := all_switches(p)) is not None]
    if not found:
        return ""
    (least, low), (most, high) = min(found), max(found)
    words = f"The kernel switched away from {high} {figure(most)} times per request"
    return words + (f", from {low} {figure(least)} times" if len(found) > 1 else "")


def all_switches(point: Point) -> float | None:
    """Return voluntary and involuntary context switches per request, or None if not measured."""
    wanted, forced = point.get("switches_voluntary"), point.get("switches_involuntary")
    return None if wanted is None else wanted + (forced or 0)


def memory(study: Study, scenario: Conditions) -> str:
    """Return the least and the most memory at the reference level."""
    level = study.reference(scenario)
    order = ranked(study.contenders(scenario, level), "memory")
    if not order:
        return ""
    low, high = order[0], order[-1]
    if not study.whole_memory():
        words = f"The largest single process at {connections(level)} was that of "
        return f"{words}{high.subject}, with {_value(high, 'memory')}"
    words = f"At {connections(level)} {low.subject} needed {_value(low, 'memory')}"
    if len(order) > 1 and high["memory"] > NEAR * low["memory"]:
        words += f", {high.subject} {_value(high, 'memory')}"
    return words


# ---- Cautions ----


def cautions(study: Study) -> Iterator[str]:
    """Yield the cautions at the top of the page."""
    points = study.points
    if study.results.state != "complete":
        yield "The sweep was not completed: the results are partial."
    if study.single_run:
        yield "Each data point is a single run: differences below 10 % may be noise."
    if bad := sum(p.state != "held" for p in points):
        yield f"{bad:,} of {len(points):,} data points are invalid; the reasons are below."
    if bounds := sum(p.lower_bound for p in points):
        yield (
            f"In {plural(bounds, 'data point')} the load generator was the limit: those rates are "
            "lower bounds, marked ≥."
        )
    if loud := [p for p in points if p.held and p.disturbed]:
        yield _disturbed(loud, len(points))
    if outliers := sum(p.outliers for p in points):
        yield f"{plural(outliers, 'run')} differed much from the other runs of the data point."


def _disturbed(loud: list[Point], cells: int) -> str:
    worst = max(loud, key=lambda p: p.get("foreign_share") or 0)
    most = percent(worst.get("foreign_share") or 0)
    where = f"{worst.subject} at {connections(worst.level)} ({describe(worst.conditions)})"
    limited = any(p.conditions.quota for p in loud)
    unused = ", so the server could not use up its CPU quota" if limited else ""
    return (
        f"In {len(loud):,} of {plural(cells, 'data point')} other programs used more than "
        f"{percent(QUIET)} of the server's CPU in the median run{unused}; the worst is {where}, "
        f"with {most}. These rates are too low, and CPU per request is affected, too; the table "
        "marks these points as disturbed. Run make doctor, and measure again on a quiet machine."
    )


# ---- The ranking of one scenario, and the recommended servers ----


def ranking_title(study: Study, scenario: Conditions) -> str:
    """Return the first and the last servers of the ranking; empty if there is no ranking."""
    found = ranking.order(study.results, scenario)
    if found is None:
        return ""
    first, *others = ranking.sharing(found.ranked)
    best, last = first[0], found.ranked[-1]
    who, rate = listed(names_of(first)), figure(best.spread.median)
    words = f"{who} {'comes' if len(first) == 1 else 'come'} first: {rate} requests per second"
    if not others:
        words = f"{who} have no significant difference, at up to {rate} requests per second"
    elif best.subject not in last.close_to:
        words += f", {times(best.spread.median / last.spread.median)} as many as {last.subject}"
    where = f"At {connections(found.level)}"
    if found.by == "cpu":
        where += ", by the capacity of a full core (1 / CPU per request)"
    return f"{where}, {words}"


def order_rows(study: Study) -> list[Row]:
    """Return a row for each server of each scenario that has a ranking."""
    return [
        _row(study, found, one, study.keys[scenario])
        for scenario in study.scenarios
        if (found := ranking.order(study.results, scenario))
        for one in found.ranked
    ]


def _row(study: Study, found: ranking.Order, one: ranking.Ranked, key: str) -> Row:
    stops = study.results.stalled_by.get(one.subject) == "one"
    out = f"   {ranking.STALLS['one']}" if stops else ""
    close = f"{one.subject} does not differ significantly from {listed(one.close_to)}, either. "
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
"""A server may use at most this share of the machine's memory; other programs need the rest."""
NOT_KNOWN = (
    "These results do not say which servers a single silent client stops. This fact matters more "
    "than all figures. Measure again with the current version."
)


def recommended(study: Study, scenario: Conditions, level: int) -> Advice | None:
    """Return the recommendation; None if the results allow no ranking. If Redis is delayed, only a
    ranking by measured rates counts, because the capacity of a core ignores waiting."""
    found = ranking.order(study.results, scenario)
    if found is None or (found.by == "cpu" and scenario.redis_delay_ms):
        return None
    if not study.results.stalled_by:
        return Advice("Unknown", NOT_KNOWN)
    names = names_of(found.ranked) + found.without
    out = {name: why for name in names if (why := _against(study, scenario, level, name))}
    ordered = "; ".join(listed(names_of(tie)) for tie in ranking.sharing(found.ranked))
    by = "requests per second" if found.by == "rate" else "the capacity of a full core"
    seen = f" In order: {ordered}, by {by}.{_out_in_words(out)}"
    left = [one for one in found.ranked if one.subject not in out]
    if not left:
        return Advice("None of them", f"Each server is excluded.{seen}")
    *some, last = chosen = [one.subject for one in left if one.place == left[0].place]
    most = "serve most, without a significant difference" if some else "serves most"
    words = f"Of the servers that are not excluded, {listed(chosen)} {most}.{seen}"
    if any(study.results.stalled_by.get(name) == "workers" for name in chosen):
        words += f" Note that {ranking.STALLS['workers']}."
    answer = f"{', '.join(some)} or {last}" if some else last
    if len(chosen) > MOST_NAMED:
        answer = f"{number_word(len(chosen))} of them".capitalize()
    return Advice(answer, words)


def _against(study: Study, scenario: Conditions, level: int, name: str) -> str:
    """Return the reason why a server is excluded; empty if it is not."""
    by = study.results.stalled_by.get(name)
    if by == "one":
        return ranking.STALLS[by]
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
    whole = study.results.machine.memory_bytes
    return min(hosts, default=whole / 1e6 if whole else None)


def _out_in_words(out: Mapping[str, str]) -> str:
    """Return the excluded servers with the reasons, each reason once."""
    by = grouped((why, name) for name, why in out.items())
    said = "; ".join(f"{listed(names)} ({why})" for why, names in by.items())
    return f" Excluded: {said}." if said else ""
