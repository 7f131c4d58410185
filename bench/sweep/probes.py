# SPDX-License-Identifier: MIT
"""Measurements without a rate: the memory of many connections, and the system calls of a server."""

import time
from dataclasses import dataclass

from bench.load.crowd import Crowd
from bench.load.outcome import Outcome
from bench.records.errors import NoFigure
from bench.records.figures import CallFigures, MemoryFigures
from bench.records.plan import RunSpec
from bench.records.workloads import Workload
from bench.services.private_redis import RunRedis
from bench.stations.orders import Calls, Weight
from bench.stations.site import Site

HELD_MS = 1_700
"""How long Redis is paused: shorter than the servers' timeout for Redis (2 s)."""
SPARE_SECONDS = 0.2
"""The part of HELD_MS for reading the memory."""
TIDY_SECONDS = 0.8
"""The time in which a server releases memory that only the answers needed: longer than TIDY_PAUSE
of lib/config.h."""
CALM_SECONDS = 0.1
"""A server that has used no CPU time for so long has read all requests."""


@dataclass(frozen=True, kw_only=True)
class CrowdOutcome(Outcome):
    """The outcome of a measurement of the memory of connections."""

    memory: MemoryFigures
    figures: None = None


def calls_per_request(calls: Calls, spec: RunSpec) -> CallFigures:
    """Return the counted system calls per request of the load."""
    each = {name: round(count / spec.requests, 4) for name, count in calls.by_name.items()}
    return CallFigures(per_request=each, writes=round(calls.writes / spec.requests, 4))


def parked(url: str, workload: Workload, connections: int, site: Site) -> CrowdOutcome:
    """Measure connections that have had one answer and are kept, within the servers' idle timeout
    of 5 s. Raises NoFigure."""
    begin, before = time.monotonic(), site.weigh()
    with Crowd(url, workload, connections) as crowd:
        crowd.ask()
        crowd.listen()
        site.watch.sleep(TIDY_SECONDS)
        held = site.weigh()
        if (still_open := crowd.still_open()) < connections:
            raise NoFigure(f"only {still_open:,} connections were still open")
    return _outcome(before, held, connections, begin)


def pending(
    url: str, workload: Workload, connections: int, site: Site, redis: RunRedis
) -> CrowdOutcome:
    """Measure connections with a request that is not answered because Redis is paused. Raises
    NoFigure."""
    begin, before = time.monotonic(), site.weigh()
    with Crowd(url, workload, connections) as crowd:
        redis.hold(HELD_MS)
        held_till = time.monotonic() + HELD_MS / 1000
        crowd.ask()
        held = _calm(site, held_till - SPARE_SECONDS)
        answered = crowd.answered()
        if time.monotonic() > held_till:
            raise NoFigure("the machine was too slow: Redis answered before memory was read")
        if answered:
            raise NoFigure(
                f"{answered:,} requests were answered while Redis was paused: they do not use it"
            )
        crowd.listen()
    return _outcome(before, held, connections, begin)


def _calm(site: Site, deadline: float) -> Weight:
    """Return the servers' memory when they use no more CPU time, or at the deadline."""
    found = site.weigh()
    while time.monotonic() < deadline:
        site.watch.sleep(CALM_SECONDS)
        before, found = found, site.weigh()
        if found.ran_us == before.ran_us:
            break
    return found


def _outcome(before: Weight, held: Weight, connections: int, begin: float) -> CrowdOutcome:
    if held.descriptors < connections:
        raise NoFigure(
            f"the server held only {held.descriptors:,} descriptors when its memory was read"
        )
    memory = MemoryFigures(
        connections=connections, before=before.pss, pss=held.pss, anonymous=held.anonymous
    )
    return CrowdOutcome(memory=memory, wall_seconds=time.monotonic() - begin)
