# SPDX-License-Identifier: MIT
"""The data points as JSON, CSV and Markdown, and as the table of all figures on the page.
docs/reference/record-format.md describes the columns."""

import html
import json
from dataclasses import dataclass, field
from urllib.parse import quote

from bench.readers.console import Table
from bench.records.figures import HostFigures
from bench.records.metrics import BY_KEY, METRICS, Metric
from bench.records.points import HOST_FIGURES, Point
from bench.records.store import csv_of
from bench.records.words import figure, percent
from bench.report.charts.base import Catalogue
from bench.report.charts.rows import status_of
from bench.report.study import hosts
from bench.report.study.study import Row, Study, describe

FIGURES = (
    *("rate", "p50", "p90", "p99", "p999", "max", "cpu", "cpu_user", "cpu_system"),
    *("switches_voluntary", "switches_involuntary", "memory", "threads", "processes"),
    *("descriptors", "overflows", "drops", "foreign_share", "cpu_share"),
    *("load_share", "redis_share", "nginx_share"),
)
SPREAD_OF = frozenset({"rate", "p50", "p99", "cpu", "memory"})


@dataclass(frozen=True)
class Column:
    """The heading of a column."""

    label: str
    unit: str = ""
    about: str = ""


@dataclass(frozen=True)
class TableCell:
    """One field of the table. `sort` is its sort key; an empty key sorts last."""

    text: str
    sort: str | float = ""
    small: str = ""
    title: str = ""


@dataclass(frozen=True)
class TableRow:
    """The row of one data point."""

    s: str
    subject: str
    failed: bool
    cells: list[TableCell] = field(default_factory=list)


def part(study: Study, _: Catalogue) -> dict[str, object]:
    """Return the table, and the exports for download from the page."""
    files = (
        ("CSV", "report.csv", "text/csv", as_csv(study)),
        ("JSON", "report.json", "application/json", as_json(study)),
        ("a Markdown table", "report.md", "text/markdown", as_markdown(study)),
    )
    return {
        "columns": columns(study),
        "table": rows(study),
        "files": [
            {"label": label, "name": name, "href": f"data:{kind};charset=utf-8,{quote(text)}"}
            for label, name, kind, text in files
        ],
    }


def columns(study: Study) -> list[Column]:
    """Return the headings of the figures that were measured."""
    heads = [Column("server"), Column("connections")]
    for metric in _metrics(study):
        heads.append(Column(metric.label, metric.unit.removeprefix("/s"), metric.about))
        if metric.key == "rate":
            heads.append(Column("state"))
        if metric.key == "cpu" and _has_floors(study):
            heads.append(Column("over baseline", "×", "CPU per request / the baseline's"))
    about = "share of its CPU limit; small: throttling, queue overflows, retransmissions"
    return [*heads, *(Column(name, "% CPU", about) for name in hosts.names(study))]


def rows(study: Study) -> list[TableRow]:
    """Return the rows, sorted by scenario, level and server."""
    keys = study.keys
    rank = {subject.name: i for i, subject in enumerate(study.subjects)}
    points = [p for p in study.points if p.conditions in study.scenarios]
    points.sort(key=lambda p: (keys[p.conditions], p.level, rank[p.subject]))
    return [
        TableRow(keys[p.conditions], p.subject, p.state != "held", _cells(study, p)) for p in points
    ]


def _cells(study: Study, point: Point) -> list[TableCell]:
    name = point.subject
    cells = [TableCell(name, name), TableCell(f"{point.level:,}", point.level)]
    for metric in _metrics(study):
        cells.append(_figure(point, metric))
        if metric.key == "rate":
            cells.append(_state(point))
        if metric.key == "cpu" and _has_floors(study):
            ratio = study.floor_ratio(point)
            cells.append(TableCell(f"{ratio:.1f}", round(ratio, 3)) if ratio else TableCell("–"))
    known = {hosts.label(host.role, host.name): host for host in point.hosts}
    return [*cells, *(_host_cell(known.get(name)) for name in hosts.names(study))]


def _host_cell(host: HostFigures | None) -> TableCell:
    if host is None:
        return TableCell("–")
    held_up = host.throttled_share or 0
    words = [f"throttled {percent(held_up)}"] if held_up >= hosts.THROTTLED else []
    small = ", ".join([*words, *hosts.trouble(host)])
    return TableCell(percent(host.cpu_share), host.cpu_share, small, hosts.host_words(host))


def _state(point: Point) -> TableCell:
    if point.reason:
        return TableCell(point.reason.label, point.state, title=point.reason.text)
    status = status_of(point)
    words = {"held": "held", "load generator": "≥ load at its limit"}
    said = words.get(status, f"held, {status} at its limit")
    limit = hosts.limit_of(point)
    if limit:
        sign = "≥ " if point.lower_bound else "held, "
        said = f"{sign}{hosts.label(limit.role, limit.name)} at its limit"
    flags = ["disturbed"] if point.disturbed else []
    flags += [f"{point.outliers} of {len(point.runs)} runs far off"] if point.outliers else []
    return TableCell(said, status, small=", ".join(flags), title=hosts.limit_words(point))


def _figure(point: Point, metric: Metric) -> TableCell:
    spread = point.spread(metric.key)
    if spread is None:
        return TableCell("–")
    sign = "≥ " if point.lower_bound and metric.key == "rate" else ""
    small = ""
    if metric.key in SPREAD_OF and spread.low < spread.high:
        small = f"{figure(spread.low)}–{figure(spread.high)}"
    return TableCell(f"{sign}{figure(spread.median)}", spread.median, small)


def _metrics(study: Study) -> list[Metric]:
    return [BY_KEY[key] for key in FIGURES if key == "rate" or study.has(key)]


def _has_floors(study: Study) -> bool:
    return any(s.kind == "floor" for s in study.subjects)


SCHEMA = "zerohttpd-seven/report"
SCHEMA_VERSION = 2

CALLED = {"rate": "rate_asked"}
"""Conditions whose name is also that of a figure, with the names of their columns."""
MARKDOWN = ("rate", "p50", "p99", "max", "cpu", "memory")


def as_row(study: Study, point: Point) -> Row:
    """Return a data point as a flat row; values that were not measured are None."""
    scenario, reason = point.conditions, point.reason
    ratio = study.floor_ratio(point)
    row: Row = {
        "subject": point.subject,
        "kind": point.kind,
        "architecture": point.architecture,
        **{CALLED.get(name, name): value for name, value in scenario._asdict().items()},
        "connections": point.level,
        "state": point.state,
        "label": reason.label if reason else None,
        "reason": reason.text if reason else None,
        "runs": len(point.runs),
        "outliers": point.outliers,
        "bottleneck": point.bottleneck,
        "bottleneck_host": point.bottleneck_host,
        "limit": hosts.limit_words(point) or None,
        "lower_bound": point.lower_bound,
        "floor_ratio": round(ratio, 3) if ratio else None,
        "memory_source": _memory_source(point),
    }
    for metric in METRICS:
        spread = point.spread(metric.key)
        row[metric.key] = spread.median if spread else None
        row[f"{metric.key}_low"] = spread.low if spread else None
        row[f"{metric.key}_high"] = spread.high if spread else None
    return row


def _memory_source(point: Point) -> str | None:
    if point.get("memory") is None:
        return None
    run = point.typical
    return "all processes, PSS" if run and run.process else "largest process"


def as_json(study: Study) -> str:
    """Return all data points as JSON, with the machine, versions and settings of the sweep."""
    results = study.results
    content = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "started": results.started.isoformat(),
        "command": results.command,
        "machine": results.machine.model_dump(exclude_none=True),
        "versions": results.versions.model_dump(exclude_none=True),
        "settings": results.settings.model_dump(exclude_none=True),
        "hosts": [host.model_dump() for host in results.hosts],
        "units": {m.key: m.unit for m in METRICS},
        "cells": [as_row(study, point) | _hosts(point) for point in study.points],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"


def as_csv(study: Study) -> str:
    """Return all data points as CSV with a header; values that were not measured are empty."""
    rows = [as_row(study, point) | _host_columns(point) for point in study.points]
    return csv_of(dict.fromkeys(name for row in rows for name in row), rows)


def _hosts(point: Point) -> Row:
    return {"hosts": [host.model_dump() for host in point.hosts]}


def _host_columns(point: Point) -> Row:
    """Return each host's figures as columns: `host_redis_cpu_share`. If the name does not contain
    the role, the column does: `host_vm3_server_cpu_share`."""
    columns: Row = {}
    for host in point.hosts:
        name = hosts.label(host.role, host.name).replace(" (", "_").rstrip(")")
        columns |= {f"host_{name}_{key}": getattr(host, key) for key in HOST_FIGURES}
    return columns


def as_markdown(study: Study) -> str:
    """Return a Markdown table for each scenario."""
    parts = []
    heads = [_head(key) for key in MARKDOWN]
    for scenario in study.all_scenarios:
        points = sorted(study.of(scenario), key=lambda p: p.level)
        table = Table("<server", "connections", *heads, "<remark", rows=map(_fields, points))
        parts.append(f"### {_text(describe(scenario))}\n\n{table.markdown()}\n")
    return "\n".join(parts)


def _head(key: str) -> str:
    metric = next(m for m in METRICS if m.key == key)
    return f"{metric.label}, {metric.unit}" if key != "rate" else metric.label


def _fields(point: Point) -> list[str]:
    values = [_with_spread(point, key) for key in MARKDOWN]
    words = []
    if point.reason:
        words.append(f"{point.reason.label}: {point.reason.text}")
    if point.lower_bound:
        words.append("lower bound: the load generator was at its limit")
    if point.hosts and point.bottleneck:
        words.append(hosts.limit_words(point))
    if point.outliers:
        words.append(f"outliers: {point.outliers} of {len(point.runs)} runs")
    cells = [point.subject, f"{point.level:,}", *values, "; ".join(words)]
    return [*map(_text, cells)]


def _text(text: str) -> str:
    """Return the text escaped for one field of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def _with_spread(point: Point, key: str) -> str:
    spread = point.spread(key)
    if spread is None:
        return ""
    sign = "≥ " if point.lower_bound and key == "rate" else ""
    said = f"{sign}{figure(spread.median)}"
    if spread.low < spread.high:
        said += f" ({figure(spread.low)} to {figure(spread.high)})"
    return said
