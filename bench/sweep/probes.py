# SPDX-License-Identifier: MIT
"""Looks at a server that give no rate: what connections cost it in memory (a crowd of them, and a
look at the server), and which system calls it makes."""

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
"""How long Redis is held: shorter than the servers' patience with it (2 s)."""
SPARE_SECONDS = 0.2
"""Of these, for the look itself."""
TIDY_SECONDS = 0.8
"""By then a server has given back what only the answers needed: TIDY_PAUSE of lib/config.h, and
more."""
CALM_SECONDS = 0.1
"""A server that has used no CPU time for so long has read what was sent to it."""


@dataclass(frozen=True, kw_only=True)
class CrowdOutcome(Outcome):
    """What came of a look at the memory of connections."""

    memory: MemoryFigures
    figures: None = None


def calls_per_request(calls: Calls, spec: RunSpec) -> CallFigures:
    """What was counted, over the requests of the load."""
    each = {name: round(count / spec.requests, 4) for name, count in calls.by_name.items()}
    return CallFigures(per_request=each, writes=round(calls.writes / spec.requests, 4))


def parked(url: str, workload: Workload, connections: int, site: Site) -> CrowdOutcome:
    """Each connection has had one answer and is kept. All within the idle time of 5 s. Raises
    NoFigure."""
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
    """Each connection has asked, and none has been answered, because Redis is held. Raises
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
                f"{answered:,} were answered while Redis was held: they wait for nothing"
            )
        crowd.listen()
    return _outcome(before, held, connections, begin)


def _calm(site: Site, deadline: float) -> Weight:
    """The servers as soon as they have nothing more to do, or at the deadline."""
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
