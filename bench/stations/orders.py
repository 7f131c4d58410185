# SPDX-License-Identifier: MIT
"""The requests to an agent and its replies. See `bench.stations.station`.

They are objects inside one process, and JSON between two hosts (see `bench.stations.wire`).
"""

from typing import NamedTuple, Protocol

from pydantic import BaseModel

from bench.host.accounting import CpuTime
from bench.host.kernel import TcpCounters
from bench.host.quota import HostCount
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, SubjectVersions, SystemLimits
from bench.records.figures import StackFigures
from bench.records.results import Peer
from bench.services.balancer import BalancerEnd, BalancerOrder, BalancerUse
from bench.subjects.running import Ended
from bench.subjects.subject import Subject


class Survey(BaseModel):
    """An order to report on this host."""

    subjects: list[str] | None = None
    """Also find these servers, by name; None: none, empty: all project servers."""
    floors: bool = False
    some: bool = False
    """Whether servers that cannot run here may be left out."""
    programs: str | None = None
    """The folder of the servers' executables; None: the project's."""


class Surveyed(BaseModel):
    """The report on a host."""

    host: HostInfo
    limits: SystemLimits
    subjects: list[Subject] = []
    left_out: dict[str, str] = {}
    """Servers that cannot run here, and why."""
    peers: dict[str, Peer] = {}
    """The declarations of the reference servers."""
    versions: SubjectVersions = SubjectVersions()
    nginx: str | None = None
    """The version of nginx; None if it is not installed."""
    slicing: str = ""
    """How a server gets a CPU quota, in words; empty: impossible."""


class RoomOrder(BaseModel):
    """An order to wait until the kernel has room for so many connections in TIME_WAIT."""

    connections: int


class ServerOrder(BaseModel):
    """An order to start instances of a server and wait until they listen."""

    subject: str
    instances: int = 1
    redis_url: str
    conditions: Conditions = Conditions("")
    answer_bytes: int = 0


class Listening(BaseModel):
    """The URLs of what listens now."""

    urls: list[str]


class SlowOrder(BaseModel):
    """An order to start a slow Redis in front of the one at `redis_url`."""

    redis_url: str
    delay_ms: float


class Switches(NamedTuple):
    """Context switches."""

    voluntary: int
    involuntary: int

    def __sub__(self, other: "Switches") -> "Switches":
        return Switches(self.voluntary - other.voluntary, self.involuntary - other.involuntary)


class Lifetime(BaseModel):
    """What the kernel reports for reaped servers and their reaped children."""

    cpu: CpuTime
    switches: Switches


class ServersUse(BaseModel):
    """What the servers of one host used during one load. None: not available on the host."""

    alive: list[bool]
    """By server: whether it still ran at the end."""
    cpu: CpuTime | None
    """The CPU time of all servers."""
    wanted_us: list[float | None]
    """By server: how many microseconds it ran or was runnable."""
    spent_us: list[float | None] = []
    """By server: how many microseconds it ran."""
    throttled: list[float | None] = []
    """By server: the share of its quota's periods in which it was throttled; None: no quota."""
    switches: Switches | None
    """The context switches of all; None if tasks came and went, see `Lifetime` for those."""
    faults: int | None = None
    """The page faults of all servers and of their reaped children."""
    seconds: float
    """The duration of the observation: the load with the readings before and after it."""
    busy: float | None
    """The busy share of their CPUs, with all processes."""
    cpus: int
    """The number of CPUs that they are bound to; 0: not bound."""
    spread: int = 0
    """The number of CPUs that each of them may use; 0: one."""
    own_backlog: int | None = None
    """The smallest backlog in their listen() calls, if it is below the kernel's limit."""
    tcp: TcpCounters | None
    samples: int
    processes_peak: int | None
    threads_peak: int | None
    descriptors_peak: int | None
    pss_peak_mb: float | None
    pss_mean_mb: float | None


class Weight(BaseModel):
    """What the servers of one host use now."""

    pss: int
    """Bytes of all processes."""
    anonymous: int
    descriptors: int
    ran_us: float
    """The run time of all tasks so far."""


class Calls(BaseModel):
    """The system calls during a load."""

    by_name: dict[str, int] = {}
    """The number of each call, the most frequent first."""
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
    """How many seconds Redis (or the slow Redis in front of it) ran or was runnable."""


class Stopped(BaseModel):
    """How the servers and nginx of one run have ended."""

    servers: list[Ended] = []
    life: Lifetime | None = None
    """What all servers used in their lives."""
    stacks: StackFigures | None = None
    """The profile of the first server, if its instructions were counted."""
    balancer: BalancerEnd | None = None


class Station(Protocol):
    """An agent in this process or on another host. Each method may raise Interrupted, and on
    another host HostLost."""

    def survey(self, order: Survey) -> Surveyed:
        """Return what is on this host. Raise UserError if a server is missing."""

    def start_redis(self) -> Listening:
        """Start a Redis server. Raises UserError."""

    def make_room(self, order: RoomOrder) -> None:
        """Wait until the kernel has room for connections in TIME_WAIT, at most a minute."""

    def start_slow_redis(self, order: SlowOrder) -> Listening:
        """Start a slow Redis for one run. Raises HelperError or UserError."""

    def start_servers(self, order: ServerOrder) -> Listening:
        """Start servers, for one run. Raises StartError or OSError."""

    def start_balancer(self, order: BalancerOrder) -> Listening:
        """Start nginx, for one run. Raises StartError or UserError."""

    def begin(self) -> None:
        """Read the counters before the load."""

    def look(self) -> None:
        """Sample the servers during the load; an agent on another host does it by itself."""

    def end(self) -> Report:
        """Return what was used during the load."""

    def weigh(self) -> Weight:
        """Return what the servers use now."""

    def start_trace(self) -> None:
        """Start to count the servers' system calls. Raises StartError."""

    def stop_trace(self) -> Calls:
        """Stop tracing and return the counts."""

    def start_sampling(self) -> None:
        """Start to sample the servers' stacks. Raises StartError."""

    def stop_sampling(self) -> StackFigures:
        """Stop sampling and return the stacks. Raises StartError."""

    def stop_run(self) -> Stopped:
        """End all that was started for this run. May be called twice; never raises."""

    def close(self) -> None:
        """End all that was started."""
