# SPDX-License-Identifier: MIT
"""The data that the charts share: mainly a row for each data point."""

import csv
from pathlib import Path

from bench.records.conditions import Conditions
from bench.records.figures import HostFigures
from bench.records.points import METRICS, Point
from bench.records.words import figure, percent
from bench.report import across, limits
from bench.report.findings import all_switches, order_rows
from bench.report.study import Row, Study


def all_rows(study: Study) -> dict[str, list[Row]]:
    """Return the data of most charts, by the data's names in the charts."""
    return {
        "cells": [
            cell_row(study, point, number)
            for number, point in enumerate(study.points)
            if point.conditions in study.scenarios
        ],
        "paper": paper_rows(study),
        "loops": across.loop_rows(study),
        "hosts": [*limits.host_rows(study)],
        "order": order_rows(study),
    }


def cell_row(study: Study, point: Point, number: int) -> Row:
    """Return the row of one data point, without unmeasured figures and empty spreads."""
    row: Row = {
        "id": number,
        "s": study.keys[point.conditions],
        "subject": point.subject,
        "kind": point.kind,
        "level": point.level,
        "status": status_of(point),
        "bound": point.lower_bound,
        "runs": len(point.runs),
        "outliers": point.outliers,
        # Without this key, a curve would have no gap at a data point without a figure.
        "rate": None,
    }
    limit = limits.limit_words(point)
    if limit and point.bottleneck != "none":
        row["limit"] = limit
    if point.hosts:
        row["hosts"] = [_host(host) for host in point.hosts]
    if point.reason:
        row |= {"label": point.reason.label, "reason": point.reason.text}
    for metric in METRICS:
        spread = point.spread(metric.key)
        if spread:
            row[metric.key] = _short(spread.median)
            if spread.low < spread.high:
                row[f"{metric.key}_low"] = _short(spread.low)
                row[f"{metric.key}_high"] = _short(spread.high)
    switches = all_switches(point)
    if switches is not None:
        row |= {"switches": _short(switches), "switches_said": figure(switches)}
    return row | _baseline_of(study, point) | across.family_row(study, point)


def _host(host: HostFigures) -> list[str]:
    """Return a host for the tooltip: its name, its CPU, throttling and TCP problems."""
    words = [percent(host.cpu_share)]
    if host.throttled_share:
        words.append(f"throttled {percent(host.throttled_share)}")
    return [limits.label(host.role, host.name), ", ".join([*words, *limits.problems(host)])]


def _baseline_of(study: Study, point: Point) -> Row:
    cpu, ratio = point.get("cpu"), study.baseline_ratio(point)
    if cpu is None:
        return {}
    if ratio is None:
        return {"cpu_said": figure(cpu, "µs")}
    return {
        "cpu_said": f"{figure(cpu, 'µs')}, {ratio:.1f}\N{MULTIPLICATION SIGN} baseline",
        "baseline_cpu": _short(cpu / ratio),
        "baseline_ratio": round(ratio, 2),
    }


STATUS = {
    "server": ("@server", "", "valid, server at its limit"),
    "held": ("@held", "", "valid"),
    "load generator": ("@load", "≥", "valid, load generator at its limit"),
    "Redis": ("@redis", "R", "valid, Redis at its limit"),
    "nginx": ("@nginx", "N", "valid, nginx at its limit"),
    "failed": ("@failed", "×", "failed"),
    "skipped": ("@skipped", "–", "not tried"),
}
"""The colour, the sign (for readers without colours) and the words of each status."""


def status_of(point: Point) -> str:
    """Return the status of a data point, a key of STATUS."""
    if point.state != "held":
        return point.state
    if point.lower_bound:
        return "load generator"
    return limits.NAMES.get(point.bottleneck or "", "held")


def paper_rows(study: Study) -> list[Row]:
    """Return the curves of 2019 for the guestbook, as published and scaled to the highest rate of
    the same architectures in these results."""
    scenario = Conditions("guestbook")  # with a connection for each request
    if scenario not in study.scenarios:
        return []
    names = {point.subject for point in study.of(scenario)}
    there = [curve for curve in curves_of_2019() if curve[0] in names]
    then = {name for name, _, _ in there}
    here = [point["rate"] for point in study.contenders(scenario) if point.subject in then]
    if not here:
        return []
    key, scale = study.keys[scenario], max(here) / max(rate for _, _, rate in there)
    return [
        {"s": key, "subject": n, "level": level, "then": rate, "scaled": _short(rate * scale)}
        for n, level, rate in there
    ]


def _short(value: float) -> float:
    """Return a value with five significant digits, which makes the page smaller."""
    return float(f"{value:.5g}")


# ---- The curves of 2019: the published figures of the same seven architectures ----

FILE = Path(__file__).resolve().parents[2] / "figures" / "zerohttpd-2019.csv"


def curves_of_2019() -> list[tuple[str, int, float]]:
    """Return (architecture, connections, requests per second) for each published number. Other
    fields of the file are empty or `varies`."""
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (name, int(row["concurrency"]), float(value))
        for row in rows
        for name, value in row.items()
        if name != "concurrency" and value.replace(".", "", 1).isdigit()
    ]
