# SPDX-License-Identifier: MIT
"""CPU per request of each server relative to its baseline, in every workload with baselines."""

from typing import NamedTuple

from bench.records.conditions import Conditions
from bench.records.points import Point
from bench.records.words import connections, figure
from bench.report.findings.findings import NEAR, above_floor
from bench.report.study.study import WAITS, Study, workload_name


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


def finding(study: Study) -> str:
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
