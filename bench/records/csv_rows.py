# SPDX-License-Identifier: MIT
"""Converts runs to rows of results.csv."""

import csv
import io
from collections.abc import Iterable

from bench.records.conditions import Conditions
from bench.records.figures import ProcessFigures
from bench.records.json_file import Json
from bench.records.metrics import BY_KEY
from bench.records.run import Run

_IDENTITY = (
    *("subject", "kind", "architecture", *Conditions._fields),
    *("concurrency", "run", "state", "outlier", "requests"),
)
_NO_COLUMN = {"cpu_user_s", "cpu_system_s", "foreign_share", "samples", "source"}
_PROCESS = tuple(name for name in ProcessFigures.model_fields if name not in _NO_COLUMN)
_LATENCY = ("p50", "p90", "p99", "p999", "max", "mean")

CSV_COLUMNS = (
    *_IDENTITY,
    *("complete", "failed", "non_2xx", "requests_per_second"),
    *(f"{name}_ms" for name in _LATENCY),
    *_PROCESS,
    *("load_cpu_share", "redis_cpu_share", "nginx_cpu_share"),
    "idle_reopened",
    *("bytes_per_connection", "calls_per_request"),
    *("bottleneck", "bottleneck_host", "lower_bound", "reason", "command"),
)


def csv_row(run: Run) -> dict[str, Json]:
    """Return a run as a row. A run that is not valid has its counts, but no other figures."""
    row: dict[str, Json] = run.model_dump(include={*_IDENTITY, "conditions"})
    row["command"] = " ".join(run.ab_command)
    row["reason"] = run.reason.text if run.reason else ""
    if run.ab:
        row |= run.ab.model_dump(include={"complete", "failed", "non_2xx"})
    if run.wrk:
        failed = sum(run.wrk.errors.values())
        row |= {"complete": run.wrk.complete, "failed": failed}
    if run.state != "held":
        return row
    row["requests_per_second"] = run.requests_per_second
    row |= run.model_dump(include={"bottleneck", "bottleneck_host", "lower_bound", "idle_reopened"})
    row |= {f"{name}_ms": BY_KEY[name].read(run) for name in _LATENCY}
    if run.process:
        row |= run.process.model_dump(include=set(_PROCESS))
    row["bytes_per_connection"] = round(run.memory.per_connection) if run.memory else None
    row["calls_per_request"] = round(run.calls.total, 3) if run.calls else None
    others = {"load": run.load_process, "redis": run.redis_process, "nginx": run.nginx_process}
    row |= {f"{name}_cpu_share": used.cpu_share for name, used in others.items() if used}
    return row


def csv_text(runs: Iterable[Run]) -> str:
    """Return all runs as CSV with a head line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_row(run) for run in runs)
    return out.getvalue()
