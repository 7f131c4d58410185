# SPDX-License-Identifier: MIT
"""The data points as JSON, CSV and Markdown, with the columns of
docs/reference/record-format.md."""

import csv
import html
import io
import json

from bench.records.words import figure
from bench.report.study import hosts
from bench.report.study.metrics import METRICS
from bench.report.study.study import HOST_FIGURES, Point, Row, Study, describe

SCHEMA = "zerohttpd-seven/report"
SCHEMA_VERSION = 2

CALLED = {"rate": "rate_asked"}
"""Conditions whose name is also that of a figure, with the names of their columns."""
MARKDOWN = ("rate", "p50", "p99", "max", "cpu", "memory")


def as_row(study: Study, point: Point) -> Row:
    """Return a data point as a flat row; values that were not measured are None."""
    scenario, reason = point.scenario, point.reason
    ratio = study.floor_ratio(point)
    row: Row = {
        "subject": point.subject.name,
        "kind": point.subject.kind,
        "architecture": point.subject.architecture,
        **{CALLED.get(name, name): value for name, value in scenario._asdict().items()},
        "connections": point.level,
        "state": point.state,
        "label": reason.label if reason else None,
        "reason": reason.text if reason else None,
        "runs": point.runs,
        "outliers": point.outliers,
        "bottleneck": point.bottleneck,
        "bottleneck_host": point.bottleneck_host,
        "limit": hosts.limit_words(point) or None,
        "lower_bound": point.lower_bound,
        "floor_ratio": round(ratio, 3) if ratio else None,
        "memory_source": _memory_source(point),
    }
    for metric in METRICS:
        spread = point.figures.get(metric.key)
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
    out = io.StringIO()
    rows = [as_row(study, point) | _host_columns(point) for point in study.points]
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


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
        lines = [f"### {_text(describe(scenario))}", ""]
        lines.append(f"| server | connections | {' | '.join(heads)} | remark |")
        lines.append(f"|---|--:|{'--:|' * len(heads)}---|")
        points = sorted(study.of(scenario), key=lambda p: p.level)
        lines += [_line(point) for point in points]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _head(key: str) -> str:
    metric = next(m for m in METRICS if m.key == key)
    return f"{metric.label}, {metric.unit}" if key != "rate" else metric.label


def _line(point: Point) -> str:
    values = [_with_spread(point, key) for key in MARKDOWN]
    words = []
    if point.reason:
        words.append(f"{point.reason.label}: {point.reason.text}")
    if point.lower_bound:
        words.append("lower bound: the load generator was at its limit")
    if point.hosts and point.bottleneck:
        words.append(hosts.limit_words(point))
    if point.outliers:
        words.append(f"outliers: {point.outliers} of {point.runs} runs")
    cells = [point.subject.name, f"{point.level:,}", *values, "; ".join(words)]
    return f"| {' | '.join(map(_text, cells))} |"


def _text(text: str) -> str:
    """Return the text escaped for one field of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def _with_spread(point: Point, key: str) -> str:
    spread = point.figures.get(key)
    if spread is None:
        return ""
    sign = "≥ " if point.lower_bound and key == "rate" else ""
    said = f"{sign}{figure(spread.median)}"
    if spread.low < spread.high:
        said += f" ({figure(spread.low)} to {figure(spread.high)})"
    return said
