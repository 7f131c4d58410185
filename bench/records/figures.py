# SPDX-License-Identifier: MIT
"""Models of a run and of the figures that are measured in it. A figure is None if it was not
measured, or if the machine could not provide it. Milliseconds and seconds are floats, megabytes are
10^6 bytes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from bench.records.conditions import CellKey, Conditions, Role

Bottleneck = Literal["server", "load", "redis", "nginx", "none"]
Kind = Literal["server", "baseline", "reference"]
Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, in the order of the pairs."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if there are no values or one of them is unknown."""
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known and len(known) == len(values) else None


class Latency(BaseModel):
    """The times of requests in milliseconds, measured by the client."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    mean: float
    count: int
    source: str  # The source of the times: ab's two files, or another tool and its correction.


class TcpProblems(BaseModel):
    """The TCP counts of a host's kernel during the load, for the whole host."""

    listen_overflows: int | None = None
    """How many times a new connection found the accept queue full."""
    listen_drops: int | None = None
    """Connection attempts that were dropped for any reason, e.g. a full queue."""
    retransmits: int | None = None  # TCP segments that were sent again.
    time_wait_overflows: int | None = None
    """Ended connections that the kernel could not keep in TIME_WAIT."""


class ProcessFigures(TcpProblems):
    """The figures of the server under load: all its processes and threads, ended ones included.
    Figures of several instances are added. The TCP problems are counted on the server's hosts."""

    cpu_user_s: float
    cpu_system_s: float
    cpu_us_per_request: float
    cpu_user_us_per_request: float
    cpu_system_us_per_request: float
    cpu_share: float | None = None
    """CPU time divided by the time of the load: 1.0 is one core, always busy."""
    quota_used: float | None = None
    """CPU time divided by the quota for the time of the load: 1.0 is the whole quota. Several
    instances: their maximum. None: no quota."""
    throttled_share: float | None = None
    """The share of the quota's periods in which the server was stopped. Several instances: their
    maximum. None: no quota."""
    foreign_share: float | None = None
    """The share of the server's CPU that other processes used. Above QUIET, rates are too low."""
    voluntary_switches_per_request: float | None = None
    """Context switches because the server had to wait."""
    involuntary_switches_per_request: float | None = None
    """Context switches because the kernel preempted the server."""
    page_faults_per_request: float | None = None
    """Page faults of all processes, also those that copy a page after a fork."""
    pss_peak_mb: float | None = None
    """Proportional set size: a page that n processes share counts 1/n in each of them. So the
    proportional sizes of all processes can be added, unlike resident sizes."""
    pss_mean_mb: float | None = None
    processes_peak: int | None = None
    threads_peak: int | None = None  # The threads of all processes; each process has at least one.
    descriptors_peak: int | None = None  # Open descriptors of all processes together.
    samples: int = 0  # The number of samples of memory, processes and descriptors.
    source: str = ""  # The method that counted CPU time and switches.

    @property
    def core_rate(self) -> float | None:
        """Return the requests per second that a full core could serve."""
        return 1e6 / self.cpu_us_per_request if self.cpu_us_per_request else None


class OtherProcess(BaseModel):
    """The CPU time of the load generator, Redis or nginx during the load."""

    cpu_user_s: float
    cpu_system_s: float
    cpu_share: float
    """CPU time divided by the time of the load: 1.0 is one core, busy all the time."""

    @property
    def cpu_us(self) -> float:
        """Return the CPU time in microseconds."""
        return (self.cpu_user_s + self.cpu_system_s) * 1e6


class LittlesLaw(BaseModel):
    """Little's law: concurrency = rate x mean time. This program's clock measures the rate. The
    mean is from the times of all requests."""

    concurrency: int
    rate: float  # Requests per second.
    mean_ms: float
    product: float  # rate x mean: the average number of requests in progress.
    deviation: float  # product / concurrency - 1.


class OpenLoopFigures(BaseModel):
    """The report of a tool that sends at a constant rate, independent of the server."""

    tool: str
    rate_asked: float  # Requests per second.
    rate_done: float  # Answers per second, with any status.
    seconds: float
    sent: int
    succeeded: int
    status_codes: dict[str, int] = {}
    errors: dict[str, int] = {}
    uncorrected: Latency | None = None
    """Times since a request was sent. The times in `Run.latency` start when the request was due, so
    they include the wait in the tool while the server stalled."""


class HostFigures(TcpProblems):
    """The figures of a host during the load."""

    role: Role
    name: str
    cpu_share: float  # CPU time divided by the CPU time that the host may use: 1.0 is its limit.
    throttled_share: float | None = None
    """The share of the quota's periods in which the host was stopped; None without a quota."""


class AbFigures(BaseModel):
    """The report of ab. Times are in milliseconds unless the name has another unit."""

    complete: int
    failed: int
    failures: dict[str, int] = {}  # Failed requests by kind: connect, receive, length, exceptions.
    write_errors: int = 0
    non_2xx: int = 0
    keep_alive: int = 0
    concurrency: int
    transferred_bytes: int
    html_bytes: int  # Bodies only.
    seconds: float
    requests_per_second: float
    mean_ms: float  # Mean time of a request, measured by the client.
    percentiles_ms: dict[str, float] = {}
    """The time within which N % of the requests were served, by N; "100" is the longest time."""


class WrkFigures(BaseModel):
    """The report of wrk with wrk.lua, which counts answers by status and length."""

    seconds: float
    unasked: int
    """Planned requests that wrk did not send. If all answers came, the server sent this number of
    answers without a request."""
    transferred_bytes: int  # The bytes of all answers, heads and bodies.
    statuses: dict[str, int]  # Answers by status.
    lengths: dict[str, int]  # Answers by the length of their bodies.
    closes: int  # Answers with `Connection: close`.
    errors: dict[str, int]  # Errors by kind: connect, read, write, timeout.

    @property
    def complete(self) -> int:
        """Return the number of all answers."""
        return sum(self.statuses.values())

    @property
    def requests_per_second(self) -> float:
        """Return the number of answers per second."""
        return self.complete / self.seconds if self.seconds else 0.0


class ServerStatistics(BaseModel):
    """The server's own counts, which it prints at its end. None: not printed."""

    requests: int | None = None
    responses: dict[str, int] = {}  # Responses by class: {"2xx": 12000, ...}.
    bytes_sent: int | None = None  # Everything sent to clients, heads and bodies.
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    cpu_us_per_request: float | None = None
    """User and system CPU time of the server and its children, microseconds per request."""
    peak_memory_mb: float | None = None  # The peak memory of the server's largest process.
    workers: dict[str, int] = {}  # Requests by worker, for servers with a fixed number of workers.

    @property
    def cpu_user_us_per_request(self) -> float | None:
        """Return the user part of `cpu_us_per_request`."""
        return self._part(self.cpu_user_s)

    @property
    def cpu_system_us_per_request(self) -> float | None:
        """Return the system part of `cpu_us_per_request`."""
        return self._part(self.cpu_system_s)

    def _part(self, of: float | None) -> float | None:
        each, spent = self.cpu_us_per_request, (self.cpu_user_s or 0.0) + (self.cpu_system_s or 0.0)
        return each * (of or 0.0) / spent if each is not None and spent > 0 else None


QUIET = 0.10
"""The largest median share of the server's CPU that other processes use on a quiet machine."""


class MemoryFigures(BaseModel):
    """The memory of all processes of a server with many connections, in bytes."""

    connections: int = Field(gt=0)
    before: int  # Proportional set size after a first request.
    pss: int  # Proportional set size with all connections.
    anonymous: int  # The part of `pss` that no file backs (anonymous memory).

    @property
    def per_connection(self) -> float:
        """Return bytes per connection."""
        return (self.pss - self.before) / self.connections


class CallFigures(BaseModel):
    """The system calls of a server under load, counted by strace."""

    per_request: dict[str, float]  # System calls per request by name, the most frequent first.
    writes: float  # Writes to clients per request; the number should be 1.

    @property
    def total(self) -> float:
        """Return all calls per request."""
        return sum(self.per_request.values())

    @property
    def often(self) -> list[tuple[str, float]]:
        """Return the system calls that are made at least 0.005 times per request."""
        return [(name, number) for name, number in self.per_request.items() if number >= 0.005]


class Frame(BaseModel):
    """A function in the stacks of a profile, and the functions that it called."""

    name: str
    count: int  # Samples or instructions of the function and of all functions that it called.
    of: Literal["server", "library", "kernel"] = "server"
    """The origin of the function; a library is usually the C library."""
    below: list["Frame"] = []  # The functions that it called, the most expensive first.

    @property
    def own(self) -> int:
        """Return the count of the function without the counts of its stored callees."""
        return self.count - sum(frame.count for frame in self.below)


class StackFigures(BaseModel):
    """The function stacks of a server under load."""

    how: Literal["perf", "pprof", "callgrind"]
    """perf: samples of CPU time, if permitted also in the kernel; pprof: samples by Go's runtime;
    callgrind: instructions in user space only."""
    kernel: bool  # Whether functions of the kernel are included.
    user_share: float | None = None  # The share of samples in user space; None: unknown.
    frames: list[Frame]  # The outermost functions.

    @property
    def count(self) -> int:
        """Return the number of all samples or instructions."""
        return sum(frame.count for frame in self.frames)

    @property
    def unit(self) -> str:
        """Return the unit of the counts."""
        return "instructions" if self.how == "callgrind" else "samples"


# ---- Runs ----

Held = Literal["held", "failed", "skipped"]
OLD_WORKLOADS = {"/guestbook": "guestbook", "/redirect": "redirect", "/sorted": "sorted"}
"""Paths that name a workload in files of version 1."""


class Check(BaseModel):
    """A check of a run and its result."""

    name: str
    holds: bool
    label: str = ""  # The failure in one or two words, for the table.
    detail: str = ""  # The failure in a sentence.


class Reason(BaseModel):
    """The reason why there is no valid result."""

    label: str  # The reason in one or two words, for a table.
    text: str  # The reason in a sentence.


class Run(BaseModel):
    """One run of a configuration. A run that is not valid has no rate."""

    model_config = ConfigDict(populate_by_name=True)

    subject: str = Field(validation_alias=AliasChoices("subject", "server"))
    """The name of the server under test, e.g. "epoll", "baseline-epoll" or "nginx"."""
    kind: Kind = "server"
    architecture: str | None = None
    """The server that has this architecture: "epoll" for epoll and for baseline-epoll."""
    conditions: Conditions  # In a file each condition is a field of the run.
    concurrency: int = Field(gt=0)  # Concurrent connections; in the open loop their maximum.
    run: int  # The run's number, from 1.
    state: Held
    reason: Reason | None = None
    outlier: bool = False
    """Whether the rate differs much from the other runs' rates; an outlier still counts."""
    requests: int = Field(gt=0)  # The planned number of requests.
    started: datetime | None = None
    seconds: float = 0.0
    """The run's duration in seconds, with start and end of the servers, without `waited`."""
    waited: float = 0.0
    """Additional seconds until older connections left TIME_WAIT, see `bench.host.sockets`."""
    probe_status: int | None = None
    idle_reopened: int | None = None
    """How many times the server closed an idle connection; a new one replaced it each time."""
    ab_command: list[str] = []
    """The load generator's command line, also for other generators than ab."""
    ab: AbFigures | None = None
    wrk: WrkFigures | None = None
    open_loop: OpenLoopFigures | None = None
    latency: Latency | None = None
    process: ProcessFigures | None = None
    memory: MemoryFigures | None = None  # Only in the modes "parked" and "pending".
    calls: CallFigures | None = None  # Only in the mode "traced".
    stacks: StackFigures | None = None  # Only in the modes "sampled" and "counted".
    load_process: OtherProcess | None = None
    redis_process: OtherProcess | None = None
    nginx_process: OtherProcess | None = None
    hosts: list[HostFigures] = []
    """The hosts during the load; empty if everything ran on one machine."""
    bottleneck: Bottleneck | None = None
    """The program or host at its limit; "none": none was at its limit. None: unknown."""
    bottleneck_host: str | None = None
    """The name of the host at its limit; None: no host, or everything ran on one machine."""
    lower_bound: bool = False
    """True: the load generator was at its limit, the server was not. The server may be faster."""
    littles_law: LittlesLaw | None = None
    server_statistics: ServerStatistics | None = None
    """The server's own counts; reference servers and baselines print none."""
    checks: list[Check] = []

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: object) -> object:
        """Build `conditions` from the fields of a file."""
        if not isinstance(data, dict) or "conditions" in data:
            return data
        rest = dict(data)
        found = {name: rest.pop(name) for name in Conditions._fields if name in rest}
        workload = str(found.get("workload"))
        found["workload"] = OLD_WORKLOADS.get(workload, workload)
        return rest | {"conditions": found}

    @model_serializer(mode="wrap")
    def _spread(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in handler(self).items():
            found |= self.conditions._asdict() if name == "conditions" else {name: value}
        return found

    @property
    def key(self) -> CellKey:
        """Return the configuration of the run."""
        return CellKey(self.subject, self.conditions, self.concurrency)

    @property
    def disturbed_by(self) -> float | None:
        """Return the share of the server's CPU that other processes used. None: the share is
        unknown, or the server used up its quota and so was not disturbed."""
        if self.process is None or (self.conditions.quota and self.bottleneck == "server"):
            return None
        return self.process.foreign_share

    @property
    def disturbed(self) -> bool:
        """Return whether other programs used much of the server's CPU."""
        return (self.disturbed_by or 0) > QUIET

    @property
    def requests_per_second(self) -> float | None:
        """Return the rate; None if the run is not valid, or has no rate."""
        if self.state != "held" or not self.conditions.rated:
            return None
        tool = self.wrk or self.ab
        rate = tool.requests_per_second if tool else 0.0
        rate = self.open_loop.rate_done if self.open_loop else rate
        return rate if rate > 0 else None
