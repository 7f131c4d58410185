# SPDX-License-Identifier: MIT
"""The load of a run: the warm-up, the measured requests, and the counters before and after."""

import contextlib
import time
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from bench.host.accounting import CpuTime
from bench.host.kernel import difference
from bench.load.generators import AB, OHA, WRK, WRK_PIPELINED
from bench.load.running import IdleConnections, IdleReport, Load, Outcome
from bench.records.conditions import RunSpec
from bench.records.errors import NoFigure
from bench.records.workloads import workload_for
from bench.stations.site import Seen, Site
from bench.sweep.probes import parked, pending

WARM_UP_CONNECTIONS = 100
"""The largest number of connections in a warm-up, which has at least twice as many requests."""
SETTLE_SECONDS = 0.05
"""The time for the last children and threads to end after the load, so they are counted."""
IDLE_PATH = "/redirect"
"""The path that idle connections request: the cheapest path."""


GENERATORS = {"ab": AB, "wrk": WRK, "wrk-pipelined": WRK_PIPELINED}
"""The load generators of the closed loop, by the value of the condition `generator`."""


@dataclass(frozen=True)
class Loaded:
    """The outcome of one load and the counters around it."""

    outcome: Outcome
    warmed_up: int
    """Requests of the warm-up."""
    visits: int
    """`visits` and `remarks`: the increases of the counts in Redis."""
    remarks: int
    redis: CpuTime
    wall: float
    """The time of the load by our own clock, in seconds."""
    idle: IdleReport | None
    hosts: list[Seen]

    @property
    def seconds(self) -> float:
        """Return the seconds of the load by the generator's clock; if unknown, by our clock."""
        figures = self.outcome.figures
        return figures.seconds if figures and figures.seconds else self.outcome.wall_seconds

    @property
    def completed(self) -> bool:
        """Return whether the generator reported figures and a time above 0."""
        return self.outcome.figures is not None and self.seconds > 0


def warm_up(url: str, requests: int, spec: RunSpec, site: Site) -> int:
    """Fill caches and open connections to Redis by warm-up requests: at least `requests`, or fewer
    if they are expensive. Return the number of requests; 0 if the run measures the memory of
    connections. Raises NoFigure."""
    if spec.conditions.asks_once:
        return 0
    connections = min(spec.concurrency, WARM_UP_CONNECTIONS)
    # A traced run has few requests, so each worker must make its first calls in the warm-up.
    twice = WARM_UP_CONNECTIONS if spec.conditions.mode == "traced" else connections
    share = workload_for(spec.conditions.workload).share
    many = max(2 * twice, round(requests * share))
    # If the warm-up has more requests than the run, its timeout is longer.
    timeout = spec.timeout * max(1.0, many / spec.requests)
    load = replace(_load(url, spec, many, connections), any_length=True, timeout=timeout)
    done = GENERATORS[spec.conditions.generator].run(load, site.placement.load, site.watch)
    if done.timed_out or done.status != 0:
        said = done.message or f"not done after {timeout:g} s"
        raise NoFigure(f"the warm-up failed: {said}", "warm-up")
    return many


def run_load(url: str, warmed_up: int, spec: RunSpec, site: Site) -> Loaded:
    """Make the measured load. Read all counters immediately before and after the load."""
    watch, redis = site.watch, site.redis
    watch.sleep(SETTLE_SECONDS)  # until the server has sent the responses that ab did not read
    redis.prepare()
    visits, remarks = redis.counts()
    with contextlib.ExitStack() as tidy:
        idle = None
        if count := spec.conditions.idle:
            idle = IdleConnections(urljoin(url, IDLE_PATH), count, site.placement.load, watch)
            tidy.enter_context(idle)
        use = redis.use()
        site.begin()
        begin = time.monotonic()
        outcome = _make(url, spec, site)
        wall = time.monotonic() - begin
        watch.sleep(SETTLE_SECONDS)
        hosts = site.end()
        used = difference(redis.use(), use)
        held = idle.report() if idle else None
    after = redis.counts()
    gained = (after[0] - visits, after[1] - remarks)
    return Loaded(outcome, warmed_up, *gained, used, wall, held, hosts)


def _make(url: str, spec: RunSpec, site: Site) -> Outcome:
    mode, workload = spec.conditions.mode, workload_for(spec.conditions.workload)
    if mode == "parked":
        return parked(url, workload, spec.concurrency, site)
    if mode == "pending":
        return pending(url, workload, spec.concurrency, site)
    load = _load(url, spec, spec.requests, spec.concurrency)
    if mode == "open":
        return OHA.run(load, site.placement.load, site.watch, site.look)
    grows = not site.redis.private and gains_a_digit(site.redis.counts()[0], load.requests)
    load = replace(load, any_length=grows or workload.may_grow)
    generator = GENERATORS[spec.conditions.generator]
    return generator.run(load, site.placement.load, site.watch, site.look)


def _load(url: str, spec: RunSpec, requests: int, connections: int) -> Load:
    conditions = spec.conditions
    size, rate = (requests, connections, spec.timeout), conditions.rate or 0.0
    form = workload_for(conditions.workload).form
    return Load(url, *size, conditions.keep_alive, form, rate=rate)


def gains_a_digit(count: int, visits: int) -> bool:
    """Return whether `visits` more visits add a digit to the visitor count, so the page grows."""
    return len(str(count + 1)) != len(str(count + visits))
