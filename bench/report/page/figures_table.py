# SPDX-License-Identifier: MIT
"""The table of all figures: a row for each data point, a column for each measured figure."""

from dataclasses import dataclass, field
from urllib.parse import quote

from bench.records.figures import HostFigures
from bench.records.metrics import BY_KEY, Metric
from bench.records.points import Point
from bench.records.words import figure, percent
from bench.report.charts.exhibits import Catalogue
from bench.report.charts.rows import status_of
from bench.report.page import export
from bench.report.study import hosts
from bench.report.study.study import Study

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
        ("CSV", "report.csv", "text/csv", export.as_csv(study)),
        ("JSON", "report.json", "application/json", export.as_json(study)),
        ("a Markdown table", "report.md", "text/markdown", export.as_markdown(study)),
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
        if metric.key == "cpu" and _floors(study):
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
        if metric.key == "cpu" and _floors(study):
            ratio = study.floor_ratio(point)
            cells.append(TableCell(f"{ratio:.1f}", round(ratio, 3)) if ratio else TableCell("–"))
    known = {hosts.label(host.role, host.name): host for host in point.hosts}
    return [*cells, *(_host(known.get(name)) for name in hosts.names(study))]


def _host(host: HostFigures | None) -> TableCell:
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


def _floors(study: Study) -> bool:
    return any(s.kind == "floor" for s in study.subjects)
