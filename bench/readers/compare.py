# SPDX-License-Identifier: MIT
"""Compare two sweeps: the changes that exceed the noise, and other differences.

A data point has changed if its ranges in the two sweeps do not overlap and its medians differ by
more than the wider range and more than 3 %. If a sweep has a single run, the medians must differ by
more than 10 %.

A data point is disturbed if other programs or virtual machines used much of the server's CPU. A
disturbance may cause or hide a change. The whole machine may also have become slower, which results
do not show. But a slow machine affects a server and its baseline equally. So if both sweeps have
baselines, the ratios of server to baseline are compared instead of CPU times.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console

from bench.readers.console import Field, Table, say
from bench.records import store
from bench.records.conditions import ASPECTS, BY_NAME, CellKey
from bench.records.environment import HostInfo
from bench.records.figures import QUIET
from bench.records.points import Point, Spread, data_points, ratios, verdict
from bench.records.results import Results
from bench.records.words import listed, of_a_core, plural

Verdict = Literal["same", "better", "worse", "disturbed", "bound", "changed", "new", "gone"]

NO_CHANGE: set[Verdict | None] = {None, "same", "bound"}
DOUBTFUL = ("better", "worse", "same", "bound")
"""The verdicts that a disturbance may cause or hide."""


class Change(NamedTuple):
    """A data point of two sweeps. `before` or `after` is None if that sweep does not have it."""

    key: CellKey
    before: Point | None
    after: Point | None
    rate: Verdict
    """The comparison of the requests per second, or of a probe's figure. `bound`: the load
    generator's limit hides a change; `changed`: the states differ, e.g. valid and failed."""
    cpu: Verdict | None
    """The comparison of the CPU time per request. None: the server is a baseline, or a
    sweep lacks the time."""


def compare(before: Path, after: Path, out: Console) -> int:
    """Print the comparison. Return 0 if nothing changed beyond noise, 1 if something changed or a
    data point is disturbed. Raises UserError."""
    old, new = store.load(before), store.load(after)
    for line in differences(old, new):
        say(out, line)
    found = changes(old, new)
    out.print(_table(found))
    for line in (*_summary(found), *unmatched(found)):
        say(out, line)
    return int(any({c.rate, c.cpu} - NO_CHANGE for c in found))


def _summary(found: Sequence[Change]) -> Iterator[str]:
    rates, costs = Counter(c.rate for c in found), Counter(c.cpu for c in found)
    yield (
        f"{plural(len(found), 'data point')}: {rates['better']} better, {rates['worse']} worse "
        f"beyond noise, {rates['changed'] + rates['new'] + rates['gone']} valid in one sweep only; "
        f"CPU/request: {costs['better']} better, {costs['worse']} worse"
    )
    if any(c.key.is_baseline and c.before and c.after for c in found):
        yield "CPU/request was compared as its ratio to the baseline, if there is a baseline."
    elif costs["better"] or costs["worse"]:
        yield (
            "The server or the whole machine may have changed. With --baselines in both sweeps, "
            "CPU/request is divided by that of the baseline, whose program never changes."
        )
    if loud := sum(_disturbed(c.before, c.after) for c in found):
        yield (
            f"In {plural(loud, 'data point')} other programs used more than {QUIET:.0%} of the "
            "server's CPU. Measure again on a quiet machine (make doctor)."
        )


def unmatched(found: Sequence[Change]) -> Iterator[str]:
    """Yield lines about data points that only one sweep has: the differences of the sweeps and, if
    their quotas differ, how to compare them. No lines if both sweeps have all data points."""
    lost = sum(not (change.before and change.after) for change in found)
    if not lost:
        return
    before = [_properties(change.key) for change in found if change.before]
    after = [_properties(change.key) for change in found if change.after]
    alone: dict[str, tuple[list[str], list[str]]] = {}
    for name in _properties(found[0].key):
        was, now = (list(dict.fromkeys(cell[name] for cell in side)) for side in (before, after))
        if set(was) != set(now):
            alone[name] = [x for x in was if x not in now], [x for x in now if x not in was]
    where = f"{lost:,} of {plural(len(found), 'data point')} are in one sweep only"
    where = where if lost < len(found) else "No data point is in both"
    yield where + (
        ". Values in one sweep only:" if alone else ": the combinations of values differ."
    )
    for name, sides in alone.items():
        pairs = zip(sides, ("before", "after"), strict=True)
        yield f"  {name}: {'; '.join(f'{listed(one)} {when}' for one, when in pairs if one)}"
    was, now = alone.get("--quota", ([], []))
    if was and now:
        had, have = (listed([of_a_core(float(q) / 100) for q in side]) for side in (was, now))
        yield (
            f"Servers had {had} BEFORE, {have} AFTER. To compare with BEFORE, sweep with --quota "
            f"{','.join(was)}; with AFTER, sweep with --quota {','.join(now)}."
        )


def _properties(key: CellKey) -> dict[str, str]:
    """Return the properties of a configuration by name; a condition is named by its option. The
    mode "open" is returned as "closed", because --rate implies "open"."""
    words = {one.option: one.word(getattr(key.conditions, one.name)) for one in ASPECTS}
    if key.conditions.mode == "open":
        words[BY_NAME["mode"].option] = "closed"
    which = {"subject": key.subject, "connections": f"{key.concurrency:,}"}
    return {**which, "workload": key.conditions.workload, **words}


def changes(old: Results, new: Results) -> list[Change]:
    """Return every data point of both sweeps; the newer sweep's data points come first."""
    before, after = data_points(old), data_points(new)
    found = []
    for key in dict.fromkeys([*after, *before]):
        was, now = before.get(key), after.get(key)
        rate = _rate_verdict(was, now)
        cpu = None if key.is_baseline else _cpu_verdict(key, before, after)
        if _disturbed(was, now):
            rate = "disturbed" if rate in DOUBTFUL else rate
            cpu = "disturbed" if cpu in DOUBTFUL else cpu
        found.append(Change(key, was, now, rate, cpu))
    return found


def _disturbed(*sides: Point | None) -> bool:
    return any(side and side.disturbed for side in sides)


def differences(old: Results, new: Results) -> list[str]:
    """Return lines about other differences of two sweeps, e.g. in machines and versions."""
    facts = ((old.circumstances(), new.circumstances()), (_setup(old), _setup(new)))
    pairs = [(name, was[name], now[name]) for was, now in facts for name in was if name in now]
    before, after = ({run.key: run.requests for run in of.runs} for of in (old, new))
    others = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    sides = (sorted({of[key] for key in others}) for of in (before, after))
    asked, asks = (", ".join(f"{number:,}" for number in side) for side in sides)
    pairs.append(("requests of a run", asked, asks))
    return [f"{name}: {a} before, {b} after" for name, a, b in pairs if a != b]


def _setup(of: Results) -> dict[str, object]:
    """Return further facts that affect the figures of a sweep, by name."""
    return {
        "placement": of.placement and of.placement.note,
        "hosts": ", ".join(map(_host, of.hosts)) or "one machine",
        "commit": of.versions.git and of.versions.git.commit[:12],
        "runs": of.settings.runs,
        "redis": of.settings.redis,
    }


def _rate_verdict(before: Point | None, after: Point | None) -> Verdict:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if probed := verdict(before.of_all("probed"), after.of_all("probed"), "probed"):
        return probed
    found = verdict(before.spread("rate"), after.spread("rate"))
    if found is None:
        return "same" if before.state == after.state else "changed"
    # The true rate may be higher than a lower bound, so only some changes are certain.
    if (found != "worse" and before.lower_bound) or (found != "better" and after.lower_bound):
        return "bound"
    return found


def _cpu_verdict(
    key: CellKey, before: Mapping[CellKey, Point], after: Mapping[CellKey, Point]
) -> Verdict | None:
    """Return the verdict on the ratios to the baseline if each run of both has such a ratio;
    otherwise the verdict on CPU per request. None if a sweep lacks the figure."""
    sides = [(of.get(key), of.get(key.baseline)) for of in (before, after)]
    costs = [point.by_run("cpu_load") if point else {} for point, _ in sides]
    over = [ratios(*pair, "cpu_load") for pair in sides]
    whole = all(map(len, over)) and [*map(len, over)] == [*map(len, costs)]
    was, now = ([*side.values()] for side in (over if whole else costs))
    return verdict(Spread.of(was), Spread.of(now), "cpu_load") if was and now else None


def _host(host: HostInfo) -> str:
    limit = f", {host.cpu_limit:.0%}" if host.cpu_limit else ""
    return f"{host.name} ({plural(host.cpus, 'CPU')}{limit})"


STYLE: dict[Verdict, str] = {
    **dict.fromkeys(("disturbed", "bound", "changed"), "yellow"),
    **dict.fromkeys(("new", "gone"), "cyan"),
    "better": "green",
    "worse": "red",
}


def _table(found: Sequence[Change]) -> Table:
    figures = ("before /s", "after /s", "change", "verdict", "CPU/request")
    table = Table("<conditions", "<server", "<clients", *figures)
    for key, before, after, rate, cpu in found:
        (was, was_text), (now, now_text) = _figure(before), _figure(after)
        table.add_row(
            Field(key.conditions.describe()),
            Field(key.subject),
            f"{key.concurrency:,}",
            Field(was_text),
            Field(now_text),
            f"{now / was - 1:+.1%}" if was and now else "",
            Field(rate, style=STYLE.get(rate, "")),
            cpu or "",
        )
    return table


def _figure(point: Point | None) -> tuple[float | None, str]:
    """Return a data point's rate or its probe's figure, and its text or the reason for None."""
    if point is None:
        return None, ""
    if (rate := point.get("rate")) is not None:
        return rate, f"{'>' if point.lower_bound else ''}{rate:,.0f}"
    if (cost := point.get("probed")) is not None:
        return cost, f"{cost:,.0f} bytes" if point.conditions.asks_once else f"{cost:.2f} calls"
    return None, point.reason.label if point.reason else point.state
