# SPDX-License-Identifier: MIT
"""Start, observe and end the servers, nginx and Redis of one host.

On its own machine the sweep calls a `LocalStation` directly, without an agent process. With several
hosts, the agent of each other host has a `LocalStation`, and the sweep calls its methods through
`RemoteStation` (agent.py).

The calls of a run in order: start_slow_redis if needed, start_servers, start_balancer and make_room
if needed, begin, look during the load, end, stop_run. Redis runs until `close`.
"""

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from bench.host import accounting
from bench.host.process import SignalWatch, raise_descriptors
from bench.host.project import ROOT, source_digest
from bench.host.sockets import wait_for_room
from bench.records.conditions import Conditions
from bench.records.environment import Placement
from bench.services.balancer import Balancer, BalancerOrder
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.stations import footprint
from bench.stations.survey import Surveyed, survey
from bench.subjects.running import RunningServer
from bench.subjects.subject import Place, Subject, select


class ServerOrder(BaseModel):
    """An order to start some instances of a server, and to wait until they listen."""

    subject: str
    instances: int = 1
    redis_url: str
    conditions: Conditions = Conditions("")
    answer_bytes: int = 0


class LocalStation:
    """The agent in this process. End it with `close`. Each method may raise Interrupted. A method
    that is called through `RemoteStation` may also raise HostLost."""

    lost = ""
    """As in `RemoteStation`: this process is never lost."""

    def __init__(
        self, watch: SignalWatch, placement: Placement, address: str = "127.0.0.1"
    ) -> None:
        """`placement`: the CPUs to which the servers are bound in turn, and the CPUs for all other
        processes. `address`: the address to listen on."""
        raise_descriptors()
        self._watch, self._placement, self.address = watch, placement, address
        self.known: dict[str, Subject] = {}
        """The servers that `survey` has found, by name. `start_servers` searches for the others."""
        self._groups = accounting.parent_of_groups()
        if self._groups:
            accounting.remove_stale_groups(self._groups)
        else:
            accounting.adopt_orphans()
        self._slicing = accounting.find_slicing()
        self._redis: PrivateRedis | None = None
        self._slow: SlowRedis | None = None
        self._balancer: Balancer | None = None
        self._servers: list[RunningServer] = []
        self._run = contextlib.ExitStack()
        """Ends the slow Redis and removes the folders of this run."""
        self._observed: footprint.Observation | None = None

    def hello(self, address: str) -> str:
        """Return the digest of the sources. Store `address`, on which all programs will listen."""
        self.address = address
        return source_digest()

    def survey(
        self, subjects: Sequence[str] = (), some: bool = False, programs: Path = ROOT
    ) -> Surveyed:
        """Return the report on this host and on the servers `subjects`. `some`: leave out servers
        that cannot run here, instead of raising UserError. `programs`: the folder of
        executables."""
        surveyed = survey(subjects, some, programs)
        surveyed.slicing = self._slicing.how if self._slicing else ""
        self.known |= {subject.name: subject for subject in surveyed.subjects}
        return surveyed

    def start_redis(self) -> str:
        """Start a Redis server and return its URL. Raises UserError."""
        self._redis = PrivateRedis(self._placement.load, self._watch, None, self.address)
        return self._redis.url

    def make_room(self, connections: int) -> None:
        """Wait at most 60 s until the kernel can keep `connections` more connections in
        TIME_WAIT."""
        wait_for_room(connections, self._watch)

    def start_slow_redis(self, redis_url: str, delay_ms: float) -> str:
        """Start a slow Redis in front of the Redis at `redis_url`, for one run. Return the URL of
        the slow Redis. Raises HelperError or UserError."""
        cpus = self._placement.load
        self._slow = SlowRedis(redis_url, delay_ms, cpus, self._watch, self.address)
        self._run.callback(self._slow.close)
        return self._slow.url

    def start_servers(self, order: ServerOrder) -> list[str]:
        """Start the servers of one run and return their URLs. Raises StartError or OSError."""
        subject = self.known.get(order.subject) or select([order.subject])[0]
        own = self._placement.server
        for number in range(order.instances):
            folder = tempfile.TemporaryDirectory(
                prefix="zerohttpd-subject-", ignore_cleanup_errors=True
            )
            place = Place(
                redis_url=order.redis_url,
                folder=Path(self._run.enter_context(folder)),
                conditions=order.conditions,
                answer_bytes=order.answer_bytes,
                address=self.address,
                profile=subject.profiles_itself and footprint.cannot_sample(order.conditions.mode),
            )
            cpus = [own[number % len(own)]] if own else []
            if order.conditions.cores == "all":
                cpus = [*own, *self._placement.load]
            group = accounting.new_group(self._groups, self._slicing, order.conditions.quota)
            self._servers.append(RunningServer(subject, place, cpus, self._watch, group))
        return [server.url for server in self._servers]

    def start_balancer(self, order: BalancerOrder) -> str:
        """Start nginx for one run. Return the URL of nginx. Raises StartError or UserError."""
        self._balancer = Balancer(order, self.address, self._placement.load, self._watch)
        return self._balancer.url

    def begin(self) -> None:
        """Start to observe the servers; read the counters before the load. Raises StartError."""
        redis = [one for one in (self._redis, self._slow) if one]
        observed = footprint.Observation(self._servers, self._placement, redis, self._balancer)
        self._observed = observed
        self._observed.begin(self._watch)

    def look(self) -> None:
        """Sample the servers during the load. On another host the agent does this without a
        call."""
        if self._observed:
            self._observed.look()

    def end(self) -> footprint.Report:
        """Stop observing and return the usage during the load. Raises StartError."""
        assert self._observed, "the observation has begun"
        return self._observed.end()

    def weigh(self) -> footprint.Weight:
        """Return the present usage of the servers."""
        return footprint.weigh(footprint.pids_of(self._servers))

    def stop_run(self) -> footprint.Stopped:
        """End all programs of this run, and return how they ended. May be called twice."""
        if self._observed:
            self._observed.close()
        nginx = self._balancer.stop() if self._balancer else None
        found = footprint.ended(self._servers).model_copy(update={"balancer": nginx})
        self._run.close()
        self._observed = self._balancer = self._slow = None
        self._servers = []
        return found

    def close(self) -> None:
        """End all programs that this agent has started."""
        self.stop_run()
        if self._redis:
            self._redis.end()
            self._redis = None
