# SPDX-License-Identifier: MIT
"""A station: everything that must happen on the host of a server, of nginx or of Redis.

It starts them, watches them while the load runs, and ends them. The sweep has one in its own
process when everything is on one machine; else there is one on each host behind an agent
(`agent`), which the sweep asks through `remote` for the very same things.

A run is: start_servers (start_slow_redis before, start_balancer after them), make_room where it is
needed, begin, the load (with `look` as often as one likes), end, stop_run. Redis lives until
`close`.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.host.accounting import parent_of_groups, remove_stale_groups
from bench.host.kernel import raise_descriptors, wait_for_room
from bench.host.process import StartError, free_port
from bench.host.quota import Host
from bench.host.signals import SignalWatch
from bench.host.slices import find_slicing
from bench.records.environment import Placement
from bench.records.figures import StackFigures
from bench.services.balancer import Balancer, BalancerOrder
from bench.services.redis_server import RedisServer
from bench.services.slow_redis import SlowRedis
from bench.stations.counting import what_was_counted
from bench.stations.footprint import Footprint, lifetime_between, lives_buried, weigh
from bench.stations.orders import (
    Calls,
    Listening,
    Report,
    RoomOrder,
    ServerOrder,
    SlowOrder,
    Station,
    Stopped,
    Survey,
    Surveyed,
    Weight,
)
from bench.stations.sampling import Sampler
from bench.stations.survey import survey
from bench.stations.tracing import Tracer
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, Subject, select


class LocalStation(Station):
    """A station in this process. Use in a `with` block."""

    def __init__(
        self,
        watch: SignalWatch,
        placement: Placement,
        address: str = "127.0.0.1",
        find: Callable[[str], Subject] | None = None,
    ) -> None:
        """`placement`: servers are bound to its CPUs for servers, one after another, all else to
        the others. `address`: where everything listens. `find`: subjects by name."""
        raise_descriptors()
        self._watch, self._placement, self.address = watch, placement, address
        self._find = find or self._known
        self._found: dict[str, Subject] = {}
        """Those that were looked for, by name."""
        self._host = Host()
        self._groups = parent_of_groups()
        if self._groups:
            remove_stale_groups(self._groups)
        self._slicing = find_slicing()
        self._redis: RedisServer | None = None
        self._slow: SlowRedis | None = None
        self._servers: list[RunningServer] = []
        self._folders: list[str] = []
        self._balancer: Balancer | None = None
        self._footprint: Footprint | None = None
        self._tracer: Tracer | None = None
        self._sampler: Sampler | None = None

    def __enter__(self) -> "LocalStation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def survey(self, order: Survey) -> Surveyed:
        surveyed, found = survey(order, self._host)
        self._found |= {subject.name: subject for subject in found}
        how = self._slicing.how if self._slicing else ""
        return surveyed.model_copy(update={"slicing": how})

    def _known(self, name: str) -> Subject:
        return self._found.get(name) or select([name])[0]

    def start_redis(self) -> Listening:
        self._redis = RedisServer(self._placement.load, self._watch, self.address)
        return Listening(urls=[self._redis.url])

    def make_room(self, order: RoomOrder) -> None:
        wait_for_room(order.connections, self._watch)

    def start_slow_redis(self, order: SlowOrder) -> Listening:
        cpus = self._placement.load
        self._slow = SlowRedis(order.redis_url, order.delay_ms, cpus, self._watch, self.address)
        return Listening(urls=[self._slow.url])

    def start_servers(self, order: ServerOrder) -> Listening:
        subject, cpus = self._find(order.subject), self._placement.server
        for number in range(order.instances):
            self._folders.append(tempfile.mkdtemp(prefix="zerohttpd-subject-"))
            place = Place(
                port=0 if subject.announces else free_port(self.address),
                redis_url=order.redis_url,
                folder=Path(self._folders[-1]),
                conditions=order.conditions,
                answer_bytes=order.answer_bytes,
                address=self.address,
            )
            cpu = [cpus[number % len(cpus)]] if cpus else []
            server = RunningServer(subject, place, cpu, self._watch, self._groups, self._slicing)
            self._servers.append(server)
        return Listening(urls=[server.url for server in self._servers])

    def start_balancer(self, order: BalancerOrder) -> Listening:
        self._balancer = Balancer(order, self.address, self._placement.load, self._watch)
        return Listening(urls=[self._balancer.url])

    def begin(self) -> None:
        self._host_before = self._host.count()
        self._redis_before = self._redis_wanted()
        self._balancer_before = self._balancer.use() if self._balancer else None
        if self._servers:
            bound = self._placement.server[: len(self._servers)]
            self._footprint = Footprint(self._servers, bound)
            self._footprint.begin()

    def look(self) -> None:
        if self._footprint:
            self._footprint.look()

    def end(self) -> Report:
        footprint, self._footprint = self._footprint, None
        balancer = None
        if self._balancer and self._balancer_before:
            balancer = self._balancer.use().since(self._balancer_before)
        return Report(
            servers=footprint.end() if footprint else None,
            balancer=balancer,
            redis_wanted_s=_busiest(self._redis_before, self._redis_wanted()),
            host=self._host.count() - self._host_before,
            allowed=self._host.allowed,
        )

    def weigh(self) -> Weight:
        return weigh(self._pids())

    def start_trace(self) -> None:
        self._tracer = Tracer(self._pids(), self._watch)

    def stop_trace(self) -> Calls:
        tracer, self._tracer = self._tracer, None
        return tracer.stop() if tracer else Calls()

    def start_sampling(self) -> None:
        self._sampler = Sampler(
            self._pids(), self._placement.server, self._placement.load, self._watch
        )

    def stop_sampling(self) -> StackFigures:
        sampler, self._sampler = self._sampler, None
        if sampler is None:
            raise StartError("nothing is being sampled")
        return sampler.stop()

    def _pids(self) -> list[int]:
        return [pid for server in self._servers for pid in server.pids()]

    def stop_run(self) -> Stopped:
        self.stop_trace()
        if self._sampler:
            self._sampler.close()
            self._sampler = None
        self._footprint = None
        found = Stopped()
        if self._balancer:
            found.balancer = self._balancer.stop()
            self._balancer = None
        if self._servers:
            before = lives_buried()
            for server in self._servers[1:]:
                server.ask_to_stop()  # so that all of them take no longer than one
            ended = [server.stop() for server in self._servers]
            found.servers = [end for end in ended if end]
            found.life = lifetime_between(before, lives_buried())
            self._servers = []
            found.stacks = what_was_counted(Path(self._folders[0]))
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders = []
        if self._slow:
            self._slow.close()
            self._slow = None
        return found

    def close(self) -> None:
        self.stop_run()
        if self._redis:
            self._redis.end()
            self._redis = None

    def _redis_wanted(self) -> list[float | None]:
        running = [self._redis, self._slow]
        return [one.demand_seconds() if one else None for one in running]


def _busiest(before: list[float | None], after: list[float | None]) -> float | None:
    """The longest of some times that have passed; None if none is known."""
    pairs = zip(before, after, strict=True)
    return max((b - a for a, b in pairs if a is not None and b is not None), default=None)
