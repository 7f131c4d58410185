"""Load by Apache Bench, and whether a run is a figure."""

from dataclasses import dataclass

from bench.load import ab
from bench.load.ab import AbOutcome
from bench.load.probe import ProbeError, probe
from bench.measure.running import Bench, Running
from bench.records.workloads import WORKLOADS, Workload
from bench.sweep.checks import Count, Evidence, first_failure, judge

TIMEOUT = 120.0
"""Seconds until ab is given up."""

REDIRECT, GUESTBOOK = WORKLOADS["redirect"], WORKLOADS["guestbook"]


class NoFigure(Exception):
    """A run that does not hold; the message is the reason."""


@dataclass(frozen=True)
class Load:
    """What ab is asked to do."""

    workload: Workload
    keep_alive: bool
    requests: int
    concurrency: int
    timeout: float = TIMEOUT
    """Seconds."""
    may_close: bool = False
    """With keep-alive: whether the server may close connections all the same, as those with a fixed
    number of workers do while others wait."""


def run(load: Load, running: Running, bench: Bench) -> AbOutcome:
    """Run ab and check everything. Raises NoFigure; may raise Interrupted, and ab is gone then."""
    visitors = bench.redis.counts()[0]
    wanted = ab.Load(
        running.url,
        load.requests,
        load.concurrency,
        load.timeout,
        keep_alive=load.keep_alive,
        form=load.workload.form,
    )
    done = ab.run(wanted, bench.placement.load, bench.watch)
    # With keep-alive ab leaves up to one answer unread on each connection.
    slack = load.concurrency if load.keep_alive else 0
    due = load.workload.visits * load.requests
    counted = bench.redis.counts()[0] - visitors
    evidence = Evidence(
        asked=load.requests,
        timeout=load.timeout,
        probe_status=running.status,
        died="" if running.server.running() else "died",
        stopped="",
        statistics=None,
        silent=True,
        ab=done,
        keep_alive=load.keep_alive and not load.may_close,
        counts=(Count("visitors in Redis", "visitors", due, counted, slack=slack),),
    )
    failure = first_failure(judge(evidence))
    if failure:
        raise NoFigure(failure.detail)
    return done


def ask_once(running: Running) -> int:
    """A first, single request; the length of its whole answer in bytes. Raises NoFigure."""
    try:
        return probe(running.url, running.workload, running.status).bytes
    except ProbeError as error:
        raise NoFigure(str(error)) from error
