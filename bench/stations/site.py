# SPDX-License-Identifier: MIT
"""The site: all stations of a sweep, and what each of them is there for."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import redis

from bench.host.signals import SignalWatch
from bench.records.environment import HostInfo, Placement, SystemLimits, Versions
from bench.records.errors import UserError
from bench.records.figures import Role, StackFigures
from bench.records.peers import Peer
from bench.services.balancer import BalancerOrder, require_nginx
from bench.services.private_redis import ExistingRedis, RunRedis
from bench.stations import orders
from bench.stations.hosts import AgentHost, Hosts, chosen
from bench.stations.orders import Station
from bench.stations.remote import RemoteStation
from bench.stations.station import LocalStation
from bench.subjects.subject import Subject


class Seen(NamedTuple):
    """What one station said of one load."""

    role: Role | None
    """None: everything is on one machine."""
    name: str
    report: orders.Report


class Site:
    """Where everything of a sweep runs. Use in a `with` block."""

    def __init__(
        self,
        watch: SignalWatch,
        placement: Placement,
        hosts: Hosts | None = None,
        programs: Path | None = None,
        find: Callable[[str], Subject] | None = None,
    ) -> None:
        """Start the agents of all hosts; without hosts everything is here. Raises HostLost or
        Interrupted. `programs`: the folder of the servers' executables, on this machine; `find`:
        subjects by name."""
        self.hosts, self.placement, self.watch = hosts, placement, watch
        self._programs = str(programs) if programs and not hosts else None
        address = hosts.load.address if hosts else "127.0.0.1"
        self.load: Station = LocalStation(watch, placement, address, find)
        self._stations: dict[str, Station] = {}
        self._seen: dict[str, orders.Surveyed] = {}
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def of(file: Path | None, watch: SignalWatch, programs: Path, instances: int) -> "Site":
        """The hosts that a file names; for None this machine, whose CPUs are dealt out for so many
        instances of a server. Raises UserError."""
        return Site(watch, *chosen(file, instances), programs)

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> None:
        if self.hosts is None:
            self._stations = {"": self.load}
            self.servers, self.redis = [self.load], self.load
            self.nginx: Station | None = self.load
            return
        for _, host in self.hosts.all():
            if isinstance(host, AgentHost):
                self._stations[host.name] = RemoteStation(host, self.watch)
        for station in self._stations.values():  # which all started at the same time
            if isinstance(station, RemoteStation):
                station.greet()
        self.servers = [self._stations[host.name] for host in self.hosts.servers]
        self.redis = self._stations[self.hosts.redis.name]
        self.nginx = self._stations[self.hosts.nginx.name] if self.hosts.nginx else None
        self._stations[self.hosts.load.name] = self.load

    def reopen(self) -> None:
        """End everything everywhere and start all agents anew. Raises HostLost."""
        self.close()
        self._connect()

    def close(self) -> None:
        """End everything everywhere."""
        for station in self._stations.values():
            station.close()
        self.load.close()

    @property
    def lost(self) -> str:
        """Which host can no longer be asked, and why; empty if all can."""
        remote = (one for one in self._stations.values() if isinstance(one, RemoteStation))
        return next((one.lost for one in remote if one.lost), "")

    # ---- Before the runs ----

    def survey(
        self, names: Sequence[str] | None, floors: bool, some: bool = False
    ) -> list[Subject]:
        """Look at all hosts; the subjects of these names. Raises UserError for those that a
        server's host lacks; or, with `some`, leaves them out, see `left_out`."""
        for name, station in self._stations.items():
            wanted = list(names or []) if station in self.servers else None
            self._seen[name] = station.survey(
                orders.Survey(subjects=wanted, floors=floors, some=some, programs=self._programs)
            )
        lacking = self.left_out()
        return [one for one in self._of_server().subjects if one.name not in lacking]

    def left_out(self) -> dict[str, str]:
        """The subjects that a server's host lacks, and why."""
        lacking: dict[str, str] = {}
        for seen in self._seen.values():
            lacking |= seen.left_out
        return lacking

    def peers(self) -> dict[str, Peer]:
        """What the strangers among the subjects say of themselves."""
        return self._of_server().peers

    def require_nginx(self) -> None:
        """Raise UserError where none can be started."""
        if self.nginx is None:
            raise UserError("--balancer: the hosts' file names no host for nginx")
        if self.hosts is None:
            require_nginx()

    def require_slicing(self) -> None:
        """Raise UserError where a server's host cannot give it a quota."""
        if not self.slicing():
            raise UserError(
                "--quota: no control group with a quota can be made for a server (as root it can, "
                "or where systemd lets users limit what is theirs)"
            )

    def slicing(self) -> str:
        """How servers can be given slices of a core, in words; empty where a host of theirs
        cannot."""
        names = [host.name for host in self.hosts.servers] if self.hosts else [""]
        return min(self._seen[name].slicing for name in names)

    def versions(self) -> Versions:
        """Of the subjects, on the first server's host, and of nginx on its."""
        name = self.hosts.nginx.name if self.hosts and self.hosts.nginx else ""
        seen = self._seen.get(name)
        known = self._of_server().versions.model_dump()
        return Versions(**known, nginx=seen.nginx if seen else None)

    def limits(self) -> dict[str, SystemLimits]:
        """The limits of each host, by its name; those of ab are not in it."""
        return {name: seen.limits for name, seen in self._seen.items()}

    def roles(self) -> dict[str, Role]:
        """By the name of each host what it is there for; empty if all is on one machine."""
        return {host.name: role for role, host in self.hosts.all()} if self.hosts else {}

    def host_infos(self) -> list[HostInfo]:
        """The hosts as results keep them; empty if all is on one machine."""
        found = []
        for role, host in self.hosts.all() if self.hosts else ():
            known = {"role": role, "name": host.name, "address": host.address}
            found.append(self._seen[host.name].host.model_copy(update=known))
        return found

    def _of_server(self) -> orders.Surveyed:
        return self._seen[self.hosts.servers[0].name if self.hosts else ""]

    def open_redis(self, url: str | None) -> RunRedis:
        """The Redis at `url`; for None a private one where it belongs. Raises UserError."""
        if url:
            return ExistingRedis(url)
        found = RunRedis(self.redis.start_redis().urls[0], private=True)
        try:
            found.version()
        except redis.RedisError as error:
            where = f"the one on {self.hosts.redis.name}" if self.hosts else "the private one"
            raise UserError(f"Redis cannot be reached from here, {where}: {error}") from error
        return found

    # ---- One run ----

    def make_room(self, ended: Callable[[Role | None], int]) -> None:
        """Wait until every kernel has room for the connections that will end there: `ended` says
        how many by role, None: on one machine. All of them forget old ones at the same time, so
        that the second does not wait after the first."""
        if self.hosts is None:
            self.load.make_room(orders.RoomOrder(connections=ended(None)))
            return
        for station in self.servers:
            station.make_room(orders.RoomOrder(connections=ended("server")))
        if self.nginx:
            self.nginx.make_room(orders.RoomOrder(connections=ended("nginx")))

    def start_slow_redis(self, url: str, delay_ms: float) -> str:
        """One before that at `url`; its URL."""
        order = orders.SlowOrder(redis_url=url, delay_ms=delay_ms)
        return self.redis.start_slow_redis(order).urls[0]

    def start_servers(self, order: orders.ServerOrder) -> list[str]:
        """Deal the instances out to the servers' hosts, one after another; their URLs."""
        found = []
        for number, station in enumerate(self.servers):
            share = len(range(number, order.instances, len(self.servers)))
            if share:
                part = order.model_copy(update={"instances": share})
                found += station.start_servers(part).urls
        return found

    def start_balancer(self, urls: Sequence[str], keep: bool, connections: int) -> str:
        """Before the servers at these URLs; its URL. Raises UserError where there is no host for
        it."""
        self.require_nginx()
        assert self.nginx
        servers = [urlsplit(url).netloc for url in urls]
        order = BalancerOrder(servers=servers, keep=keep, connections=connections)
        return self.nginx.start_balancer(order).urls[0]

    def begin(self) -> None:
        """The load is about to begin. The servers come last, so that little else is in theirs."""
        for name in self._in_order():
            self._stations[name].begin()

    def look(self) -> None:
        """Called often while the load runs."""
        self.load.look()

    def end(self) -> list[Seen]:
        """The load is over: what each station saw."""
        roles = self.roles()
        found = {name: self._stations[name].end() for name in reversed(self._in_order())}
        return [Seen(roles[name] if roles else None, name, found[name]) for name in roles or found]

    def weigh(self) -> orders.Weight:
        """What all servers hold now."""
        found = [station.weigh() for station in self.servers]
        return orders.Weight(
            **{n: sum(getattr(w, n) for w in found) for n in orders.Weight.model_fields}
        )

    def start_trace(self) -> None:
        """Count all servers' system calls from now on. Raises StartError."""
        for station in self.servers:
            station.start_trace()

    def stop_trace(self) -> orders.Calls:
        """And until now."""
        found = [station.stop_trace() for station in self.servers]
        counted: Counter[str] = sum((Counter(calls.by_name) for calls in found), Counter())
        writes = sum(calls.writes for calls in found)
        return orders.Calls(by_name=dict(counted.most_common()), writes=writes)

    def start_sampling(self) -> None:
        """Look at the stacks of all servers from now on. Raises StartError."""
        for station in self.servers:
            station.start_sampling()

    def stop_sampling(self) -> StackFigures:
        """And until now: those of the first host's servers. Raises StartError."""
        first, *_ = [station.stop_sampling() for station in self.servers]
        return first

    def stop_run(self) -> dict[str, orders.Stopped]:
        """End what was started for a run; by host. May be called twice."""
        return {name: station.stop_run() for name, station in self._stations.items()}

    def _in_order(self) -> list[str]:
        return sorted(self._stations, key=lambda name: self._stations[name] in self.servers)
