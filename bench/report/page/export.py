# SPDX-License-Identifier: MIT
"""The data points as JSON, CSV and Markdown, and as the table of all figures on the page.
docs/reference/record-format.md describes the columns."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from urllib.parse import quote

from bench.readers.console import Field, Table, escaped
from bench.records.conditions import Conditions
from bench.records.points import BY_KEY, HOST_FIGURES, METRICS, Metric, Point
from bench.records.store import LIMITED, csv_of, named
from bench.records.words import figure, percent
from bench.report import limits
from bench.report.charts.rows import STATUS, status_of
from bench.report.study import Row, Study, describe

FIGURES = (
    *("rate", "p50", "p90", "p99", "p999", "max", "cpu", "cpu_user", "cpu_system"),
    *("switches_voluntary", "switches_involuntary", "memory", "threads", "processes"),
    *("descriptors", "overflows", "drops", "foreign_share", "cpu_share"),
    *("load_share", "redis_share", "nginx_share"),
)
SPREAD_OF = frozenset({"rate", "p50", "p99", "cpu", "memory"})


def table(study: Study, scenario: Conditions) -> Table:
    """Return all figures of a scenario, sorted by level and server. Figures that no scenario has
    are left out."""
    heads, cells = zip(*_columns(study), strict=True)
    rank = {subject.name: i for i, subject in enumerate(study.subjects)}
    points = sorted(study.of(scenario), key=lambda p: (p.level, rank[p.subject]))
    return Table(*heads, rows=([cell(point) for cell in cells] for point in points))


def _columns(study: Study) -> Iterator[tuple[Field, Callable[[Point], Field]]]:
    """Yield the heading of each column, with the function that makes its fields."""
    yield Field("server"), lambda point: Field(point.subject, sort=point.subject)
    yield Field("connections"), lambda point: Field(f"{point.level:,}", sort=point.level)
    for metric in (BY_KEY[key] for key in FIGURES if key == "rate" or study.has(key)):
        yield _head(metric), partial(_figure, metric)
        if metric.key == "rate":
            yield Field("state"), _state
        if metric.key == "cpu" and any(s.kind == "baseline" for s in study.subjects):
            head = Field("over baseline", ["×"], title="CPU per request divided by the baseline's")
            yield head, lambda point: _over_baseline(study.baseline_ratio(point))
    about = "share of the host's CPU limit; small letters: throttling, overflows, retransmissions"
    for name in limits.names(study):
        yield Field(name, ["% CPU"], title=about), partial(_host_cell, name)


def _head(metric: Metric) -> Field:
    unit = metric.unit.removeprefix("/s")
    return Field(metric.label, [unit] if unit else [], title=metric.about)


def _over_baseline(ratio: float | None) -> Field:
    return Field(f"{ratio:.1f}", sort=round(ratio, 3)) if ratio else Field("–")


def _host_cell(name: str, point: Point) -> Field:
    host = next((h for h in point.hosts if limits.label(h.role, h.name) == name), None)
    if host is None:
        return Field("–")
    held_up = host.throttled_share or 0
    words = [f"throttled {percent(held_up)}"] if held_up >= limits.THROTTLED else []
    notes, title = [*words, *limits.problems(host)], limits.host_words(host)
    return Field(percent(host.cpu_share), notes, sort=host.cpu_share, title=title)


def _state(point: Point) -> Field:
    if point.reason:
        return Field(point.reason.label, sort=point.state, title=point.reason.text)
    status = status_of(point)
    _, _, said = STATUS[status]
    if limit := limits.limit_of(point):
        said = f"valid, {limits.label(limit.role, limit.name)} at its limit"
    said = f"{'≥ ' if point.lower_bound else ''}{said}"
    flags = ["disturbed"] if point.disturbed else []
    flags += [f"outliers: {point.outliers} of {len(point.runs)} runs"] if point.outliers else []
    return Field(said, flags, sort=status, title=limits.limit_words(point))


def _figure(metric: Metric, point: Point) -> Field:
    spread = point.spread(metric.key)
    if spread is None:
        return Field("–")
    wide = metric.key in SPREAD_OF and spread.low < spread.high
    notes = [f"{figure(spread.low)}–{figure(spread.high)}"] if wide else []
    sign = "≥ " if point.lower_bound and metric.key == "rate" else ""
    return Field(f"{sign}{figure(spread.median)}", notes, sort=spread.median)


SCHEMA = "zerohttpd-seven/report"
SCHEMA_VERSION = 3
HEAD = {"started", "command", "machine", "versions", "settings"}
"""The JSON export contains these fields of the sweep's record, and `hosts`."""

MARKDOWN = ("rate", "p50", "p99", "max", "cpu", "memory")


def as_row(study: Study, point: Point) -> Row:
    """Return a data point as a flat row; values that were not measured are None."""
    ratio = study.baseline_ratio(point)
    row: Row = named(point) | {name: getattr(point, name) for name in LIMITED}
    row |= {
        "runs": len(point.runs),
        "outliers": point.outliers,
        "limit": limits.limit_words(point) or None,
        "baseline_ratio": round(ratio, 3) if ratio else None,
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
        **results.model_dump(mode="json", include=HEAD, exclude_none=True),
        "hosts": [host.model_dump() for host in results.hosts],
        "units": {m.key: m.unit for m in METRICS},
        "cells": [
            as_row(study, point) | {"hosts": [host.model_dump() for host in point.hosts]}
            for point in study.points
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def as_csv(study: Study) -> str:
    """Return all data points as CSV with a header; values that were not measured are empty."""
    rows = [as_row(study, point) | _host_columns(point) for point in study.points]
    return csv_of(dict.fromkeys(name for row in rows for name in row), rows)


def _host_columns(point: Point) -> Row:
    """Return each host's figures as columns, e.g. `host_redis_cpu_share`. If the host's name lacks
    the role, the column's name has the host's name and the role: `host_vm3_server_cpu_share`."""
    columns: Row = {}
    for host in point.hosts:
        name = limits.label(host.role, host.name).replace(" (", "_").rstrip(")")
        columns |= {f"host_{name}_{key}": getattr(host, key) for key in HOST_FIGURES}
    return columns


def as_markdown(study: Study) -> str:
    """Return a Markdown table for each scenario."""
    parts = []
    metrics = [BY_KEY[key] for key in MARKDOWN]
    for scenario in study.all_scenarios:
        table = Table("<server", "connections", *map(_head, metrics), "<state")
        for point in sorted(study.of(scenario), key=lambda p: p.level):
            figures = (_figure(metric, point) for metric in metrics)
            table.add_row(point.subject, f"{point.level:,}", *figures, _state_in_full(point))
        parts.append(f"### {escaped(describe(scenario))}\n\n{table.markdown()}\n")
    return "\n".join(parts)


def _state_in_full(point: Point) -> Field:
    found = _state(point)
    text = f"{found.text}: {found.title}" if point.reason or point.hosts else found.text
    return Field(text, found.notes)


EXPORTS: Mapping[str, tuple[str, str, Callable[[Study], str]]] = {
    ".csv": ("CSV", "text/csv", as_csv),
    ".json": ("JSON", "application/json", as_json),
    ".md": ("a Markdown table", "text/markdown", as_markdown),
}
"""The label, the type and the function of each export, by the suffix of its file."""


def files(study: Study) -> Iterator[tuple[str, str, str]]:
    """Yield the label, the name and the address of each export, for download from the page."""
    for suffix, (label, kind, text) in EXPORTS.items():
        yield label, f"report{suffix}", f"data:{kind};charset=utf-8,{quote(text(study))}"
