# SPDX-License-Identifier: MIT
"""What a station is asked for, and what it answers. See `bench.stations.station`.

The same words inside one process and, as JSON, between two hosts.
"""

from pydantic import BaseModel

from bench.host.quota import HostCount
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, SystemLimits
from bench.records.figures import Kind
from bench.services.balancer import BalancerEnd, BalancerUse
from bench.stations.footprint import Lifetime, ServersUse
from bench.subjects.running import Ended
from bench.subjects.subject import Subject


class Survey(BaseModel):
    """Look at this host."""

    subjects: list[str] | None = None
    """Also find these subjects, by name; None: none, empty: all servers."""
    floors: bool = False
    programs: str | None = None
    """The folder of the servers' executables; None: the project's."""


class SubjectFacts(BaseModel):
    """What one must know of a subject that is on another host."""

    name: str
    kind: Kind
    architecture: str | None
    workloads: list[str] | None
    announces: bool
    always_closes: bool
    stalled_by: str | None = None

    @staticmethod
    def of(subject: Subject) -> "SubjectFacts":
        """Of one that is here."""
        names = None if subject.workloads is None else sorted(subject.workloads)
        facts = {name: getattr(subject, name) for name in SubjectFacts.model_fields}
        return SubjectFacts(**(facts | {"workloads": names}))

    def subject(self) -> Subject:
        """The same as a subject, which can be started where it is only."""
        names = None if self.workloads is None else frozenset(self.workloads)
        facts = self.model_dump() | {"workloads": names}
        return Subject(command=_elsewhere, **facts)


class Surveyed(BaseModel):
    """What was seen."""

    host: HostInfo
    limits: SystemLimits
    subjects: list[SubjectFacts] = []
    versions: dict[str, dict[str, str | None]] = {}
    """Of the subjects and their compilers, as `bench.host.machine` has them."""
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
    balancer: BalancerEnd | None = None


def _elsewhere(_: object) -> list[str]:
    raise AssertionError("this subject is on another host")
