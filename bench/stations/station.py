# SPDX-License-Identifier: MIT
"""Start, observe and end the servers, nginx and Redis of one host.

On one machine, the sweep uses a `LocalStation` in its own process. With several hosts, the agent of
each host (`agent`) has one, and the sweep calls the same methods through `remote`.

A run is: start_servers (start_slow_redis before, start_balancer after it), make_room if needed,
begin, the load (with any number of `look`), end, stop_run. Redis runs until `close`.
"""

from collections.abc import Callable

from bench.host.kernel import raise_descriptors, wait_for_room
from bench.host.quota import Host
from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.records.figures import StackFigures
from bench.services.balancer import Balancer, BalancerOrder
from bench.services.redis_server import RedisServer, SlowRedis
from bench.stations import orders
from bench.stations.orders import Station
from bench.stations.servers import Servers
from bench.stations.survey import survey
from bench.subjects.subject import Subject, select


class LocalStation(Station):
    """The agent in this process. Use in a `with` block."""

    def __init__(
        self,
        watch: SignalWatch,
        placement: Placement,
        address: str = "127.0.0.1",
        find: Callable[[str], Subject] | None = None,
    ) -> None:
        """`placement`: servers are bound to its CPUs for servers in turn, all else to the other
        CPUs. `address`: the address to listen on. `find` returns servers by name."""
        raise_descriptors()
        self._watch, self._placement, self.address = watch, placement, address
        self._find = find or self._known
        self._found: dict[str, Subject] = {}
        """The servers of past surveys, by name."""
        self._host = Host()
        self._servers = Servers(placement.server, placement.load, watch)
        self._redis: RedisServer | None = None
        self._slow: SlowRedis | None = None
        self._balancer: Balancer | None = None

    def __enter__(self) -> "LocalStation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def survey(self, order: orders.Survey) -> orders.Surveyed:
        surveyed = survey(order, self._host, self._servers.slicing)
        self._found |= {subject.name: subject for subject in surveyed.subjects}
        return surveyed

    def _known(self, name: str) -> Subject:
        return self._found.get(name) or select([name])[0]

    def start_redis(self) -> orders.Listening:
        self._redis = RedisServer(self._placement.load, self._watch, self.address)
        return orders.Listening(urls=[self._redis.url])

    def make_room(self, order: orders.RoomOrder) -> None:
        wait_for_room(order.connections, self._watch)

    def start_slow_redis(self, order: orders.SlowOrder) -> orders.Listening:
        cpus = self._placement.load
        self._slow = SlowRedis(order.redis_url, order.delay_ms, cpus, self._watch, self.address)
        return orders.Listening(urls=[self._slow.url])

    def start_servers(self, order: orders.ServerOrder) -> orders.Listening:
        urls = self._servers.start(self._find(order.subject), order, self.address)
        return orders.Listening(urls=urls)

    def start_balancer(self, order: BalancerOrder) -> orders.Listening:
        self._balancer = Balancer(order, self.address, self._placement.load, self._watch)
        return orders.Listening(urls=[self._balancer.url])

    def begin(self) -> None:
        self._host_before = self._host.count()
        self._redis_before = self._redis_wanted()
        self._balancer_before = self._balancer.use() if self._balancer else None
        self._servers.begin()

    def look(self) -> None:
        self._servers.look()

    def end(self) -> orders.Report:
        balancer = None
        if self._balancer and self._balancer_before:
            balancer = self._balancer.use().since(self._balancer_before)
        return orders.Report(
            servers=self._servers.end(),
            balancer=balancer,
            redis_wanted_s=_busiest(self._redis_before, self._redis_wanted()),
            host=self._host.count() - self._host_before,
            allowed=self._host.allowed,
        )

    def weigh(self) -> orders.Weight:
        return self._servers.weigh()

    def start_trace(self) -> None:
        self._servers.start_trace()

    def stop_trace(self) -> orders.Calls:
        return self._servers.stop_trace()

    def start_sampling(self) -> None:
        self._servers.start_sampling(self._placement.load)

    def stop_sampling(self) -> StackFigures:
        return self._servers.stop_sampling()

    def stop_run(self) -> orders.Stopped:
        ended = self._balancer.stop() if self._balancer else None
        found = self._servers.stop().model_copy(update={"balancer": ended})
        self._balancer = None
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
    """Return the largest difference of two readings; None if none is known."""
    pairs = zip(before, after, strict=True)
    return max((b - a for a, b in pairs if a is not None and b is not None), default=None)
