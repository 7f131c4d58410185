# SPDX-License-Identifier: MIT
"""Collects the data of a run for `bench.sweep.checks`."""

from collections.abc import Mapping, Sequence

from bench.load.client import Response
from bench.records.plan import RunSpec
from bench.records.run import Check, Reason, Run
from bench.records.workloads import Workload, workload_for
from bench.stations.orders import Stopped
from bench.subjects.running import Ended
from bench.sweep.checks import Evidence, check_count, first_failure, judge
from bench.sweep.loading import WARM_UP_CONNECTIONS, Loaded
from bench.sweep.run_figures import CLOCK_SECONDS

LITTLE_ABOVE = 0.15
"""There are at most as many requests in progress as connections; our clock may be wrong by this."""
LITTLE_BELOW = 0.5
"""There can be fewer, because ab needs time between two requests of a connection. If fewer than
half are in progress, ab did not make the planned load."""


def judge_run(run: Run, seen: Evidence) -> None:
    """Store all checks in the run, and set its state and reason."""
    run.checks = judge(seen)
    failure = first_failure(run.checks)
    run.state = "failed" if failure else "held"
    run.reason = Reason(label=failure.label, text=failure.detail) if failure else None


def gather(
    run: Run,
    spec: RunSpec,
    answer: Response,
    loaded: Loaded,
    stopped: Mapping[str, Stopped],
    private: bool,
) -> Evidence:
    """Return the data of a run for its checks. `answer`: to the first request; `stopped`: how all
    programs ended; `private`: whether no other client counts visitors in that Redis."""
    workload = workload_for(run.conditions.workload)
    ended = [(host, end) for host, of in stopped.items() for end in of.servers]
    conditions, outcome = spec.conditions, loaded.outcome
    kept = conditions.keep_alive and not conditions.asks_once
    unread = spec.concurrency if kept and outcome.tool == "ab" else 0
    warm_unread = min(spec.concurrency, WARM_UP_CONNECTIONS)
    if not kept or outcome.tool == "wrk":
        warm_unread = 0
    idle_requests = loaded.idle.requests if loaded.idle else 0
    kernels = [tcp for host in loaded.hosts if (tcp := host.report.host.tcp)]
    return Evidence(
        asked=spec.requests,
        timeout=spec.timeout,
        probe_status=answer.status,
        died=_who_died(loaded, ended),
        stopped=_first([wrong_end(end) for _, end in ended], ended) if run.kind == "server" else "",
        statistics=run.server_statistics,
        load=outcome,
        silent=run.kind != "server",
        least_requests=1 + loaded.warmed_up + spec.requests + idle_requests,
        # The last answer on an idle connection may arrive after its holder has stopped counting.
        slack=unread + warm_unread + spec.conditions.idle,
        page_bytes=len(answer.body),
        # With keep-alive the head may contain the number of remaining requests.
        answer_bytes=None if run.kind == "server" or conditions.keep_alive else answer.size,
        any_length=workload.may_grow or (not private and workload.visits > 0),
        # A server that is traced or counted is slow, and may close connections because others wait.
        keep_alive=kept and conditions.mode not in ("traced", "counted"),
        counts=_counts(spec, workload, loaded, unread, private),
        little=run.littles_law,
        little_tolerance=little_tolerance(
            spec,
            outcome.wall_seconds,
            longest=run.latency.max / 1000 if run.latency else 0.0,
            foreign=(run.process and run.process.foreign_share) or 0.0,
        ),
        idle=loaded.idle,
        forgotten=sum(tcp.time_wait_overflows for tcp in kernels),
        overflows=sum(tcp.listen_overflows for tcp in kernels),
        own_backlog=_too_short(loaded, spec.connections),
        balancer=next((of.balancer for of in stopped.values() if of.balancer), None),
    )


def _too_short(loaded: Loaded, connections: int) -> int | None:
    """Return the smallest backlog that a server has passed to listen(), if it is below the kernel's
    limit and below the number of connections."""
    used = [use for host in loaded.hosts if (use := host.report.servers)]
    known = [use.own_backlog for use in used if use.own_backlog is not None]
    return min((own for own in known if own < connections), default=None)


def little_tolerance(
    spec: RunSpec, wall: float, *, longest: float, foreign: float
) -> tuple[float, float]:
    """Return the limits of the deviation from Little's law, below and above 0.

    At the end of a run connections become fewer. This matters if each has few requests, or if the
    slowest request (`longest`, in seconds) takes a large part of the run. If other processes use
    the CPUs (`foreign`: their share), ab waits for a CPU between requests, outside of their times.
    """
    clock = CLOCK_SECONDS / max(wall, CLOCK_SECONDS)
    end = max(spec.concurrency / spec.requests, longest / max(wall, CLOCK_SECONDS))
    return min(1.0, LITTLE_BELOW + end + clock + foreign), LITTLE_ABOVE + clock


def _counts(
    spec: RunSpec, workload: Workload, loaded: Loaded, unread: int, private: bool
) -> tuple[Check, ...]:
    """Return the checks of the counts in Redis. `unread`: the requests that ab may add."""
    triples = (
        ("visitors", workload.visits, loaded.visits),
        ("remarks", workload.remarks, loaded.remarks),
    )
    most = spec.requests + unread
    return tuple(
        check_count(what, got, each * spec.requests, each * most if private else None)
        for what, each, got in triples
        if each
    )


def _who_died(loaded: Loaded, ended: Sequence[tuple[str, Ended]]) -> str:
    """Return how a server ended before SIGTERM, for a sentence; empty if none did."""
    alive = {s.name: iter(s.report.servers.alive) for s in loaded.hosts if s.report.servers}
    return _first(["" if next(alive[host]) else end.describe() for host, end in ended], ended)


def wrong_end(end: Ended) -> str:
    """Return the error at one server's end; empty if there is none."""
    if not end.obeyed:
        return "did not end after SIGTERM and had to be killed"
    return "" if end.status == 0 else end.describe()


def _first(texts: Sequence[str], ended: Sequence[tuple[str, Ended]]) -> str:
    """Return the first text that is not empty, with its instance if there are several."""
    at = next((number for number, text in enumerate(texts) if text), None)
    if at is None or len(ended) == 1:
        return "" if at is None else texts[at]
    where = f" on {ended[at][0]}" if ended[at][0] else ""
    return f"{texts[at]}, instance {at + 1} of {len(ended)}{where}"
