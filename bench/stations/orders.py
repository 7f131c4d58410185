# SPDX-License-Identifier: MIT
"""The orders to an agent and its reports, see `bench.stations.station`."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel

from bench.host.accounting import CpuTime, Usage
from bench.host.machine import HostCount
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, SubjectVersions, SystemLimits
from bench.records.figures import StackFigures
from bench.records.results import Peer
from bench.services.balancer import BalancerEnd, BalancerUse
from bench.subjects.running import Ended
from bench.subjects.subject import Subject


class Surveyed(BaseModel):
    """The report on a host."""

    host: HostInfo
    limits: SystemLimits
    subjects: list[Subject] = []
    left_out: dict[str, str] = {}
    """Servers that cannot run on this host, and the reasons."""
    peers: dict[str, Peer] = {}
    versions: SubjectVersions = SubjectVersions()
    nginx: str | None = None
    slicing: str = ""
    """The method of CPU quotas for servers, in words; empty if no method works."""


class ServerOrder(BaseModel):
    """An order to start some instances of a server, and to wait until they listen."""

    subject: str
    instances: int = 1
    redis_url: str
    conditions: Conditions = Conditions("")
    answer_bytes: int = 0


class Switches(NamedTuple):
    """Context switches."""

    voluntary: int
    involuntary: int


class Lifetime(NamedTuple):
    """The usage of reaped servers and of their reaped children, as counted by the kernel."""

    cpu: CpuTime
    switches: Switches


class ServersUse(BaseModel):
    """The usage of the servers of one host during one load. Values that the host lacks are None."""

    alive: list[bool]
    """For each server: whether the server still ran at the end."""
    used: list[Usage | None]
    """For each server: the usage of all its processes."""
    switches: Switches | None = None
    """The context switches of all servers; None if unknown, e.g. if tasks started or ended during
    the load. Then the switches in `Lifetime` are used."""
    faults: int | None = None
    """The page faults of all servers and of their reaped children."""
    seconds: float
    """The duration of the observation, from the readings before the load to those after it."""
    busy: float | None
    """The busy share of the servers' own CPUs, by all processes; None if they have no own CPUs."""
    cpus: int
    """The number of CPUs to which the servers are bound; 0: not bound."""
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


class Calls(BaseModel):
    """The system calls during a load."""

    by_name: dict[str, int] = {}
    """How often each system call was made, the most frequent first."""
    writes: int = 0
    """The number of writes to clients."""


class Report(BaseModel):
    """A host's report on one load."""

    host: HostCount
    allowed: float
    """The host's CPU limit, in CPUs."""
    servers: ServersUse | None = None
    balancer: BalancerUse | None = None
    redis_wanted_s: float | None = None
    """The seconds for which Redis's busiest thread (or the slow Redis) ran or waited for a CPU."""
    calls: Calls | None = None
    stacks: StackFigures | None = None


class Stopped(BaseModel):
    """How the servers and nginx ended in one run."""

    servers: list[Ended] = []
    life: Lifetime | None = None
    """The total usage of all servers, from start to end."""
    stacks: StackFigures | None = None
    """The profile of the first server, if callgrind counted its instructions."""
    balancer: BalancerEnd | None = None
