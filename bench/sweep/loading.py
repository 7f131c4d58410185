# SPDX-License-Identifier: MIT
"""The load of a run: the warm-up, the measured requests, and the counters before and after."""

import contextlib
import time
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from bench.host.accounting import CpuTime
from bench.host.kernel import difference
from bench.load.ab import AB
from bench.load.open_loop import OHA
from bench.load.outcome import Load, Outcome, WarmUpFailed
from bench.load.running import IdleConnections, IdleReport
from bench.load.wrk import WRK, WRK_PIPELINED
from bench.records.plan import RunSpec
from bench.records.workloads import Workload
from bench.services.redis_server import RunRedis
from bench.stations.site import Seen, Site
from bench.sweep.probes import parked, pending

WARM_UP_CONNECTIONS = 100
"""The largest number of connections of a warm-up; lower levels use fewer. Each is used twice."""
SETTLE_SECONDS = 0.05
"""The time after the load for the last children and threads to end and be counted."""
IDLE_PATH = "/redirect"
"""The path that idle connections request: the cheapest one."""


GENERATORS = {"ab": AB, "wrk": WRK, "wrk-pipelined": WRK_PIPELINED}
"""The load generators of the closed loop, by the value of the condition."""


@dataclass(frozen=True)
class Loaded:
    """The outcome of one load and the counters around it."""

    outcome: Outcome
    warmed_up: int
    """Requests of the warm-up."""
    visits: int
    """`visits` and `remarks`: the increase of the counts in Redis."""
    remarks: int
    redis: CpuTime
    wall: float
    """The time of the load by our own clock, in seconds."""
    idle: IdleReport | None
    hosts: list[Seen]

    @property
    def seconds(self) -> float:
        """Return the time of the load by the generator's clock, or else by ours."""
        figures = self.outcome.figures
        return figures.seconds if figures and figures.seconds else self.outcome.wall_seconds

    @property
    def completed(self) -> bool:
        """Return whether the generator reported figures and a time above 0."""
        return self.outcome.figures is not None and self.seconds > 0


class Loader:
    """Makes the load of one run."""

    def __init__(self, spec: RunSpec, workload: Workload, site: Site, redis: RunRedis) -> None:
        self._spec, self._workload = spec, workload
        self._site, self._redis, self._watch = site, redis, site.watch
        self._cpus = site.placement.load
        self._generator = GENERATORS[spec.conditions.generator]

    def warm_up(self, url: str, requests: int) -> int:
        """Make at least `requests` warm-up requests (fewer if expensive) to fill caches and open
        connections to Redis. Return their number; 0 if the memory of connections is measured.
        Raises WarmUpFailed."""
        if self._spec.conditions.asks_once:
            return 0
        connections = min(self._spec.concurrency, WARM_UP_CONNECTIONS)
        # Traced runs have few requests: each worker's first system calls would be a large part.
        twice = WARM_UP_CONNECTIONS if self._spec.conditions.mode == "traced" else connections
        many = max(2 * twice, round(requests * self._workload.share))
        # If it has more requests than the run, its timeout is longer.
        timeout = self._spec.timeout * max(1.0, many / self._spec.requests)
        load = replace(self._load(url, many, connections), any_length=True, timeout=timeout)
        done = self._generator.run(load, self._cpus, self._watch)
        if done.timed_out or done.status != 0:
            said = done.message or f"not done after {timeout:g} s"
            raise WarmUpFailed(f"the warm-up failed: {said}")
        return load.requests

    def run(self, url: str, warmed_up: int) -> Loaded:
        """Make the measured load, and read all counters immediately before and after it."""
        watch, redis, conditions = self._watch, self._redis, self._spec.conditions
        watch.sleep(SETTLE_SECONDS)  # until requests that ab left unread are answered and counted
        redis.prepare()
        visits, remarks = redis.counts()
        with contextlib.ExitStack() as tidy:
            idle = None
            if conditions.idle:
                aim = urljoin(url, IDLE_PATH)
                idle = IdleConnections(aim, conditions.idle, self._cpus, watch)
                tidy.enter_context(idle)
            use = redis.use()
            self._site.begin()
            begin = time.monotonic()
            outcome = self._make(url)
            wall = time.monotonic() - begin
            watch.sleep(SETTLE_SECONDS)
            hosts = self._site.end()
            used = difference(redis.use(), use)
            held = idle.end() if idle else None
        after = redis.counts()
        gained = (after[0] - visits, after[1] - remarks)
        return Loaded(outcome, warmed_up, *gained, used, wall, held, hosts)

    def _make(self, url: str) -> Outcome:
        mode, connections = self._spec.conditions.mode, self._spec.concurrency
        if mode == "parked":
            return parked(url, self._workload, connections, self._site)
        if mode == "pending":
            return pending(url, self._workload, connections, self._site, self._redis)
        load = self._load(url, self._spec.requests, connections)
        if mode == "open":
            return OHA.run(load, self._cpus, self._watch, self._site.look)
        grows = not self._redis.private and gains_a_digit(self._redis.counts()[0], load.requests)
        load = replace(load, any_length=grows or self._workload.may_grow)
        return self._generator.run(load, self._cpus, self._watch, self._site.look)

    def _load(self, url: str, requests: int, connections: int) -> Load:
        conditions = self._spec.conditions
        size, rate = (requests, connections, self._spec.timeout), conditions.rate or 0.0
        return Load(url, *size, conditions.keep_alive, self._workload.form, rate=rate)


def gains_a_digit(count: int, visits: int) -> bool:
    """Return whether the visitor count, and so the page, becomes longer in so many visits."""
    return len(str(count + 1)) != len(str(count + visits))
