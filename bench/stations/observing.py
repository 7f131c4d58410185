# SPDX-License-Identifier: MIT
"""Observe the servers, Redis and nginx of one host during one load."""

import os
from collections.abc import Sequence

from bench.host.kernel import difference
from bench.host.quota import Host
from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.services.balancer import Balancer, used_between
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.stations import footprint, orders
from bench.stations.counting import what_it_wrote, what_was_counted
from bench.stations.sampling import Sampler, Tracer, why_no_perf
from bench.subjects.running import RunningServer
from bench.subjects.subject import PROFILE_FILE, Subject


class Observation:
    """The observation of a host during one load: begin, look (often), end; close in any case."""

    def __init__(
        self,
        servers: Sequence[RunningServer],
        placement: Placement,
        redis: Sequence[PrivateRedis | SlowRedis | None],
        balancer: Balancer | None,
    ) -> None:
        """`placement`: where the servers and the load run; `redis`: the Redis servers of this host.
        A host without servers has nothing to profile."""
        self._servers, self._redis, self._balancer = servers, redis, balancer
        self._host = Host()
        self._cpus, self._others, spread = placement.server, placement.load, 0
        if servers and servers[0].place.conditions.cores == "all":
            spread = len([*self._cpus, *self._others] or os.sched_getaffinity(0))
            self._cpus = []
        own = self._cpus[: len(servers)]
        self._footprint = footprint.Footprint(servers, own, spread) if servers else None
        self._profiler: Tracer | Sampler | None = None

    def begin(self, watch: SignalWatch) -> None:
        """Start to count the servers' system calls or to sample their stacks, if their mode needs
        it, and read the counters immediately before the load. Raises StartError."""
        mode = self._servers[0].place.conditions.mode if self._servers else "closed"
        if mode == "traced":
            self._profiler = Tracer(_pids_of(self._servers), watch)
        if mode == "sampled" and not self._servers[0].place.profile:
            self._profiler = Sampler(_pids_of(self._servers), self._cpus, self._others, watch)
        self._before = self._host.count(), self._redis_wanted()
        self._nginx_before = self._balancer.use() if self._balancer else {}
        if self._footprint:
            self._footprint.begin()

    def look(self) -> None:
        """Sample the servers during the load."""
        if self._footprint:
            self._footprint.look()

    def end(self) -> orders.Report:
        """Stop observing and return the usage during the load. Servers that profile themselves are
        ended. Raises StartError."""
        nginx = self._balancer.use() if self._balancer else {}
        host, wanted = difference((self._host.count(), self._redis_wanted()), self._before)
        report = orders.Report(
            balancer=used_between(self._nginx_before, nginx) if self._balancer else None,
            redis_wanted_s=max((s for s in wanted if s is not None), default=None),
            host=host,
            allowed=self._host.allowed,
            servers=self._footprint.end() if self._footprint else None,
        )
        profiler, self._profiler, self._footprint = self._profiler, None, None
        if isinstance(profiler, Tracer):
            report.calls = profiler.stop()
        elif profiler:
            report.stacks = profiler.stop()
        elif self._servers and self._servers[0].place.profile:
            for server in self._servers:
                server.stop()
            report.stacks = what_it_wrote(self._servers[0].place.folder / PROFILE_FILE)
        return report

    def close(self) -> None:
        """Stop observing without a report."""
        if self._profiler:
            self._profiler.close()
        self._profiler = self._footprint = None

    def _redis_wanted(self) -> list[float | None]:
        return [one.demand_seconds() if one else None for one in self._redis]


def ended(servers: Sequence[RunningServer]) -> orders.Stopped:
    """End all servers at the same time and return how they ended."""
    found = orders.Stopped()
    if servers:
        before = footprint.lives_reaped()
        for server in servers[1:]:
            server.ask_to_stop()
        found.servers = [server.stop() for server in servers]
        found.life = difference(footprint.lives_reaped(), before)
        found.stacks = what_was_counted(servers[0].place.folder)
    return found


def profiles_itself(subject: Subject, mode: str) -> bool:
    """Return whether a server must write a profile of itself because perf is not available."""
    return mode == "sampled" and subject.profiles_itself and bool(why_no_perf())


def weigh(servers: Sequence[RunningServer]) -> orders.Weight:
    """Return the present usage of some servers."""
    return footprint.weigh(_pids_of(servers))


def _pids_of(servers: Sequence[RunningServer]) -> list[int]:
    return [pid for server in servers for pid in server.pids()]
