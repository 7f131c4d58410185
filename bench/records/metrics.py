# SPDX-License-Identifier: MIT
"""The figures of a run: name, unit, and how each is read from a run.

A figure that was not measured is None. Files of version 1 have no process figures and no latency:
the server's final statistics and ab's summary replace them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.records.figures import OtherProcess
from bench.records.run import Run


@dataclass(frozen=True)
class Metric:
    """One kind of figure."""

    key: str
    label: str
    """The name in table headings, tooltips and axes."""
    unit: str
    read: Callable[[Run], float | None]
    about: str = ""
    """The description for the schema of the exports."""
    more_is_better: bool = False


def _rate(run: Run) -> float | None:
    return run.requests_per_second


def _latency(name: str, percentile: str = "") -> Callable[[Run], float | None]:
    def read(run: Run) -> float | None:
        if run.latency:
            return float(getattr(run.latency, name))
        if run.ab and name == "mean":
            return run.ab.mean_ms
        return run.ab.percentiles_ms.get(percentile) if run.ab else None

    return read


def _process(name: str) -> Callable[[Run], float | None]:
    return lambda run: getattr(run.process, name, None)


def _cpu_share(whose: str) -> Callable[[Run], float | None]:
    return lambda run: getattr(getattr(run, whose), "cpu_share", None)


def _own_cpu(run: Run) -> float | None:
    return run.server_statistics.cpu_us_per_request if run.server_statistics else None


def _cpu(run: Run) -> float | None:
    return run.process.cpu_us_per_request if run.process else _own_cpu(run)


def _core_rate(run: Run) -> float | None:
    cost = run.process.cpu_us_per_request if run.process else 0.0
    return 1e6 / cost if cost else None


def _cpu_of(whose: str) -> Callable[[Run], float | None]:
    def read(run: Run) -> float | None:
        used: OtherProcess | None = getattr(run, whose)
        return (used.cpu_user_s + used.cpu_system_s) * 1e6 / run.requests if used else None

    return read


def _bytes(run: Run) -> float | None:
    seen = run.ab or run.wrk
    return seen.transferred_bytes / seen.complete if seen and seen.complete else None


def _probed(run: Run) -> float | None:
    if run.memory:
        return run.memory.per_connection
    return run.calls.total if run.calls else None


def _cpu_part(part: str) -> Callable[[Run], float | None]:
    """Return the reader of user or system time per request, or of its share of the total."""

    def read(run: Run) -> float | None:
        if run.process:
            return float(getattr(run.process, f"cpu_{part}_us_per_request"))
        own = run.server_statistics
        if own is None or own.cpu_us_per_request is None:
            return None
        user, system = own.cpu_user_s or 0.0, own.cpu_system_s or 0.0
        mine = user if part == "user" else system
        return own.cpu_us_per_request * mine / (user + system) if user + system > 0 else None

    return read


def _memory(run: Run) -> float | None:
    if run.process:
        return run.process.pss_peak_mb
    own = run.server_statistics
    return own.peak_memory_mb if own else None


METRICS = (
    Metric("rate", "requests/s", "/s", _rate, "answers per second", more_is_better=True),
    Metric("p50", "p50", "ms", _latency("p50", "50"), "half of the requests took no longer"),
    Metric("p90", "p90", "ms", _latency("p90", "90"), "90 % took no longer"),
    Metric("p99", "p99", "ms", _latency("p99", "99"), "99 % took no longer"),
    Metric("p999", "p99.9", "ms", _latency("p999"), "99.9 % took no longer"),
    Metric("max", "longest", "ms", _latency("max", "100"), "the longest request"),
    Metric("mean", "mean time", "ms", _latency("mean"), "mean time of a request"),
    Metric("cpu", "CPU/request", "µs", _cpu, "CPU time of the whole server per request"),
    Metric("cpu_user", "user", "µs", _cpu_part("user"), "in the server's own code"),
    Metric("cpu_system", "system", "µs", _cpu_part("system"), "in the kernel, for this server"),
    Metric(
        "switches_voluntary",
        "switches, voluntary",
        "/request",
        _process("voluntary_switches_per_request"),
        "it blocked to wait for an event",
    ),
    Metric(
        "switches_involuntary",
        "switches, involuntary",
        "/request",
        _process("involuntary_switches_per_request"),
        "the kernel preempted it",
    ),
    Metric(
        "faults",
        "page faults",
        "/request",
        _process("page_faults_per_request"),
        "pages that the kernel had to map or copy for it",
    ),
    Metric("memory", "memory, peak", "MB", _memory, "peak, all processes (PSS); see memory_source"),
    Metric("memory_mean", "memory, mean", "MB", _process("pss_mean_mb"), "mean, PSS"),
    Metric("processes", "processes", "", _process("processes_peak"), "most at once"),
    Metric("threads", "threads", "", _process("threads_peak"), "most at once"),
    Metric("descriptors", "descriptors", "", _process("descriptors_peak"), "most open at once"),
    Metric("overflows", "queue overflows", "", _process("listen_overflows"), "accept queue full"),
    Metric("drops", "SYN drops", "", _process("listen_drops"), "connection attempts dropped"),
    Metric("retransmits", "retransmits", "", _process("retransmits"), "segments sent again"),
    Metric(
        "forgotten",
        "TIME_WAIT overflows",
        "",
        _process("time_wait_overflows"),
        "closed without TIME_WAIT, because its table was full",
    ),
    Metric(
        "foreign_share",
        "others on its CPU",
        "of 1",
        _process("foreign_share"),
        "part of the server's CPU; above 0.1 the machine was not quiet",
    ),
    Metric("cpu_share", "server's CPU", "cores", _process("cpu_share"), "1 is one full core"),
    Metric("quota_used", "quota used", "of 1", _process("quota_used"), "of the server's CPU quota"),
    Metric("throttled", "throttled", "of 1", _process("throttled_share"), "of its quota's periods"),
    Metric("load_share", "load generator's CPU", "cores", _cpu_share("load_process"), "the same"),
    Metric("redis_share", "Redis' CPU", "cores", _cpu_share("redis_process"), "the same"),
    Metric("nginx_share", "nginx' CPU", "cores", _cpu_share("nginx_process"), "the same"),
)
"""The figures of the exports, in the order of their columns."""
OTHERS = (
    Metric("cpu_load", "CPU/request", "µs", _process("cpu_us_per_request"), "during the load only"),
    Metric("cpu_own", "CPU/request", "µs", _own_cpu, "the server's own count, from start to end"),
    Metric("core_rate", "rate of a core", "/s", _core_rate, "1 / CPU", more_is_better=True),
    Metric("load_cpu", "load generator's CPU/request", "µs", _cpu_of("load_process")),
    Metric("redis_cpu", "Redis' CPU/request", "µs", _cpu_of("redis_process")),
    Metric("nginx_cpu", "nginx' CPU/request", "µs", _cpu_of("nginx_process")),
    Metric("bytes", "response", "bytes", _bytes, "head and body"),
    Metric("probed", "cost", "", _probed, "bytes per connection, or system calls per request"),
)
"""Figures that are used for calculations and not exported."""
BY_KEY = {metric.key: metric for metric in (*METRICS, *OTHERS)}
PERCENTILES = ("p50", "p90", "p99", "p999", "max")
