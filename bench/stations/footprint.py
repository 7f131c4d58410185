# SPDX-License-Identifier: MIT
"""Observe the servers, Redis and nginx of a host during a load: CPU time, context switches, memory,
processes, descriptors.

CPU time is exact: the kernel counts it for the server's control group (see
`bench.host.accounting`), including terminated processes. Without a control group, the kernel
reports the CPU time only when the server is reaped, for its whole life. On one machine, this time
is divided by all requests to the server, including those before the load.

The kernel counts context switches for each task. If the same tasks exist before and after the load
and did all the work, the difference is exact. If tasks start and end during the load (a process or
a thread for each connection), only the sum from the server's start to its end includes the
terminated tasks.

Memory, processes and descriptors are sampled several times a second. If samples are slow, they are
taken less often, because sampling uses CPU time that the load needs.
"""

import contextlib
import math
import os
import random
import re
import resource
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel

from bench.host.accounting import CpuTime, Usage, rusage_of_reaped
from bench.host.kernel import CpuTicks, cpu_ticks, difference, task_folders, text_of
from bench.host.machine import Host, HostCount
from bench.host.process import SignalWatch
from bench.host.sockets import own_backlog
from bench.records.conditions import Role
from bench.records.environment import Placement
from bench.records.figures import MemoryFigures, StackFigures
from bench.services.balancer import Balancer, BalancerEnd, BalancerUse, used_between
from bench.services.redis_server import PrivateRedis, SlowRedis
from bench.stations import sampling
from bench.subjects.running import Ended, RunningServer

LOOKS_PER_SECOND = 5
COST_OF_LOOKING = 0.04
"""The maximum share of the time that sampling may take."""
ALL_THE_WORK = 0.9
"""If the known tasks used at least this share of the CPU time, they are assumed to be all tasks.
The rest may be error: the tasks' time is from schedstat, the total from the control group."""
MOST_LOOKED_AT = 64
"""The largest number of processes in a sample; if there are more, the sum is scaled up."""


class Switches(NamedTuple):
    """Context switches."""

    voluntary: int
    involuntary: int


class Lifetime(NamedTuple):
    """The usage of reaped servers and of their reaped children, as counted by the kernel."""

    cpu: CpuTime
    switches: Switches


class ServersUse(BaseModel):
    """The usage of the servers of one host during one load. None: the host cannot measure it."""

    alive: list[bool]  # For each server: whether the server still ran at the end.
    used: list[Usage | None]  # For each server: the usage of all its processes.
    switches: Switches | None = None
    """The context switches of all servers; None if unknown, e.g. if tasks started or ended during
    the load. Then the switches in `Lifetime` are used."""
    faults: int | None = None  # The page faults of all servers and of their reaped children.
    seconds: float
    """The duration of the observation, from the readings before the load to those after it."""
    busy: float | None
    """The busy share of the servers' own CPUs, by all processes; None if they have no own CPUs."""
    cpus: int  # The number of CPUs to which the servers are bound; 0: not bound.
    spread: int = 0
    """The number of CPUs that each server may use if the run gives it all cores; otherwise 0."""
    own_backlog: int | None = None
    """The servers' smallest backlog for listen(), if the backlog is below the kernel's limit."""
    samples: int
    processes_peak: int | None
    threads_peak: int | None
    descriptors_peak: int | None
    pss_peak_mb: float | None
    pss_mean_mb: float | None

    @property
    def cpu(self) -> CpuTime | None:
        """Return the CPU time of all servers; None if one server's CPU time is unknown."""
        return CpuTime.of_all([one.cpu if one else None for one in self.used])


class Weight(NamedTuple):
    """The present usage of some processes; memory in bytes."""

    processes: int = 0
    threads: int = 0
    descriptors: int = 0
    pss: int = 0
    anonymous: int = 0
    ran_us: float = 0.0

    @classmethod
    def of_all(cls, weights: Iterable["Weight"], scale: float = 1) -> "Weight":
        """Return the sum of several weights, times `scale`."""
        return cls(*(round(sum(each) * scale) for each in zip(cls(), *weights, strict=True)))

    def figures(self, connections: int, before: "Weight") -> MemoryFigures:
        """Return the memory for some connections. `before`: the usage before they were opened."""
        sizes = {"before": before.pss, "pss": self.pss, "anonymous": self.anonymous}
        return MemoryFigures(connections=connections, **sizes)


class Report(BaseModel):
    """A host's report on one load."""

    role: Role | None = None
    """Only the sweep sets `role` and `name`. None: all roles are on one machine."""
    name: str = ""
    host: HostCount
    allowed: float  # The host's CPU limit, in CPUs.
    servers: ServersUse | None = None
    balancer: BalancerUse | None = None
    redis_wanted_s: float | None = None
    """The seconds for which Redis's busiest thread (or the slow Redis) ran or waited for a CPU."""
    calls: sampling.Calls | None = None
    stacks: StackFigures | None = None


class Stopped(BaseModel):
    """How the servers and nginx ended in one run."""

    servers: list[Ended] = []
    life: Lifetime | None = None  # The total usage of all servers, from start to end.
    stacks: StackFigures | None = None
    """The profile of the first server, if callgrind counted its instructions."""
    balancer: BalancerEnd | None = None


class TaskUse(NamedTuple):
    """The usage of a process or thread so far."""

    switches: Switches
    ran_us: float


class _Moment(NamedTuple):
    """The counters that are read before and after the load."""

    host: HostCount
    redis_wanted: list[float | None]
    servers: list[Usage | None]
    faults: int
    ticks: CpuTicks
    at: float  # Seconds of the monotonic clock.


def weigh(pids: Sequence[int]) -> Weight:
    """Return the present usage of some processes, without terminated processes."""
    ran_us = sum(task.ran_us for task in tasks_of(pids).values())
    return Weight.of_all(filter(None, map(_process, pids)))._replace(ran_us=ran_us)


def switches_between(
    before: Mapping[int, TaskUse], after: Mapping[int, TaskUse], spent: CpuTime | None
) -> Switches | None:
    """Return the context switches of the servers' tasks between two readings; None if the tasks
    differ or used less than ALL_THE_WORK of `spent`, the servers' CPU time (None: unknown)."""
    if before.keys() != after.keys() or spent is None:
        return None
    ran = sum(after[task].ran_us - before[task].ran_us for task in after)
    if ran < ALL_THE_WORK * spent.total:
        return None
    switches = [difference(after[task].switches, before[task].switches) for task in after]
    return Switches(sum(s.voluntary for s in switches), sum(s.involuntary for s in switches))


def look_at(pids: Sequence[int]) -> Weight:
    """Return the total usage of the processes, estimated from at most MOST_LOOKED_AT of them."""
    chosen = pids if len(pids) <= MOST_LOOKED_AT else random.sample(pids, MOST_LOOKED_AT)
    scale = len(pids) / len(chosen) if chosen else 0
    return Weight.of_all(filter(None, map(_process, chosen)), scale)


def tasks_of(pids: Sequence[int]) -> dict[int, TaskUse]:
    """Return the usage of all tasks of some processes, by TID."""
    found = {}
    for task in (task for pid in pids for task in task_folders(pid)):
        with contextlib.suppress(OSError, IndexError):  # the task has ended
            ran, status = (task / "schedstat").read_text().split()[0], (task / "status").read_text()
            names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
            switches = Switches(*(_field(status, name) for name in names))
            found[int(task.name)] = TaskUse(switches, int(ran) / 1000)
    return found


def page_faults_of(pids: Sequence[int]) -> int:
    """Return the page faults of some processes and their reaped children, see proc_pid_stat(5)."""
    stats = (text_of(Path("/proc", str(pid), "stat")) for pid in pids)  # empty: no such process
    return sum(sum(map(int, text.rpartition(")")[2].split()[7:11])) for text in stats)


def lives_reaped() -> Lifetime:
    """Return the usage of all reaped children of this process, including their reaped children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Lifetime(rusage_of_reaped(), Switches(used.ru_nvcsw, used.ru_nivcsw))


def _process(pid: int) -> Weight | None:
    """Return the usage of a process without its CPU time; None if the process has ended."""
    folder = Path("/proc", str(pid))
    try:
        status = (folder / "status").read_text()
        descriptors = (folder / "fd").stat().st_size or len([*(folder / "fd").iterdir()])
        memory = (folder / "smaps_rollup").read_text()
        pss, anonymous = (_field(memory, name) * 1024 for name in ("Pss", "Anonymous"))
        threads = _field(status, "Threads")
        return Weight(1, threads, descriptors, pss, anonymous) if pss else None  # 0: a zombie
    except OSError:
        return None


def _field(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else 0


def pids_of(servers: Sequence[RunningServer]) -> list[int]:
    """Return the PIDs of all processes of some servers."""
    return [pid for server in servers for pid in server.pids()]


class Observation:
    """The observation of a host during a load: call `begin`, `look` repeatedly, `end`, `close`."""

    def __init__(
        self,
        servers: Sequence[RunningServer],
        placement: Placement,
        redis: Sequence[PrivateRedis | SlowRedis],
        balancer: Balancer | None,
    ) -> None:
        """`placement`: the CPUs of the servers and of the load; `redis`: the Redis servers of this
        host. Without servers, only the counters of the host, Redis and nginx are read."""
        self._servers, self._redis, self._balancer = servers, redis, balancer
        self._host, self._others = Host(), placement.load
        self._own, self._spread = placement.server[: len(servers)], 0
        if servers and servers[0].place.conditions.cores == "all":
            self._spread = len([*placement.server, *placement.load] or os.sched_getaffinity(0))
            self._own = []
        self._looks: list[Weight] = []
        self._next_look = math.inf
        self._profiler: sampling.Tracer | sampling.Sampler | None = None

    def begin(self, watch: SignalWatch) -> None:
        """Start to count system calls or to sample stacks, if the servers' mode requires it. Then
        read the counters before the load. Raises StartError."""
        pids = pids_of(self._servers)
        mode = self._servers[0].place.conditions.mode if self._servers else "closed"
        if mode == "traced":
            self._profiler = sampling.Tracer(pids, watch)
        if mode == "sampled" and not self._servers[0].place.profile:
            self._profiler = sampling.Sampler(pids, self._own, self._others, watch)
        self._nginx_before = self._balancer.use() if self._balancer else {}
        self._tasks, self._before = tasks_of(pids_of(self._servers)), self._moment()
        self._next_look = time.monotonic() + 0.1

    def look(self) -> None:
        """Sample memory, processes and descriptors of the servers if the next sample is due."""
        now = time.monotonic()
        if not self._servers or now < self._next_look:
            return
        seen = look_at(pids_of(self._servers))
        if seen.processes:
            self._looks.append(seen)
        cost = time.monotonic() - now
        self._next_look = now + max(1 / LOOKS_PER_SECOND, cost / COST_OF_LOOKING)

    def end(self) -> Report:
        """Stop observing and return the usage during the load. End servers that profile themselves,
        because they write their profile at the end. Raises StartError."""
        if not self._looks:
            self._next_look = 0.0
            self.look()
        nginx = self._balancer.use() if self._balancer else {}
        passed = difference(self._moment(), self._before)
        report = Report(
            balancer=used_between(self._nginx_before, nginx) if self._balancer else None,
            redis_wanted_s=max((s for s in passed.redis_wanted if s is not None), default=None),
            host=passed.host,
            allowed=self._host.allowed,
            servers=self._use(passed) if self._servers else None,
        )
        profiler, self._profiler, self._next_look = self._profiler, None, math.inf
        if isinstance(profiler, sampling.Tracer):
            report.calls = profiler.stop()
        elif profiler:
            report.stacks = profiler.stop()
        elif self._servers and self._servers[0].place.profile:
            for server in self._servers:
                server.stop()
            report.stacks = sampling.what_it_wrote(self._servers[0].place.folder)
        return report

    def close(self) -> None:
        """Stop observing without a report."""
        if self._profiler:
            self._profiler.close()
        self._profiler, self._next_look = None, math.inf

    def _use(self, passed: _Moment) -> ServersUse:
        """Return the servers' usage. `passed`: the differences of the counters."""
        looks, tasks = self._looks, tasks_of(pids_of(self._servers))
        # The maximum of each figure in all samples; None without samples.
        peak = Weight(*map(max, zip(*looks, strict=True))) if looks else None
        found = ServersUse(
            alive=[server.running() for server in self._servers],
            used=passed.servers,
            faults=max(passed.faults, 0),
            seconds=passed.at,
            busy=passed.ticks.busy_share,
            cpus=len(self._own),
            spread=self._spread,
            own_backlog=own_backlog([urlsplit(server.url).port or 80 for server in self._servers]),
            samples=len(looks),
            processes_peak=peak and peak.processes,
            threads_peak=peak and peak.threads,
            descriptors_peak=peak and peak.descriptors,
            pss_peak_mb=peak and round(peak.pss / 1e6, 3),
            pss_mean_mb=peak and round(sum(look.pss for look in looks) / 1e6 / len(looks), 3),
        )
        found.switches = switches_between(self._tasks, tasks, found.cpu)
        return found

    def _moment(self) -> _Moment:
        return _Moment(
            self._host.count(),
            [one.demand_seconds() for one in self._redis],
            [server.used() for server in self._servers],
            page_faults_of(pids_of(self._servers)),
            cpu_ticks(self._own),
            time.monotonic(),
        )


def ended(servers: Sequence[RunningServer]) -> Stopped:
    """End all servers at the same time and return how they ended."""
    found = Stopped()
    if servers:
        before = lives_reaped()
        for server in servers[1:]:
            server.ask_to_stop()
        found.servers = [server.stop() for server in servers]
        found.life = difference(lives_reaped(), before)
        found.stacks = sampling.what_was_counted(servers[0].place.folder)
    return found


def cannot_sample(mode: str) -> bool:
    """Return whether a server must write its own profile because perf is not available."""
    return mode == "sampled" and bool(sampling.why_no_perf())
