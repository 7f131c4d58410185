# SPDX-License-Identifier: MIT
"""What is known of a run when it is judged, put together for `bench.sweep.checks`."""

from collections.abc import Mapping, Sequence

from bench.load.ab import AbOutcome
from bench.load.open_loop import OpenOutcome
from bench.load.probe import FirstAnswer
from bench.load.wrk import WrkOutcome
from bench.records.plan import RunSpec
from bench.records.run import Reason, Run
from bench.records.workloads import Workload, workload_for
from bench.stations.orders import Stopped
from bench.subjects.running import Ended
from bench.sweep.checks import Count, Evidence, first_failure, judge
from bench.sweep.loading import WARM_UP_CONNECTIONS, Loaded
from bench.sweep.run_figures import CLOCK_SECONDS

LITTLE_ABOVE = 0.15
"""More requests cannot be under way than there are connections; the rest is for our clock."""
LITTLE_BELOW = 0.5
"""Fewer can: ab needs time between two requests of a connection. With fewer than half of them
under way it did not make the load that it was asked for."""


def judge_run(run: Run, seen: Evidence) -> None:
    """Enter all checks into the run, and what follows from them."""
    run.checks = judge(seen)
    failure = first_failure(run.checks)
    run.state = "failed" if failure else "held"
    run.reason = Reason(label=failure.label, text=failure.detail) if failure else None


def gather(
    run: Run,
    spec: RunSpec,
    answer: FirstAnswer,
    loaded: Loaded,
    stopped: Mapping[str, Stopped],
    private: bool,
) -> Evidence:
    """All that is known of a run. `answer`: to the first request; `stopped`: how everything ended;
    `private`: whether nobody else counts visitors in that Redis."""
    workload = workload_for(run.conditions.workload)
    ended = [(host, end) for host, of in stopped.items() for end in of.servers]
    conditions, outcome = spec.conditions, loaded.outcome
    kept = conditions.keep_alive and not conditions.asks_once
    closed = outcome if isinstance(outcome, AbOutcome) else None
    by_wrk = outcome if isinstance(outcome, WrkOutcome) else None
    unread = spec.concurrency if kept and closed else 0
    warm_unread = min(spec.concurrency, WARM_UP_CONNECTIONS) if kept and not by_wrk else 0
    idle_requests = loaded.idle.requests if loaded.idle else 0
    kernels = [tcp for host in loaded.hosts if (tcp := host.report.host.tcp)]
    return Evidence(
        asked=spec.requests,
        timeout=spec.timeout,
        probe_status=answer.status,
        died=_who_died(loaded, ended),
        stopped=_what_was_wrong(ended) if run.kind == "server" else "",
        statistics=run.server_statistics,
        ab=closed,
        wrk=by_wrk,
        open_loop=outcome if isinstance(outcome, OpenOutcome) else None,
        silent=run.kind != "server",
        least_requests=1 + loaded.warmed_up + spec.requests + idle_requests,
        # An idle connection's last answer may be on its way when its holder stops counting.
        slack=unread + warm_unread + spec.conditions.idle,
        page_bytes=answer.body_bytes,
        # A kept connection may be told how many requests are left to it.
        answer_bytes=None if run.kind == "server" or conditions.keep_alive else answer.bytes,
        any_length=workload.may_grow or (not private and workload.visits > 0),
        # While it is traced or counted a server is slow, and may close a connection for others
        # that wait.
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
    """The least that a server has given to listen(), if it is less than the kernel allows and less
    than there are connections."""
    used = [use for host in loaded.hosts if (use := host.report.servers)]
    known = [use.own_backlog for use in used if use.own_backlog is not None]
    return min((own for own in known if own < connections), default=None)


def little_tolerance(
    spec: RunSpec, wall: float, *, longest: float, foreign: float
) -> tuple[float, float]:
    """How far below and above the deviation from Little's law may be. At its end a run has fewer
    and fewer connections: that counts where there are few requests for each, or where the slowest
    request (`longest`, in seconds) takes much of the run, since all others may be done long before
    it. On a machine whose CPUs others use (`foreign`: their share) ab waits for its own before the
    first request and between two, which is in no request's time."""
    clock = CLOCK_SECONDS / max(wall, CLOCK_SECONDS)
    end = max(spec.concurrency / spec.requests, longest / max(wall, CLOCK_SECONDS))
    return min(1.0, LITTLE_BELOW + end + clock + foreign), LITTLE_ABOVE + clock


def _counts(
    spec: RunSpec, workload: Workload, loaded: Loaded, unread: int, private: bool
) -> tuple[Count, ...]:
    """What Redis must have counted for the load."""
    pairs = (
        ("visitors", workload.visits, loaded.visits),
        ("remarks", workload.remarks, loaded.remarks),
    )
    return tuple(
        Count(
            f"{what} in Redis",
            what,
            each * spec.requests,
            got,
            or_more=not private,
            slack=each * unread,
        )
        for what, each, got in pairs
        if each
    )


def _who_died(loaded: Loaded, ended: Sequence[tuple[str, Ended]]) -> str:
    """How a server ended before it was told to, for a sentence; empty if none did."""
    by_host = {
        seen.name: iter(seen.report.servers.alive) for seen in loaded.hosts if seen.report.servers
    }
    texts = ["" if next(by_host[host]) else end.describe() for host, end in ended]
    return _first(texts, ended)


def _what_was_wrong(ended: Sequence[tuple[str, Ended]]) -> str:
    """What was wrong with a server's end after SIGTERM, for a sentence; empty if nothing."""
    return _first([wrong_end(end) for _, end in ended], ended)


def wrong_end(end: Ended) -> str:
    """What was wrong with one server's end; empty if nothing."""
    if not end.obeyed:
        return "did not end after SIGTERM and had to be killed"
    return "" if end.status == 0 else end.describe()


def _first(texts: Sequence[str], ended: Sequence[tuple[str, Ended]]) -> str:
    """The first text that is not empty; with the instance it is about, if there are several."""
    at = next((number for number, text in enumerate(texts) if text), None)
    if at is None or len(ended) == 1:
        return "" if at is None else texts[at]
    where = f" on {ended[at][0]}" if ended[at][0] else ""
    return f"{texts[at]}, instance {at + 1} of {len(ended)}{where}"
