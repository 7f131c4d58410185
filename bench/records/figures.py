# SPDX-License-Identifier: MIT
"""What is measured in a run beside the load generator's own report: the models.

Everything here may be missing from a run (None): not measured, or not to be had on that machine.
Milliseconds and seconds are floats, megabytes are 10^6 bytes.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import BaseModel, Field

Bottleneck = Literal["server", "load", "redis", "nginx", "none"]
Generator = Literal["ab", "wrk"]
"""Who asks, in the closed loop: ab, over HTTP/1.0, or wrk, over HTTP/1.1."""
GENERATORS: tuple[Generator, ...] = get_args(Generator)
Cores = Literal["one", "all"]
"""Of a server: one of its own, or whichever of its host is free, beside whoever else is there."""
CORES: tuple[Cores, ...] = get_args(Cores)
Balancer = Literal["none", "close", "keep"]
BALANCERS: tuple[Balancer, ...] = get_args(Balancer)
Role = Literal["load", "nginx", "server", "redis"]
Kind = Literal["server", "floor", "stranger"]
Mode = Literal["closed", "open", "parked", "pending", "traced", "sampled", "counted"]
"""How a server is asked. closed: by ab, which asks again when it has been answered; open: at a
constant rate; parked: each connection asks once and is kept; pending: each asks once, and Redis is
held, so that none is answered. By ab again: traced, while its system calls are counted; sampled,
while a profiler looks thousands of times a second where it is; counted, while its instructions
are."""
PROBES: tuple[Mode, ...] = ("parked", "pending", "traced", "sampled", "counted")
"""What gives no rate, but other figures."""


def total(values: Sequence[float | None]) -> float | None:
    """Their sum; None unless all are known, and there is one at all."""
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known and len(known) == len(values) else None


class Latency(BaseModel):
    """How long requests took as their clients saw it, in milliseconds, from data per request."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    mean: float
    count: int
    source: str
    """Where the data come from: "ab -g", or the open-loop tool and what it corrects."""


class ProcessFigures(BaseModel):
    """The server under load: all its processes and threads together, ended ones included; of
    several instances the sum."""

    cpu_user_s: float
    cpu_system_s: float
    cpu_us_per_request: float
    cpu_user_us_per_request: float
    cpu_system_us_per_request: float
    cpu_share: float | None = None
    """CPU time over the time of the load: 1.0 is one core, busy throughout."""
    quota_used: float | None = None
    """CPU time over what its quota granted in the time of the load: 1.0 is all. Of several
    instances the most. None: no quota."""
    throttled_share: float | None = None
    """In which share of the periods of its quota the kernel stopped it, since all was used up."""
    foreign_share: float | None = None
    """How much of its CPU somebody else used meanwhile: above some hundredths the machine was
    not quiet, and rates are too low."""
    voluntary_switches_per_request: float | None = None
    """It gave up the CPU in order to wait."""
    involuntary_switches_per_request: float | None = None
    """The kernel took the CPU away from it."""
    page_faults_per_request: float | None = None
    """Pages that the kernel had to find for it, copied ones too: a fork's are its child's."""
    pss_peak_mb: float | None = None
    """Proportional set size: a page that n processes share counts 1/n in each, so that the sum
    over all processes is right where the sum of resident sizes is not."""
    pss_mean_mb: float | None = None
    processes_peak: int | None = None
    threads_peak: int | None = None
    """Of all processes together; one without threads of its own counts one."""
    descriptors_peak: int | None = None
    """Open descriptors of all processes together."""
    listen_overflows: int | None = None
    """Connections that met a full accept queue. Counted by the kernel for the whole host."""
    listen_drops: int | None = None
    """SYNs that were dropped for any reason, full queues among them. For the whole host."""
    retransmits: int | None = None
    """TCP segments sent again. For the whole host."""
    time_wait_overflows: int | None = None
    """Ended connections that the kernel had no room to remember. For the whole host."""
    samples: int = 0
    """How often memory, processes and descriptors were looked at."""
    source: str = ""
    """How CPU time and switches were counted."""


class OtherProcess(BaseModel):
    """What the load generator, Redis or nginx used during the load."""

    cpu_user_s: float
    cpu_system_s: float
    cpu_share: float
    """CPU time over the time of the load: 1.0 is one core, busy throughout."""


class LittlesLaw(BaseModel):
    """Concurrency = rate x mean time, from figures that were measured apart from each other: the
    rate by our own clock around the load, the mean from the times of the single requests."""

    concurrency: int
    rate: float
    """Requests per second."""
    mean_ms: float
    product: float
    """rate x mean: how many requests were under way on average."""
    deviation: float
    """product / concurrency - 1."""


class OpenLoopFigures(BaseModel):
    """What a tool reported that sends at a constant rate, whatever the server does."""

    tool: str
    rate_asked: float
    """Requests per second."""
    rate_done: float
    """Successful answers per second."""
    seconds: float
    sent: int
    succeeded: int
    status_codes: dict[str, int] = {}
    errors: dict[str, int] = {}
    uncorrected: Latency | None = None
    """Counted from the moment at which a request was really sent. `Run.latency` counts from the
    moment at which it was due: what waited in the tool because the server stalled is in it."""


class HostFigures(BaseModel):
    """A host during the load, whatever ran there."""

    role: Role
    name: str
    cpu_share: float
    """CPU time over what it may use: 1.0 is at its limit."""
    throttled_share: float | None = None
    """In which share of the periods of its quota it was stopped; None: no quota, or not known."""
    listen_overflows: int | None = None
    """Connections that met a full accept queue."""
    listen_drops: int | None = None
    """SYNs that were dropped for any reason."""
    retransmits: int | None = None
    """TCP segments sent again."""
    time_wait_overflows: int | None = None
    """Ended connections that the kernel had no room to remember."""


class AbFigures(BaseModel):
    """What ab reported about the requests that it made. Times in milliseconds unless named."""

    complete: int
    failed: int
    failures: dict[str, int] = {}
    """Failed requests by kind: connect, receive, length, exceptions."""
    write_errors: int = 0
    non_2xx: int = 0
    keep_alive: int = 0
    concurrency: int
    transferred_bytes: int
    html_bytes: int
    """Bodies only."""
    seconds: float
    requests_per_second: float
    mean_ms: float
    """Mean time of a request as its client saw it."""
    percentiles_ms: dict[str, float] = {}
    """Per cent of the requests -> served within; "100" is the longest."""


class WrkFigures(BaseModel):
    """What wrk saw of the answers to the requests that it was asked for, one by one."""

    seconds: float
    unasked: int
    """So many answers came that nobody had asked for."""
    transferred_bytes: int
    """Of all answers, heads and bodies."""
    statuses: dict[str, int]
    """Answers by status."""
    lengths: dict[str, int]
    """The same by the length of their bodies."""
    closes: int
    """So many of them said that the connection will be closed."""
    errors: dict[str, int]
    """Connections that could not be opened, broke, could not be written to, or did not answer in
    time."""

    @property
    def complete(self) -> int:
        """All answers."""
        return sum(self.statuses.values())

    @property
    def requests_per_second(self) -> float:
        """Answers per second."""
        return self.complete / self.seconds if self.seconds else 0.0


class ServerStatistics(BaseModel):
    """What a server counted itself, printed when it ends. None: it did not say."""

    requests: int | None = None
    responses: dict[str, int] = {}
    """Responses by class: {"2xx": 12000, ...}."""
    bytes_sent: int | None = None
    """Everything sent to clients, heads and bodies."""
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    cpu_us_per_request: float | None = None
    """User and system CPU time of the server and its children, microseconds per request."""
    peak_memory_mb: float | None = None
    """Of its largest process."""
    workers: dict[str, int] = {}
    """Requests by worker, for servers with a fixed number of workers."""


QUIET = 0.10
"""If others used more of the server's CPU than this, in the median of a cell's runs, then the
machine was not quiet."""


class MemoryFigures(BaseModel):
    """What many connections of one kind cost a server. Bytes; of all its processes."""

    connections: int = Field(gt=0)
    before: int
    """Proportional set size when it had answered a first request."""
    pss: int
    """The same with all connections."""
    anonymous: int
    """Of these: memory that no file stands behind."""

    @property
    def per_connection(self) -> float:
        """Bytes."""
        return (self.pss - self.before) / self.connections


class CallFigures(BaseModel):
    """System calls of a server under load, as strace sees them."""

    per_request: dict[str, float]
    """By name, the most frequent first."""
    writes: float
    """Writes to clients per request: should be one."""

    @property
    def total(self) -> float:
        """All calls per request."""
        return sum(self.per_request.values())

    @property
    def often(self) -> list[tuple[str, float]]:
        """Those that are made for more than one request in two hundred."""
        return [(name, number) for name, number in self.per_request.items() if number >= 0.005]


class Frame(BaseModel):
    """A function in the stacks of a profile, and what it has called."""

    name: str
    count: int
    """Samples, or instructions: of itself and of all that it has called."""
    of: Literal["server", "library", "kernel"] = "server"
    """Whose it is; a library is the C library, mostly."""
    below: list["Frame"] = []
    """What it has called, the dearest first."""

    @property
    def own(self) -> int:
        """Of itself alone, and of what was too small to be kept."""
        return self.count - sum(frame.count for frame in self.below)


class StackFigures(BaseModel):
    """Where a server was under load, function by function."""

    how: Literal["perf", "pprof", "callgrind"]
    """perf: samples of its CPU time, in the kernel too if that was allowed; pprof: samples that
    Go's runtime has taken of itself; callgrind: instructions, of user space alone."""
    kernel: bool
    """Whether the kernel's functions were seen."""
    user_share: float | None = None
    """Of the samples, those in which the CPU was in user space; None: not told apart."""
    frames: list[Frame]
    """The outermost ones."""

    @property
    def count(self) -> int:
        """Samples or instructions, all together."""
        return sum(frame.count for frame in self.frames)

    @property
    def unit(self) -> str:
        """What is counted."""
        return "instructions" if self.how == "callgrind" else "samples"
