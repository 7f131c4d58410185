"""Runs as rows of results.csv. Pure."""

import csv
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.records.run import Run

_IDENTITY = (
    *("subject", "kind", "architecture", "workload", "keep_alive", "idle", "redis_delay_ms"),
    *(
        "mode",
        "rate",
        "instances",
        "balancer",
        "concurrency",
        "run",
        "state",
        "outlier",
        "requests",
    ),
)
_PROCESS = (
    *("cpu_us_per_request", "cpu_user_us_per_request", "cpu_system_us_per_request", "cpu_share"),
    *("voluntary_switches_per_request", "involuntary_switches_per_request"),
    *("pss_peak_mb", "pss_mean_mb", "processes_peak", "threads_peak", "descriptors_peak"),
    *("listen_overflows", "listen_drops", "retransmits", "time_wait_overflows"),
)
_LATENCY = ("p50", "p90", "p99", "p999", "max", "mean")

CSV_COLUMNS = (
    *_IDENTITY,
    *("complete", "failed", "non_2xx", "requests_per_second"),
    *(f"{name}_ms" for name in _LATENCY),
    *_PROCESS,
    *("load_cpu_share", "redis_cpu_share", "nginx_cpu_share"),
    "idle_reopened",
    *("bottleneck", "bottleneck_host", "lower_bound", "reason", "command"),
)


def csv_row(run: "Run") -> dict[str, object]:
    """A run as a row. Figures of a run that does not hold are left empty, but for the counts."""
    row: dict[str, object] = run.model_dump(include=set(_IDENTITY))
    row["command"] = " ".join(run.ab_command)
    row["reason"] = run.reason.text if run.reason else ""
    if run.ab:
        row |= run.ab.model_dump(include={"complete", "failed", "non_2xx"})
    if run.state != "held":
        return row
    row["requests_per_second"] = run.requests_per_second
    row |= run.model_dump(include={"bottleneck", "bottleneck_host", "lower_bound", "idle_reopened"})
    row |= {f"{name}_ms": value for name, value in _latency_of(run).items()}
    if run.process:
        row |= run.process.model_dump(include=set(_PROCESS))
    others = {"load": run.load_process, "redis": run.redis_process, "nginx": run.nginx_process}
    row |= {f"{name}_cpu_share": used.cpu_share for name, used in others.items() if used}
    return row


def _latency_of(run: "Run") -> dict[str, float | None]:
    if run.latency:
        return run.latency.model_dump(include=set(_LATENCY))
    if run.ab is None:
        return {}
    reported = run.ab.percentiles_ms
    names = {"p50": "50", "p90": "90", "p99": "99", "max": "100"}
    return {name: reported.get(p) for name, p in names.items()} | {"mean": run.ab.mean_ms}


def csv_text(runs: Iterable["Run"]) -> str:
    """All runs as CSV with a head line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_row(run) for run in runs)
    return out.getvalue()
