# SPDX-License-Identifier: MIT
"""One for everything here: who serves most of those that can be put before clients.

What an engineer would look at first counts first. Out is whom one silent client stops, who stops
holding where others hold, and who needs more than half of the machine's memory. Of the rest the
best is who serves most, in all that was measured: the geometric mean, over the scenarios, of the
ratio between it and the best. Waiting decides between those that the runs cannot tell apart, then
memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean

from bench.readers.compare import NOISE_OF_ONE
from bench.readers.order import STALLS, order, sharing
from bench.records.conditions import Conditions
from bench.records.words import connections, duration, figure, listed, percent, times
from bench.report.findings.answer import Advice, named
from bench.report.findings.findings import told_apart
from bench.report.study.holding import holdings
from bench.report.study.study import Point, Study

QUESTION = "One for everything here?"
MOST_MEMORY = 0.5
"""Of the machine's: the rest is for Redis, for files, for everybody else."""
NOT_KNOWN = (
    "These results do not say whom a single silent client stops, and that comes before all "
    "figures: measure again with today's version."
)


def recommended(study: Study, scenario: Conditions, level: int) -> Advice | None:
    """None where nothing was measured that could be put in order."""
    found = order(study.results, scenario)
    if found is None:
        return None
    if not study.results.stalled_by:
        return Advice(QUESTION, "Not said", NOT_KNOWN, "choose")
    names = [one.subject for one in found.ranked] + found.without
    out = {name: why for name in names if (why := _against(study, scenario, level, name))}
    left = [one.subject for one in found.ranked if one.subject not in out]
    ordered = "; ".join(listed([one.subject for one in tie]) for tie in sharing(found.ranked))
    by = "requests per second" if found.by == "rate" else "what a full core would carry"
    seen = f" In order: {ordered}, by {by}.{_out_in_words(out)}"
    if not left:
        return Advice(QUESTION, "None of them", f"Each is out of the question.{seen}", "choose")
    worse = _worse(study, left)
    if not worse:
        return None
    best = min(worse, key=lambda name: worse[name])
    close = [name for name in worse if worse[name] < worse[best] * (1 + NOISE_OF_ONE)]
    chosen, how = _decided(study, scenario, level, close)
    words = f"{_serves(study, close, worse[best])}{how}.{seen}"
    if any(study.results.stalled_by.get(name) == "workers" for name in chosen):
        words += f" Mind that {STALLS['workers']}."
    return Advice(QUESTION, named(chosen, 0), words, "choose")


def _against(study: Study, scenario: Conditions, level: int, name: str) -> str:
    """Why a server cannot be recommended, whatever its figures; empty if it can."""
    by = study.results.stalled_by.get(name)
    if by == "one":
        return STALLS[by]
    if by is None:
        return "what a silent client does to it is not known"
    held = {h.subject: h for h in holdings(study, scenario) if h.kind != "floor"}
    top = max(h.highest or 0 for h in held.values())
    broken = held[name].broken_at if name in held else None
    if broken is not None and broken <= top:
        return f"does not hold {connections(broken)}"
    point = study.find(name, scenario, level)
    memory, whole = (point.get("memory") if point else None), _memory_of(study)
    if memory and whole and memory > MOST_MEMORY * whole:
        share = percent(memory / whole)
        return f"needs {figure(memory, 'MB')}, {share} of its machine's memory"
    return ""


def _memory_of(study: Study) -> float | None:
    """Of the machine that serves, in megabytes; of several the smallest."""
    hosts = [h.memory_mb for h in study.results.hosts if h.role == "server" and h.memory_mb]
    if hosts:
        return min(hosts)
    whole = study.results.machine.memory_bytes
    return whole / 1e6 if whole else None


def _worse(study: Study, names: Sequence[str]) -> dict[str, float]:
    """How many times as much the best of each scenario serves, on average; 1: always the best. Who
    has no scenario that says it is not in it."""
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for rates in _served(study):
        known = [rates[name] for name in names if name in rates]
        for name in names:
            if name in rates:
                ratios[name].append(max(known) / rates[name])
    return {name: geometric_mean(found) for name, found in ratios.items() if found}


def _served(study: Study) -> Iterator[dict[str, float]]:
    """In each scenario what each server serves; the same for those that share a place. With a
    slower Redis waiting is what counts, and not what a core could carry: only rates will do."""
    for scenario in study.scenarios:
        found = order(study.results, scenario)
        if found and (found.by == "rate" or not scenario.redis_delay_ms):
            ties = sharing(found.ranked)
            yield {one.subject: tie[0].spread.median for tie in ties for one in tie}


def _decided(
    study: Study, scenario: Conditions, level: int, close: Sequence[str]
) -> tuple[Sequence[str], str]:
    """Who of those that cannot be told apart, and by what."""
    points = [p for p in study.contenders(scenario, level) if p.subject.name in close]
    for key, say in (("p99", "the shortest waits"), ("memory", "the least memory")):
        rising = sorted((p for p in points if p.get(key)), key=lambda p: p.get(key) or 0)
        if len(rising) == len(close) > 1 and not told_apart(rising, key)[0]:
            best = rising[0]
            return [best.subject.name], f"; {best.subject.name} has {say}, {_said(best, key)}"
    return close, ""


def _said(point: Point, key: str) -> str:
    value = point.get(key)
    return f"99 % within {duration(value or 0)}" if key == "p99" else figure(value, "MB")


def _serves(study: Study, close: Sequence[str], worse: float) -> str:
    where = "" if len(study.scenarios) == 1 else ", in all that was measured"
    if worse >= 1 + NOISE_OF_ONE:
        return f"No other comes nearer to the best, which serves {times(worse)} as much{where}"
    if len(close) == 1:
        return f"Of those that can be put before clients {close[0]} serves most{where}"
    few = f"serve most{where}, and are too close to choose by that"
    return f"Of those that can be put before clients {listed(close)} {few}"


def _out_in_words(out: Mapping[str, str]) -> str:
    """Who cannot be recommended, each reason once."""
    by: dict[str, list[str]] = {}
    for name, why in out.items():
        by.setdefault(why, []).append(name)
    said = "; ".join(f"{listed(names)} ({why})" for why, names in by.items())
    return f" Out: {said}." if said else ""
