# SPDX-License-Identifier: MIT
"""The load of a run: the warm-up, the idle connections, and the measured requests."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urljoin

from bench.load.crowd import Outcome
from bench.load.generators import AB, OHA, WRK, WRK_PIPELINED
from bench.load.running import IdleConnections, Load
from bench.records.conditions import RunSpec
from bench.records.errors import NoFigure
from bench.records.workloads import workload_for
from bench.stations.site import Site
from bench.sweep.probes import parked, pending

WARM_UP_CONNECTIONS = 100
"""The largest number of connections in a warm-up, which has at least twice as many requests."""
IDLE_PATH = "/redirect"
"""The path that idle connections request: the cheapest path."""
GENERATORS = {"ab": AB, "wrk": WRK, "wrk-pipelined": WRK_PIPELINED}
"""The load generators of the closed loop, by the value of the condition `generator`."""


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


@contextlib.contextmanager
def idling(url: str, spec: RunSpec, site: Site) -> Iterator[IdleConnections | None]:
    """Hold the idle connections of a run open; None without idle connections."""
    if not spec.conditions.idle:
        yield None
        return
    to, count = urljoin(url, IDLE_PATH), spec.conditions.idle
    with IdleConnections(to, count, site.placement.load, site.watch) as connections:
        yield connections


def make_load(url: str, spec: RunSpec, site: Site) -> Outcome:
    """Make the measured load, and sample the servers of this machine meanwhile."""
    mode, workload = spec.conditions.mode, workload_for(spec.conditions.workload)
    if mode == "parked":
        return parked(url, workload, spec.concurrency, site)
    if mode == "pending":
        return pending(url, workload, spec.concurrency, site)
    load = _load(url, spec, spec.requests, spec.concurrency)
    grows = not site.redis.private and gains_a_digit(site.redis.counts()[0], load.requests)
    load = replace(load, any_length=grows or workload.may_grow)
    generator = OHA if mode == "open" else GENERATORS[spec.conditions.generator]
    return generator.run(load, site.placement.load, site.watch, site.look)


def _load(url: str, spec: RunSpec, requests: int, connections: int) -> Load:
    conditions = spec.conditions
    size, rate = (requests, connections, spec.timeout), conditions.rate or 0.0
    form = workload_for(conditions.workload).form
    return Load(url, *size, conditions.keep_alive, form, rate=rate)


def gains_a_digit(count: int, visits: int) -> bool:
    """Return whether `visits` more visits add a digit to the visitor count, so the page grows."""
    return len(str(count + 1)) != len(str(count + visits))
