# SPDX-License-Identifier: MIT
"""What a station is asked for, and what it answers. See `bench.stations.station`.

The same words inside one process and, as JSON, between two hosts (see `bench.stations.wire`).
"""

from typing import NamedTuple, Protocol

from pydantic import BaseModel

from bench.host.accounting import CpuTime
from bench.host.kernel import TcpCounters
from bench.host.quota import HostCount
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, SubjectVersions, SystemLimits
from bench.records.figures import StackFigures
from bench.records.peers import Peer
from bench.services.balancer import BalancerEnd, BalancerOrder, BalancerUse
from bench.subjects.running import Ended
from bench.subjects.subject import Subject


class Survey(BaseModel):
    """Look at this host."""

    subjects: list[str] | None = None
    """Also find these subjects, by name; None: none, empty: all servers."""
    floors: bool = False
    some: bool = False
    """Whether subjects that cannot be had here may be left out."""
    programs: str | None = None
    """The folder of the servers' executables; None: the project's."""


class Surveyed(BaseModel):
    """What was seen."""

    host: HostInfo
    limits: SystemLimits
    subjects: list[Subject] = []
    left_out: dict[str, str] = {}
    """Subjects that cannot be had here, and why."""
    peers: dict[str, Peer] = {}
    """What the strangers among the subjects say of themselves."""
    versions: SubjectVersions = SubjectVersions()
    nginx: str | None = None
    """The version of nginx; None where there is none."""
    slicing: str = ""
    """How a server can be given a slice of a core; empty: it cannot."""


class RoomOrder(BaseModel):
    """Wait until the kernel can remember the end of so many connections."""

    connections: int


class ServerOrder(BaseModel):
    """Start so many processes of a subject and wait until they listen."""

    subject: str
    instances: int = 1
    redis_url: str
    conditions: Conditions = Conditions("")
    answer_bytes: int = 0


class Listening(BaseModel):
    """Something listens there."""

    urls: list[str]


class SlowOrder(BaseModel):
    """Start a Redis that is slower than the one at `redis_url`."""

    redis_url: str
    delay_ms: float


class Switches(NamedTuple):
    """Context switches."""

    voluntary: int
    involuntary: int

    def __sub__(self, other: "Switches") -> "Switches":
        return Switches(self.voluntary - other.voluntary, self.involuntary - other.involuntary)


class Lifetime(BaseModel):
    """What the kernel says of buried servers and all that they waited for."""

    cpu: CpuTime
    switches: Switches


class ServersUse(BaseModel):
    """What the servers of one host used during one load. None: not to be had there."""

    alive: list[bool]
    """By server: whether it was still there at the end."""
    cpu: CpuTime | None
    """Of all."""
    wanted_us: list[float | None]
    """By server: for how many microseconds it ran or wanted to run."""
    spent_us: list[float | None] = []
    """By server: of how many it ran."""
    throttled: list[float | None] = []
    """By server: in which share of the periods of its quota it was stopped; None: it had none."""
    switches: Switches | None
    """Of all; None where tasks have come and gone, so that only their lives can be told."""
    faults: int | None = None
    """Page faults of all, and of those that they have waited for."""
    seconds: float
    """For so long they were watched: the load, and what is read around it."""
    busy: float | None
    """How busy their CPUs were, whoever kept them so."""
    cpus: int
    """To how many CPUs they are bound; 0: to none."""
    spread: int = 0
    """Over how many CPUs each of them may spread; 0: it has one."""
    own_backlog: int | None = None
    """The least that one of them has given to listen(), if it is less than the kernel allows."""
    tcp: TcpCounters | None
    samples: int
    processes_peak: int | None
    threads_peak: int | None
    descriptors_peak: int | None
    pss_peak_mb: float | None
    pss_mean_mb: float | None


class Weight(BaseModel):
    """The servers of one host at this moment."""

    pss: int
    """Bytes, of all processes."""
    anonymous: int
    descriptors: int
    ran_us: float
    """All tasks together, so far."""


class Calls(BaseModel):
    """What was called during a load."""

    by_name: dict[str, int] = {}
    """The most frequent first."""
    writes: int = 0
    """To clients."""


class Report(BaseModel):
    """One load as a host saw it."""

    host: HostCount
    allowed: float
    """How many CPUs' time the host may use."""
    servers: ServersUse | None = None
    balancer: BalancerUse | None = None
    redis_wanted_s: float | None = None
    """For how long Redis (or the slow one before it) ran or wanted to run."""


class Stopped(BaseModel):
    """How what was started for one run has ended."""

    servers: list[Ended] = []
    life: Lifetime | None = None
    """Of all servers together."""
    stacks: StackFigures | None = None
    """Where the first server's instructions were counted."""
    balancer: BalancerEnd | None = None


class Station(Protocol):
    """What can be asked, in this process or on another host. Everything may raise Interrupted, and
    on another host HostLost."""

    def survey(self, order: Survey) -> Surveyed:
        """What is here. Raises UserError for subjects that are not."""

    def start_redis(self) -> Listening:
        """Start a Redis server. Raises UserError."""

    def make_room(self, order: RoomOrder) -> None:
        """Wait until the kernel has room for what a run leaves, a minute at most."""

    def start_slow_redis(self, order: SlowOrder) -> Listening:
        """Start a slow Redis before another, for one run. Raises HelperError or UserError."""

    def start_servers(self, order: ServerOrder) -> Listening:
        """Start servers, for one run. Raises StartError or OSError."""

    def start_balancer(self, order: BalancerOrder) -> Listening:
        """Start nginx, for one run. Raises StartError or UserError."""

    def begin(self) -> None:
        """The load is about to begin."""

    def look(self) -> None:
        """Called often while the load runs; an agent does it by itself."""

    def end(self) -> Report:
        """The load is over; what was used."""

    def weigh(self) -> Weight:
        """What the servers hold now."""

    def start_trace(self) -> None:
        """Count the servers' system calls from now on. Raises StartError."""

    def stop_trace(self) -> Calls:
        """And until now."""

    def start_sampling(self) -> None:
        """Look at the servers' stacks from now on. Raises StartError."""

    def stop_sampling(self) -> StackFigures:
        """And until now. Raises StartError."""

    def stop_run(self) -> Stopped:
        """End what was started for this run. May be called twice; never raises."""

    def close(self) -> None:
        """End everything."""
