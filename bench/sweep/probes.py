# SPDX-License-Identifier: MIT
"""What connections cost a server in memory: a crowd of them, and a look at the server."""

import time
from dataclasses import dataclass, field

from bench.host.accounting import CpuTime
from bench.load.crowd import Crowd
from bench.records.errors import NoFigure
from bench.records.figures import Latency, MemoryFigures
from bench.services.private_redis import RunRedis
from bench.stations.footprint import Weight
from bench.stations.site import Site

HELD_MS = 1_700
"""How long Redis is held: shorter than the servers' patience with it (2 s)."""
SPARE_SECONDS = 0.2
"""Of these, for the look itself."""
CALM_SECONDS = 0.1
"""A server that has used no CPU time for so long has read what was sent to it."""


@dataclass(frozen=True)
class CrowdOutcome:
    """What came of it; beside the outcomes of the load generators."""

    memory: MemoryFigures
    wall_seconds: float
    command: list[str] = field(default_factory=list)
    figures: None = None
    latency: Latency | None = None
    report: str = ""
    cpu: CpuTime | None = None
    demand: float | None = None


def parked(url: str, connections: int, site: Site) -> CrowdOutcome:
    """Each connection has had one answer and is kept. All within the idle time of 5 s. Raises
    NoFigure."""
    begin, before = time.monotonic(), site.weigh()
    with Crowd(url, connections) as crowd:
        crowd.ask()
        crowd.listen()
        held = site.weigh()
        if (still_open := crowd.still_open()) < connections:
            raise NoFigure(f"only {still_open:,} connections were still open")
    return _outcome(before, held, connections, begin)


def pending(url: str, connections: int, site: Site, redis: RunRedis) -> CrowdOutcome:
    """Each connection has asked, and none has been answered, because Redis is held. Raises
    NoFigure."""
    begin, before = time.monotonic(), site.weigh()
    with Crowd(url, connections) as crowd:
        redis.hold(HELD_MS)
        held_till = time.monotonic() + HELD_MS / 1000
        crowd.ask()
        held = _calm(site, held_till - SPARE_SECONDS)
        if time.monotonic() > held_till:
            raise NoFigure("the machine was too slow: Redis answered before memory was read")
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
    return CrowdOutcome(memory, time.monotonic() - begin)
