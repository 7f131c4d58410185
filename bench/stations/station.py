# SPDX-License-Identifier: MIT
"""Start, observe and end the servers, nginx and Redis of one host.

On one machine, the sweep uses a `LocalStation` in its own process. With several hosts, the agent of
each host (`agent`) has one, and the sweep calls the same methods through `remote`.

A run is: start_servers (start_slow_redis before, start_balancer after it), make_room if needed,
begin, the load (with any number of `look`), end, stop_run. Redis runs until `close`.
"""

from collections.abc import Callable
from pathlib import Path

from bench.host.kernel import difference, raise_descriptors, wait_for_room
from bench.host.project import ROOT, source_digest
from bench.host.quota import Host
from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.records.figures import Mode
from bench.services.balancer import Balancer, BalancerOrder, used_between
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.stations import orders
from bench.stations.servers import Servers
from bench.stations.survey import survey
from bench.subjects.subject import Subject, select


class LocalStation:
    """The agent in this process. Use in a `with` block. Each method may raise Interrupted, and on
    another host HostLost."""

    def __init__(
        self,
        watch: SignalWatch,
        placement: Placement,
        address: str = "127.0.0.1",
        find: Callable[[str], Subject] | None = None,
    ) -> None:
        """`placement`: servers are bound in turn to its CPUs for servers, all other processes to
        the other CPUs. `address`: the address to listen on. `find` returns servers by name."""
        raise_descriptors()
        self._watch, self._placement, self.address = watch, placement, address
        self._find = find or self._known
        self._found: dict[str, Subject] = {}
        """The servers of past surveys, by name."""
        self._host = Host()
        self._servers = Servers(placement.server, placement.load, watch)
        self._redis: PrivateRedis | None = None
        self._slow: SlowRedis | None = None
        self._balancer: Balancer | None = None

    def __enter__(self) -> "LocalStation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hello(self, address: str) -> str:
        """Return the digest of the sources. All programs will listen on this address."""
        self.address = address
        return source_digest()

    def survey(
        self,
        subjects: list[str] | None = None,
        floors: bool = False,
        some: bool = False,
        programs: Path = ROOT,
    ) -> orders.Surveyed:
        """Return the report on this host. `subjects`: also find these servers, by name (None: none,
        empty: all project servers); `some`: leave out those that cannot run here; `programs`: the
        folder of their executables. Raise UserError if a server is missing."""
        surveyed = survey(subjects, floors, some, programs, self._host)
        surveyed.slicing = self._servers.slicing
        self._found |= {subject.name: subject for subject in surveyed.subjects}
        return surveyed

    def _known(self, name: str) -> Subject:
        return self._found.get(name) or select([name])[0]

    def start_redis(self) -> str:
        """Start a Redis server and return its URL. Raises UserError."""
        self._redis = PrivateRedis(self._placement.load, self._watch, None, self.address)
        return self._redis.url

    def make_room(self, connections: int) -> None:
        """Wait until the kernel has room for connections in TIME_WAIT, at most a minute."""
        wait_for_room(connections, self._watch)

    def start_slow_redis(self, redis_url: str, delay_ms: float) -> str:
        """Start a slow Redis in front of another one, for one run, and return its URL. Raises
        HelperError or UserError."""
        cpus = self._placement.load
        self._slow = SlowRedis(redis_url, delay_ms, cpus, self._watch, self.address)
        return self._slow.url

    def start_servers(self, order: orders.ServerOrder) -> list[str]:
        """Start servers, for one run, and return their URLs. Raises StartError or OSError."""
        return self._servers.start(self._find(order.subject), order, self.address)

    def start_balancer(self, order: BalancerOrder) -> str:
        """Start nginx, for one run, and return its URL. Raises StartError or UserError."""
        self._balancer = Balancer(order, self.address, self._placement.load, self._watch)
        return self._balancer.url

    def begin(self, mode: Mode = "closed") -> None:
        """Start to observe the servers, and read the counters before the load. `traced`: count
        their system calls, too; `sampled`: sample their stacks. Raises StartError."""
        self._servers.profile(mode)
        self._host_before = self._host.count()
        self._redis_before = self._redis_wanted()
        self._balancer_before = self._balancer.use() if self._balancer else None
        self._servers.begin()

    def look(self) -> None:
        """Sample the servers during the load; an agent on another host does it by itself."""
        self._servers.look()

    def end(self) -> orders.Report:
        """Stop observing and return the usage during the load. Raises StartError."""
        balancer, wanted = None, difference(self._redis_wanted(), self._redis_before)
        if self._balancer and self._balancer_before:
            balancer = used_between(self._balancer_before, self._balancer.use())
        report = orders.Report(
            balancer=balancer,
            redis_wanted_s=max((s for s in wanted if s is not None), default=None),
            host=difference(self._host.count(), self._host_before),
            allowed=self._host.allowed,
        )
        self._servers.end(report)
        return report

    def weigh(self) -> orders.Weight:
        """Return the present usage of the servers."""
        return self._servers.weigh()

    def stop_run(self) -> orders.Stopped:
        """End all that was started for this run. May be called twice; never raises."""
        ended = self._balancer.stop() if self._balancer else None
        found = self._servers.stop().model_copy(update={"balancer": ended})
        self._balancer = None
        if self._slow:
            self._slow.close()
            self._slow = None
        return found

    def close(self) -> None:
        """End all that was started."""
        self.stop_run()
        if self._redis:
            self._redis.end()
            self._redis = None

    def _redis_wanted(self) -> list[float | None]:
        running = [self._redis, self._slow]
        return [one.demand_seconds() if one else None for one in running]
