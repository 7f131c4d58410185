# SPDX-License-Identifier: MIT
"""The titles of the charts that compare scenarios, and the ratios to the baselines in each
workload. Pure functions; see `findings`."""

from collections.abc import Sequence
from typing import NamedTuple

from bench.records.conditions import Conditions
from bench.records.metrics import BY_KEY
from bench.records.points import Point
from bench.records.words import connections, duration, figure, listed, times, upper_first
from bench.report.findings.findings import EACH_AT_LIMIT, NEAR, above_floor, share_left
from bench.report.study.across import Contrast, LoopRow, Shift, loop_rows
from bench.report.study.study import WAITS, WAYS, Study, workload_name


class FloorRow(NamedTuple):
    """A server compared with its baseline in one workload."""

    subject: str
    workload: str
    """The result of `column`."""
    ratio: float
    ratio_said: str
    said: str


def measured(study: Study) -> list[tuple[Conditions, list[tuple[float, Point]]]]:
    """Return the workloads with baselines (least waiting first) and the ratio of each server, at
    the level with the most ratios (the highest such level)."""
    found = []
    for scenario in study.scenarios:
        if scenario._replace(workload="", keep_alive=False) != study.usual:
            continue
        by_level = {level: _ratios(study, scenario, level) for level in study.levels(scenario)}
        level = max(by_level, key=lambda n: (len(by_level[n]), n), default=0)
        if by_level.get(level):
            found.append((scenario, by_level[level]))
    return sorted(found, key=lambda f: (WAITS.get(f[0].workload, 0), f[0].keep_alive))


def _ratios(study: Study, scenario: Conditions, level: int) -> list[tuple[float, Point]]:
    points = study.contenders(scenario, level)
    return [(ratio, point) for point in points if (ratio := study.floor_ratio(point))]


def column(scenario: Conditions) -> str:
    """Return the column heading of a workload."""
    return workload_name(scenario.workload) + (", kept" if scenario.keep_alive else "")


def floor_rows(study: Study) -> list[FloorRow]:
    """Return a row for each server in each workload."""
    rows = []
    for scenario, ratios in measured(study):
        for ratio, point in ratios:
            cpu = point.get("cpu") or 0.0
            said = f"{point.subject}, {column(scenario)}: {figure(cpu, 'µs')} of CPU per "
            said += (
                f"request, its baseline {figure(cpu / ratio, 'µs')}, at {connections(point.level)}"
            )
            much = f"{ratio:.1f}\N{MULTIPLICATION SIGN}"
            rows.append(FloorRow(point.subject, column(scenario), round(ratio, 3), much, said))
    return rows


def floors_title(study: Study) -> str:
    """Return the lowest and the highest ratio to the baseline, with their workloads."""
    every = [(ratio, p, s) for s, ratios in measured(study) for ratio, p in ratios]
    if not every:
        return ""
    near, far = min(every, key=lambda e: e[0]), max(every, key=lambda e: e[0])
    words = f"In CPU per request {_placed(near)}"
    return words + (f", {_placed(far)}" if far[0] >= NEAR * near[0] else "")


def _placed(found: tuple[float, Point, Conditions]) -> str:
    ratio, point, scenario = found
    where = f"{column(scenario)}, {connections(point.level)}"
    return f"{point.subject} is {above_floor(ratio)} ({where})"


def title(found: Contrast, names: Sequence[str], axis: str) -> str:
    """Return the effect of the change from the first condition to the last, and the level.
    `axis` is the changed condition, for a title without an effect."""
    told = comparison(found, names) or upper_first(f"{BY_KEY[found.metric].label} by {axis}")
    about = f"{found.about}, " if found.about else ""
    return f"{told} ({about}{connections(found.level)})"


def comparison(found: Contrast, names: Sequence[str]) -> str:
    """Return the smallest and the largest effect of the change, with their servers."""
    changes = found.changes(names)
    if found.ends is None or not changes:
        return ""
    first, last = found.ends
    what = {
        "workloads": f"{workload_name(last)} in place of {workload_name(first)}",
        "delays": f"{last} ms{found.instead} of delay in each reply of Redis",
        "idles": f"{int(last):,} idle connections{found.instead}" if last.isdigit() else last,
    }[found.key]
    if found.metric != "cpu":
        return _left(upper_first(what), changes)
    ranked = sorted((change.ratio, name) for name, change in changes.items())
    (less, least), (more, most) = ranked[0], ranked[-1]
    if len(changes) > 1 and more < NEAR * less:
        return f"With {what} a request costs each of them {times(more)} as much CPU"
    words = f"With {what} a request costs {most} {times(more)} as much CPU"
    return words + (f", {least} {times(less)}" if least != most else "")


def _left(what: str, changes: dict[str, Shift]) -> str:
    """Return the remaining shares of the rates."""
    known = sorted((c.ratio, name, c.at_least) for name, c in changes.items() if not c.unknown)
    unknown = [name for name, change in changes.items() if change.unknown]
    if not known:
        words = f"{what}: the remaining share of the rates is unknown"
        return f"{words}; without that {EACH_AT_LIMIT}"
    exact = [found for found in known if not found[2]]
    (less, most, less_bound), (more, least, more_bound) = (exact or known)[0], known[-1]
    if len(exact) == len(changes) > 1 and more < NEAR * less:
        return f"{what} left each of them {share_left(less)} of its rate"
    words = f"{what} left {least} {share_left(more, more_bound)} of its rate"
    words += f", {most} {share_left(less, less_bound)}" if most != least else ""
    return words + (f"; unknown for {listed(unknown)}" if unknown else "")


def loops(study: Study, scenario: Conditions) -> str:
    """Return the title of the chart of the loops; empty if it has no rows."""
    rows = [row for row in loop_rows(study) if row.s == study.keys[scenario]]
    return between_loops(rows) if rows else ""


def between_loops(rows: Sequence[LoopRow]) -> str:
    """Return the largest ratio of the open loop's p99 to the closed loop's."""
    ways: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        ways.setdefault((row.subject, row.asked), {})[row.way] = row.p99
    closed_loop, _, from_due = WAYS
    found = [
        (by[from_due] / by[closed_loop], key, by)
        for key, by in ways.items()
        if by.get(closed_loop) and from_due in by
    ]
    if not found:
        return "Latency at a constant rate, independent of the server"
    ratio, (who, rate), by = max(found, key=lambda f: f[0])
    closed, due = by[closed_loop], by[from_due]
    if ratio < NEAR:
        return (
            f"At {rate} 99 % of {who}'s responses came within {duration(due)} of their due time; "
            f"in the closed loop, at full load, within {duration(closed)}"
        )
    return (
        f"The closed loop says {duration(closed)} for {who} (p99), the open loop at {rate} "
        f"{duration(due)}: {times(ratio)} as long"
    )
