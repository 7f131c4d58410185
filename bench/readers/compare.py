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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console
from rich.markup import escape

from bench.readers.console import Table, say
from bench.records import store
from bench.records.conditions import ASPECTS, CellKey
from bench.records.figures import QUIET
from bench.records.points import Point, Spread, data_points, ratios, verdict
from bench.records.results import Results
from bench.records.words import listed, of_a_core, plural

Verdict = Literal["same", "better", "worse", "disturbed", "bound", "changed", "new", "gone"]

NO_CHANGE: set[Verdict | None] = {None, "same", "bound"}


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
    loud = sum(any(side and side.disturbed for side in (c.before, c.after)) for c in found)
    out.print(_table(found))
    for line in (*_summary(found, loud), *unmatched(found)):
        say(out, line)
    return int(any({c.rate, c.cpu} - NO_CHANGE for c in found))


def _summary(found: Sequence[Change], loud: int) -> Iterator[str]:
    rates, costs = Counter(c.rate for c in found), Counter(c.cpu for c in found)
    yield (
        f"{plural(len(found), 'data point')}: {rates['better']} better, {rates['worse']} worse "
        f"beyond noise, {rates['changed'] + rates['new'] + rates['gone']} valid in one sweep only; "
        f"CPU/request: {costs['better']} better, {costs['worse']} worse"
    )
    baselines = [c for c in found if c.key.is_baseline and c.before and c.after]
    if baselines:
        yield "CPU/request was compared as its ratio to the baseline, if there is a baseline."
    elif costs["better"] or costs["worse"]:
        yield (
            "The server or the whole machine may have changed. With --baselines in both sweeps, "
            "CPU/request is divided by that of the baseline, whose program never changes."
        )
    if loud:
        yield (
            f"In {plural(loud, 'data point')} other programs used more than {QUIET:.0%} of the "
            "server's CPU. Measure again on a quiet machine (make doctor)."
        )


def unmatched(found: Sequence[Change]) -> Iterator[str]:
    """Yield lines about data points that only one sweep has: the differences of the sweeps and, if
    their quotas differ, how to compare them. No lines if both sweeps have all data points."""
    before = {change.key: _what(change.key) for change in found if change.before}
    after = {change.key: _what(change.key) for change in found if change.after}
    if before.keys() == after.keys():
        return
    lost = f"{len(before.keys() ^ after.keys()):,} of {plural(len(found), 'data point')}"
    alone = {name: (was, now) for name, was, now in _alone(before.values(), after.values())}
    why = ". Values in one sweep only:" if alone else ": the combinations of values differ."
    both = before.keys() & after.keys()
    yield f"{f'{lost} are in one sweep only' if both else 'No data point is in both'}{why}"
    for name, sides in alone.items():
        pairs = zip(sides, ("before", "after"), strict=True)
        yield f"  {name}: {'; '.join(f'{listed(one)} {when}' for one, when in pairs if one)}"
    was, now = alone.get("--quota", ([], []))
    if was and now:
        yield (
            f"Servers had {_shares(was)} BEFORE, {_shares(now)} AFTER. To compare with BEFORE, "
            f"sweep with --quota {','.join(was)}; with AFTER, sweep with --quota {','.join(now)}."
        )


def _what(key: CellKey) -> dict[str, str]:
    """Return the properties of a configuration by name; a condition is named by its option. The
    mode "open" is returned as "closed", because --rate implies "open"."""
    mode = key.conditions.mode
    conditions = key.conditions._replace(mode="closed" if mode == "open" else mode)
    asked = {one.option: one.word(getattr(conditions, one.name)) for one in ASPECTS}
    which = {"subject": key.subject, "connections": f"{key.concurrency:,}"}
    return {**which, "workload": key.conditions.workload, **asked}


def _alone(
    before: Collection[dict[str, str]], after: Collection[dict[str, str]]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each property with values in one sweep only: name, those values of both sweeps."""
    for name in next(iter([*before, *after])):
        was, now = (dict.fromkeys(cell[name] for cell in side) for side in (before, after))
        if was.keys() != now.keys():
            yield name, [x for x in was if x not in now], [x for x in now if x not in was]


def _shares(quotas: Sequence[str]) -> str:
    return listed([of_a_core(float(quota) / 100) for quota in quotas])


def changes(old: Results, new: Results) -> list[Change]:
    """Return every data point of both sweeps; the newer sweep's data points come first."""
    before, after = data_points(old), data_points(new)
    found = []
    for key in dict.fromkeys([*after, *before]):
        was, now = before.get(key), after.get(key)
        rate = _rate_verdict(was, now)
        cpu = None if key.is_baseline else _cpu_verdict(key, before, after)
        if any(side and side.disturbed for side in (was, now)):
            rate, cpu = _doubtful(rate), cpu and _doubtful(cpu)
        found.append(Change(key, was, now, rate, cpu))
    return found


def _doubtful(found: Verdict) -> Verdict:
    return "disturbed" if found in ("better", "worse", "same", "bound") else found


def differences(old: Results, new: Results) -> list[str]:
    """Return lines about other differences of two sweeps, e.g. in machines and versions."""
    before, after = old.circumstances(), new.circumstances()
    pairs = [
        *((name, before[name], after[name]) for name in before if name in after),
        ("placement", old.placement and old.placement.note, new.placement and new.placement.note),
        ("hosts", _hosts(old), _hosts(new)),
        ("commit", _commit(old), _commit(new)),
        *_requests(old, new),
        ("runs", old.settings.runs, new.settings.runs),
        ("redis", old.settings.redis, new.settings.redis),
    ]
    return [f"{name}: {a} before, {b} after" for name, a, b in pairs if a != b]


def _requests(old: Results, new: Results) -> Iterator[tuple[str, object, object]]:
    """Yield the numbers of requests that differ for the same configuration."""
    before, after = ({run.key: run.requests for run in of.runs} for of in (old, new))
    others = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    if others:
        sides = (sorted({of[key] for key in others}) for of in (before, after))
        was, now = (", ".join(f"{number:,}" for number in side) for side in sides)
        yield "requests of a run", was, now


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


def _hosts(of: Results) -> str:
    found = []
    for host in of.hosts:
        limit = f", {host.cpu_limit:.0%}" if host.cpu_limit else ""
        found.append(f"{host.name} ({plural(host.cpus, 'CPU')}{limit})")
    return ", ".join(found) or "one machine"


def _commit(of: Results) -> str | None:
    return of.versions.git.commit[:12] if of.versions.git else None


STYLE: dict[Verdict, str] = {
    **dict.fromkeys(("disturbed", "bound", "changed"), "yellow"),
    **dict.fromkeys(("new", "gone"), "cyan"),
    "better": "green",
    "worse": "red",
}


def _table(found: Sequence[Change]) -> Table:
    figures = ("before /s", "after /s", "change", "verdict", "CPU/request")
    table = Table("<conditions", "<server", "<clients", *figures)
    for change in found:
        key, style = change.key, STYLE.get(change.rate)
        before, after = _value(change.before), _value(change.after)
        table.add_row(
            escape(key.conditions.describe()),
            escape(key.subject),
            f"{key.concurrency:,}",
            _figure(change.before),
            _figure(change.after),
            f"{after / before - 1:+.1%}" if before and after else "",
            f"[{style}]{change.rate}[/]" if style else change.rate,
            change.cpu or "",
        )
    return table


def _figure(point: Point | None) -> str:
    if point is None:
        return ""
    if (rate := point.get("rate")) is not None:
        return f"{'>' if point.lower_bound else ''}{rate:,.0f}"
    if (cost := _value(point)) is not None:
        return f"{cost:,.0f} bytes" if point.conditions.asks_once else f"{cost:.2f} calls"
    return escape(point.reason.label) if point.reason else point.state


def _value(point: Point | None) -> float | None:
    return (point.get("rate") or point.get("probed")) if point else None
