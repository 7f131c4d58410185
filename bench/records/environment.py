# SPDX-License-Identifier: MIT
"""Models of a sweep's machines, their limits and the versions of programs."""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import BaseModel

from bench.records.conditions import Role
from bench.records.words import plural


class Machine(BaseModel):
    """The machine on which the command ran. None: unknown, or missing in an older file."""

    system: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    load_average_at_start: list[float] = []

    def describe(self) -> str:
        """Return a line: "Intel Xeon, 2 CPUs, Linux 6.1", without unknown parts. The suffix of the
        kernel's release is left out because it names one machine's build."""
        cpus = plural(self.cpus, "CPU") if self.cpus else None
        linux = f"Linux {'.'.join(self.kernel.split('.')[:2])}" if self.kernel else None
        return ", ".join(filter(None, (self.cpu_model, cpus, linux))) or "machine not recorded"


class Checkout(BaseModel):
    """The commit of this project."""

    commit: str
    changed_files: int = 0  # The number of files that differ from this commit.


class SubjectVersions(BaseModel):
    """The versions of the servers under test, by name; None: unknown."""

    servers: dict[str, str | None] = {}
    references: dict[str, str | None] = {}
    compilers: dict[str, str | None] = {}  # The compilers of the servers.


class Versions(SubjectVersions):
    """The versions of all programs of a sweep. None: not installed, or unknown."""

    ab: str | None = None
    oha: str | None = None
    wrk: str | None = None
    redis: str | None = None
    python: str | None = None
    sources: str | None = None  # A hash of the sources of the sweep and of the servers.
    git: Checkout | None = None
    nginx: str | None = None


class HostInfo(BaseModel):
    """A host of the testbed."""

    role: Role
    name: str
    address: str  # The address for data traffic.
    kernel: str = ""
    cpu_model: str = ""
    cpus: int = 1  # The number of CPUs that the host may use.
    cpu_limit: float | None = None  # The host's CPU quota: 1.0 is one CPU. None: no quota.
    limited_by: str = ""  # The mechanism of the quota: "cgroup v1", "cgroup v2".
    memory_mb: int = 0
    settings: dict[str, str | int | None] = {}
    """The relevant kernel settings, and the limit of descriptors of a process."""


class Placement(BaseModel):
    """The CPU numbers of server and load. An empty list: the kernel decides."""

    server: list[int]
    load: list[int]  # The CPU numbers of the load generator, Redis, nginx and this program.
    note: str


UNLIMITED = 2**31
"""The value for "no limit": more than any level."""


class SystemLimits(BaseModel):
    """The limits of a host and of its processes. None or UNLIMITED: no known limit."""

    descriptors: int
    """Open descriptors of a process: the hard limit, to which the soft limit is raised."""
    somaxconn: int
    syn_backlog: int
    syn_cookies: int  # 0 off, 1 when the queue is full, 2 always.
    ports: int  # The number of local ports for outgoing connections.
    time_wait_reuse: int
    """Whether ports in TIME_WAIT are reused: 0 never, 1 always, 2 on the loopback interface."""
    time_wait_memory: int = UNLIMITED
    """The kernel's limit of connections in TIME_WAIT, see `bench.host.sockets`."""
    tasks: int = UNLIMITED  # The lowest limit for the number of processes and threads.
    tasks_name: str = "no limit"
    tasks_fix: str = ""
    ab_ceiling: int | None = None


class Limit(Enum):
    """The limits that are checked."""

    AB = "ab"
    DESCRIPTORS = "descriptors"
    PORTS = "ports"
    ACCEPT_QUEUE = "accept queue"
    HALF_OPEN = "half-open"
    RESTING_PORTS = "resting ports"
    TIME_WAIT = "TIME_WAIT"
    TASKS = "tasks"


class Finding(BaseModel):
    """A limit that is too low for some levels."""

    about: Limit | None = None  # None: unknown, in the record of an older sweep.
    limit: str
    have: str
    need: str
    levels: list[int]
    """The affected numbers of connections. They include idle ones, except for ab's own limit."""
    impossible: bool = False
    """True: these levels are skipped. False: they are run, but may fail or be slower."""
    consequence: str  # The effect of the limit, as a part of a sentence.
    fix: str  # The command that raises the limit, or other advice.

    def describe(self) -> str:
        """Return the finding in one sentence, without its fix."""
        return f"{self.limit}: {self.have}, needed: {self.need}; {self.consequence}"


class Head(BaseModel):
    """The fields that the records of sweeps and robustness tests share. (Subclasses also name
    BaseModel as a base class, because ruff checks each file alone.)"""

    schema_name: str
    schema_version: int
    started: datetime
    command: list[str] = []
    machine: Machine = Machine()
    versions: Versions = Versions()
    placement: Placement | None = None


State = Literal["well", "note", "warning", "impossible"]
NOT_WELL: frozenset[State] = frozenset({"warning", "impossible"})


class DoctorLine(BaseModel):
    """The result of one check of `zerohttpd doctor`."""

    topic: str
    have: str  # The value that was found.
    need: str  # The value that the chosen runs need.
    state: State = "well"
    fix: str = ""
    """A command that fixes the problem, or advice; empty if all is well or there is no fix."""
