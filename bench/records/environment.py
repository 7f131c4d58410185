# SPDX-License-Identifier: MIT
"""What is known of the machines that took part: the models."""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import BaseModel

from bench.records.figures import Role
from bench.records.words import plural


class Machine(BaseModel):
    """The machine that the sweep ran on. None: older files, or the kernel, did not say."""

    system: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    cpu_model: str | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    load_average_at_start: list[float] = []

    def describe(self) -> str:
        """One line: "Intel Xeon, 2 CPUs, Linux 6.1"; unknown parts are left out. The suffix of a
        kernel's release names one machine's build, so it is left out."""
        parts = (
            self.cpu_model,
            plural(self.cpus, "CPU") if self.cpus else None,
            f"Linux {'.'.join(self.kernel.split('.')[:2])}" if self.kernel else None,
        )
        return ", ".join(part for part in parts if part) or "machine not recorded"


class Checkout(BaseModel):
    """The commit of this project."""

    commit: str
    changed_files: int = 0
    """So many files differ from it."""


class SubjectVersions(BaseModel):
    """Of the subjects, by name, as each of them states it; None: it did not say."""

    servers: dict[str, str | None] = {}
    strangers: dict[str, str | None] = {}
    compilers: dict[str, str | None] = {}
    """Of the servers."""


class Versions(SubjectVersions):
    """Of everything that takes part in a sweep. None: not there, or it did not say."""

    ab: str | None = None
    oha: str | None = None
    wrk: str | None = None
    redis: str | None = None
    python: str | None = None
    sources: str | None = None
    """A number that differs where the sources of the sweep or of the servers do."""
    git: Checkout | None = None
    nginx: str | None = None


class HostInfo(BaseModel):
    """A host that takes part."""

    role: Role
    name: str
    address: str
    """Of the data traffic."""
    kernel: str = ""
    cpu_model: str = ""
    cpus: int = 1
    """That it may use."""
    cpu_limit: float | None = None
    """Its quota of CPU time: 1.0 is one CPU. None: no limit but the CPUs."""
    limited_by: str = ""
    """What enforces it: "cgroup v1", "cgroup v2"."""
    memory_mb: int = 0
    settings: dict[str, str | int | None] = {}
    """The kernel's settings that matter, and the descriptors that a process may have."""


class Placement(BaseModel):
    """CPU numbers. Empty: not placed, the kernel decides."""

    server: list[int]
    load: list[int]
    """For ab, Redis, nginx and this program."""
    note: str


UNLIMITED = 2**31
"""Stands for "no limit": more than any level."""


class SystemLimits(BaseModel):
    """Limits in force for this process and its children. None or UNLIMITED: none known."""

    descriptors: int
    """A process may have so many open (hard limit; `raise_descriptors` goes up to it)."""
    somaxconn: int
    syn_backlog: int
    syn_cookies: int
    """0 off, 1 when the queue is full, 2 always."""
    ports: int
    """How many local ports outgoing connections may use."""
    time_wait_reuse: int
    """0 never, 1 always, 2 on the loopback interface."""
    time_wait_memory: int = UNLIMITED
    """How many connections in TIME_WAIT the kernel remembers; see `bench.host.kernel`."""
    tasks: int = UNLIMITED
    """Processes and threads: the lowest of the limits in force."""
    tasks_name: str = "no limit"
    tasks_cure: str = ""
    ab_ceiling: int | None = None


class Limit(Enum):
    """The limits that can be in the way."""

    AB = "ab"
    DESCRIPTORS = "descriptors"
    PORTS = "ports"
    ACCEPT_QUEUE = "accept queue"
    HALF_OPEN = "half-open"
    RESTING_PORTS = "resting ports"
    TIME_WAIT = "TIME_WAIT"
    TASKS = "tasks"


class Finding(BaseModel):
    """A limit that is in the way of some levels."""

    about: Limit | None = None
    """None: an older sweep did not say."""
    limit: str
    have: str
    need: str
    levels: list[int]
    """The levels concerned: connections at once, idle ones included; of a limit of ab's only those
    that it opens."""
    impossible: bool
    """True: these levels are skipped. False: they are run, and may fail or be slowed."""
    consequence: str
    """What happens otherwise, in half a sentence."""
    cure: str
    """The command to type, or what else to do."""

    def describe(self) -> str:
        """The finding in one sentence, without its cure."""
        return f"{self.limit}: {self.have}, needed: {self.need}; {self.consequence}"


class Head(BaseModel):
    """What each record begins with, be it of a sweep or of a torture: which form it has; when, by
    which words, where and with what it was made. (Records name BaseModel as well: ruff looks no
    further than their own file.)"""

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
    """One thing that was looked at."""

    topic: str
    have: str
    """What is."""
    need: str
    """What the chosen runs need."""
    state: State = "well"
    cure: str = ""
    """The command to type; empty where all is well or nothing can be done."""

    def in_words(self) -> tuple[str, str, str, str]:
        """State, topic, what is, what is needed."""
        return self.state, self.topic, self.have, self.need
