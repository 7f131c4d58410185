# SPDX-License-Identifier: MIT
"""The data that the charts share: a row for each cell, and what is worked out from them."""

import csv
from pathlib import Path

from bench.records.conditions import Conditions
from bench.records.figures import HostFigures
from bench.records.words import figure, percent
from bench.report.findings import ordering
from bench.report.findings.findings import all_switches
from bench.report.study import across, hosts
from bench.report.study.metrics import METRICS
from bench.report.study.scaling import scalings
from bench.report.study.study import Point, Row, Study

CURVE_STEPS = 60


def all_rows(study: Study) -> dict[str, list[Row]]:
    """The data of most charts by the names by which these refer to them."""
    curves, points = law_rows(study)
    return {
        "cells": cell_rows(study),
        "paper": paper_rows(study),
        "law": curves,
        "law_points": points,
        "loops": [row._asdict() for row in across.loop_rows(study)],
        "hosts": hosts.host_rows(study),
        "order": ordering.order_rows(study),
    }


def cell_rows(study: Study) -> list[Row]:
    """A row for each cell of the scenarios that can be chosen."""
    keys = study.keys
    return [
        cell_row(study, point, keys[point.scenario], number)
        for number, point in enumerate(study.points)
        if point.scenario in study.scenarios
    ]


def cell_row(study: Study, point: Point, key: str, number: int) -> Row:
    """One cell. Figures that were not measured are left out, spreads of nothing too."""
    row: Row = {
        "id": number,
        "s": key,
        "subject": point.subject.name,
        "kind": point.subject.kind,
        "level": point.level,
        "status": status_of(point),
        "bound": point.lower_bound,
        "runs": point.runs,
        "outliers": point.outliers,
        # A curve has a gap where a cell has no figure; without this key it would run across.
        "rate": None,
    }
    limit = hosts.limit_words(point)
    if limit and point.bottleneck != "none":
        row["limit"] = limit
    if point.hosts:
        row["hosts"] = [_host(host) for host in point.hosts]
    if point.reason:
        row |= {"label": point.reason.label, "reason": point.reason.text}
    for metric in METRICS:
        spread = point.figures.get(metric.key)
        if spread:
            row[metric.key] = _short(spread.median)
            if spread.low < spread.high:
                row[f"{metric.key}_low"] = _short(spread.low)
                row[f"{metric.key}_high"] = _short(spread.high)
    switches = all_switches(point)
    if switches is not None:
        row |= {"switches": _short(switches), "switches_said": figure(switches)}
    return row | _floor_of(study, point)


def _host(host: HostFigures) -> list[str]:
    """A host for the tooltip: its name, its CPU and what else is worth a word."""
    words = [percent(host.cpu_share)]
    if host.throttled_share:
        words.append(f"throttled {percent(host.throttled_share)}")
    return [hosts.label(host.role, host.name), ", ".join([*words, *hosts.trouble(host)])]


def _floor_of(study: Study, point: Point) -> Row:
    cpu, ratio = point.get("cpu"), study.floor_ratio(point)
    if cpu is None:
        return {}
    said = figure(cpu, "µs")
    if ratio is None:
        return {"cpu_said": said}
    beside = f"{said} = {ratio:.1f}\N{MULTIPLICATION SIGN} floor"
    return {"cpu_said": beside, "floor_cpu": _short(cpu / ratio), "floor_ratio": round(ratio, 2)}


def status_of(point: Point) -> str:
    """What became of a cell, in the words of the strip's legend."""
    if point.state != "held":
        return point.state
    if point.lower_bound:
        return "load generator"
    known = {"server": "server", "load": "load generator", "redis": "Redis", "nginx": "nginx"}
    return known.get(point.bottleneck or "", "held")


def paper_rows(study: Study) -> list[Row]:
    """The curves of 2019 under each scenario that they can stand behind, as published and scaled
    so that their best is as high as the best of the same architectures here."""
    rows: list[Row] = []
    published = curves_of_2019()
    for scenario, key in study.keys.items():
        # What was measured then: a guestbook, a connection for each request.
        if scenario != Conditions("guestbook") or scenario not in study.scenarios:
            continue
        names = {point.subject.name for point in study.of(scenario)}
        there = [curve for curve in published if curve[0] in names]
        then = {name for name, _, _ in there}
        same = [p for p in study.contenders(scenario) if p.subject.name in then]
        here = [p.get("rate") or 0.0 for p in same]
        if not there or not here:
            continue
        scale = max(here) / max(rate for _, _, rate in there)
        rows += [
            {"s": key, "subject": n, "level": level, "then": rate, "scaled": _short(rate * scale)}
            for n, level, rate in there
        ]
    return rows


def law_rows(study: Study) -> tuple[list[Row], list[Row]]:
    """The fitted curves, and the measured points with their residuals."""
    curves: list[Row] = []
    points: list[Row] = []
    keys = study.keys
    for scenario in study.scenarios:
        for found in scalings(study, scenario):
            if found.fit is None:
                continue
            same: Row = {"s": keys[scenario], "subject": found.subject}
            low, high = min(found.fit.levels), max(found.fit.levels)
            for step in range(CURVE_STEPS + 1):
                level = low * (high / low) ** (step / CURVE_STEPS)
                curves.append({**same, "level": _short(level), "rate": _short(found.fit.at(level))})
            for level, residual in zip(found.fit.levels, found.fit.residuals, strict=True):
                rate = found.fit.at(level) / (1 - residual)
                row: Row = {"level": level, "rate": _short(rate), "residual": round(residual, 4)}
                points.append(same | row)
    return curves, points


def _short(value: float) -> float:
    """Five digits are more than any of these figures has; the page gets smaller."""
    return float(f"{value:.5g}")


# ---- The curves of 2019: the published figures of the same seven architectures ----

FILE = Path(__file__).resolve().parents[2] / "figures" / "zerohttpd-2019.csv"


def curves_of_2019() -> list[tuple[str, int, float]]:
    """(architecture, connections, requests per second); what has no steady figure is left out."""
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (name, int(row["concurrency"]), float(value))
        for row in rows
        for name, value in row.items()
        if name != "concurrency" and value.replace(".", "", 1).isdigit()
    ]
