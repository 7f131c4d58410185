# SPDX-License-Identifier: MIT
"""The testbed: all agents of a sweep with their roles. The file of `--hosts` has the name and the
address of each host and, except for the load host, the agent's start command:

    {"load":    {"name": "load", "address": "10.77.0.1"},
     "nginx":   {"name": "nginx", "address": "10.77.0.2", "agent": ["ssh", "nginx"]},
     "servers": [{"name": "zerohttpd", "address": "10.77.0.3", "agent": ["ssh", "zerohttpd"]}],
     "redis":   {"name": "redis", "address": "10.77.0.4", "agent": ["ssh", "redis"]}}

The sweep runs on the load host. `address` is for the data traffic. `agent` is the command that
starts `python -m bench.stations.agent` on the host, from the same files as on the load host. The
sweep uses the command's standard input and output. `nginx` can be left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import redis
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.host.process import SignalWatch
from bench.records import store
from bench.records.conditions import Role
from bench.records.environment import HostInfo, Placement, SystemLimits, Versions
from bench.records.errors import UserError, in_words
from bench.services.balancer import BalancerOrder, require_nginx
from bench.services.redis_server import ExistingRedis, RunRedis
from bench.stations.agent import AgentHost, LoadHost, RemoteStation
from bench.stations.footprint import Report, Stopped, Weight
from bench.stations.station import LocalStation, ServerOrder
from bench.stations.survey import Surveyed
from bench.subjects.subject import Subject

HERE = LoadHost(name="this machine", address="127.0.0.1")
"""The host if all roles are on this machine."""
APART = Placement(server=[], load=[], note="each role on its own host")


class Hosts(BaseModel):
    """All hosts by role."""

    model_config = ConfigDict(extra="forbid")

    load: LoadHost
    nginx: AgentHost | None = None
    servers: list[AgentHost] = Field(min_length=1)
    redis: AgentHost

    def all(self) -> Iterator[tuple[Role, LoadHost]]:
        """Yield each host with its role."""
        yield "load", self.load
        if self.nginx:
            yield "nginx", self.nginx
        for server in self.servers:
            yield "server", server
        yield "redis", self.redis

    @model_validator(mode="after")
    def _names_differ(self) -> "Hosts":
        names = [host.name for _, host in self.all()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two hosts have the name {', '.join(twice)}")
        return self


def load_hosts(path: Path) -> Hosts:
    """Return the hosts of a file. Raise UserError with the place of an error in the file."""
    try:
        return Hosts.model_validate(store.read(path))
    except ValidationError as error:
        raise UserError(f"{path}: {in_words(error)}") from error


@dataclass
class _Member:
    """A host of the testbed, with its agent."""

    role: Role | None  # None: this host has all roles.
    host: LoadHost
    station: LocalStation | RemoteStation
    seen: Surveyed = field(init=False)


class Site:
    """The testbed of a sweep. End it with `close`."""

    def __init__(
        self,
        watch: SignalWatch,
        placement: Placement,
        hosts: Hosts | None = None,
        programs: Path | None = None,
    ) -> None:
        """Start the agents of all hosts; without hosts, all roles are on this machine, and
        `programs` is its folder of executables. Raises HostLost or Interrupted."""
        self.hosts, self.placement, self.watch = hosts, placement, watch
        self._programs = (programs,) if programs and not hosts else ()
        self.load = LocalStation(watch, placement, (hosts.load if hosts else HERE).address)
        roles = hosts.all() if hosts else [(None, HERE)]
        self._members = [_Member(role, host, self.load) for role, host in roles]
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        remotes = []
        for one in self._members:
            if isinstance(one.host, AgentHost):
                one.station = RemoteStation(one.host, self.watch)
                remotes.append(one.station)
        for remote in remotes:  # all agents start at the same time
            remote.greet()

    def _of(self, role: Role) -> list[_Member]:
        """Return the hosts with a role. Only the role nginx may have no host."""
        return [one for one in self._members if one.role in (role, None)]

    def reopen(self) -> None:
        """End all programs, and restart the agents and a private Redis. Raises UserError."""
        self.close()
        self._connect()
        self.open_redis(None if self.redis.private else self.redis.url)

    def close(self) -> None:
        """End all programs on all hosts."""
        for one in self._members:
            one.station.close()
        self.load.close()

    @property
    def lost(self) -> str:
        """Return the reason why the first lost host is lost; empty if no host is lost."""
        return next(filter(None, (one.station.lost for one in self._members)), "")

    # ---- Before the runs ----

    def survey(self, names: Sequence[str], some: bool = False) -> list[Subject]:
        """Survey all hosts and return the servers with these names. If a host lacks a server, raise
        UserError or, with `some`, leave the server out (see `left_out`)."""
        for one in self._members:
            wanted = names if one.role in ("server", None) else ()
            one.seen = one.station.survey(wanted, some, *self._programs)
        lacking = self.left_out()
        return [one for one in self.server.subjects if one.name not in lacking]

    def left_out(self) -> dict[str, str]:
        """Return the servers that a host lacks, with the reasons."""
        return {name: why for one in self._members for name, why in one.seen.left_out.items()}

    @property
    def server(self) -> Surveyed:
        """Return the report on the first host with servers."""
        return self._of("server")[0].seen

    def require_nginx(self) -> None:
        """Raise UserError if no host has the role nginx or, on one machine, nginx is missing."""
        if not self._of("nginx"):
            raise UserError("--balancer: the hosts file names no host for nginx")
        if self.hosts is None:
            require_nginx()

    def slicing(self) -> str:
        """Return the method of CPU quotas in words; empty if a host cannot set quotas."""
        return min(one.seen.slicing for one in self._of("server"))

    def versions(self) -> Versions:
        """Return the versions of the servers on the first server host, and of nginx on its host."""
        nginx = next((one.seen.nginx for one in self._of("nginx")), None)
        return Versions(**self.server.versions.model_dump(), nginx=nginx)

    def limits(self) -> list[tuple[str, Role | None, SystemLimits]]:
        """Return name, role and limits of each host; empty for one machine. The limits lack
        `ab_ceiling`."""
        return [(one.host.name, one.role, one.seen.limits) for one in self._members if one.role]

    def host_infos(self) -> list[HostInfo]:
        """Return the hosts as the results store them; empty if all roles are on one machine."""
        hosts = [(one.seen.host, one.role, one.host) for one in self._members if one.role]
        return [
            seen.model_copy(update={"role": role, "name": at.name, "address": at.address})
            for seen, role, at in hosts
        ]

    def open_redis(self, url: str | None) -> None:
        """Use the Redis at `url`; for None, start Redis on the Redis host. Raises UserError."""
        if url:
            self.redis: RunRedis = ExistingRedis(url)
            return
        self.redis = RunRedis(self._of("redis")[0].station.start_redis(), private=True)
        try:
            self.redis.version()
        except redis.RedisError as error:
            where = f"the Redis on {self.hosts.redis.name}" if self.hosts else "the private Redis"
            raise UserError(f"cannot reach {where} from here: {error}") from error

    # ---- One run ----

    def make_room(self, ended: Callable[[Role | None], int]) -> None:
        """On each server or nginx host, wait until the kernel can keep in TIME_WAIT all connections
        that the host will close. `ended` returns their number for a role (None: one machine)."""
        for one in self._members:
            if one.role in ("server", "nginx", None):
                one.station.make_room(ended(one.role))

    def start_slow_redis(self, url: str, delay_ms: float) -> str:
        """Start a slow Redis in front of the Redis at `url`. Return the URL of the slow Redis."""
        return self._of("redis")[0].station.start_slow_redis(url, delay_ms)

    def start_servers(self, order: ServerOrder) -> list[str]:
        """Start the instances, spread over the servers' hosts. Return the instances' URLs."""
        found: list[str] = []
        hosts = self._of("server")
        for number, one in enumerate(hosts):
            if share := len(range(number, order.instances, len(hosts))):
                found += one.station.start_servers(order.model_copy(update={"instances": share}))
        return found

    def start_balancer(self, urls: Sequence[str], keep: bool, connections: int) -> str:
        """Start nginx in front of these servers and return its URL. Raises UserError."""
        self.require_nginx()
        servers = [urlsplit(url).netloc for url in urls]
        order = BalancerOrder(servers=servers, keep=keep, connections=connections)
        return self._of("nginx")[0].station.start_balancer(order)

    def begin(self) -> None:
        """Start to observe the servers, and read the counters before the load. The servers'
        counters are read last, so they include little more than the load. Raises StartError."""
        for one in sorted(self._members, key=lambda one: one.role == "server"):
            one.station.begin()

    def look(self) -> None:
        """Sample this machine's servers during the load; the agents sample by themselves."""
        self.load.look()

    def end(self) -> list[Report]:
        """Return the report of each agent after the load. Raises StartError."""
        found = {}
        for one in sorted(self._members, key=lambda one: one.role != "server"):
            about = {"role": one.role, "name": one.host.name}
            found[one.host.name] = one.station.end().model_copy(update=about)
        return [found[one.host.name] for one in self._members]

    def weigh(self) -> Weight:
        """Return the present usage of all servers."""
        return Weight.of_all(one.station.weigh() for one in self._of("server"))

    def stop_run(self) -> dict[str, Stopped]:
        """End all programs of a run. Return how they ended, by host. May be called twice."""
        return {one.host.name: one.station.stop_run() for one in self._members}
