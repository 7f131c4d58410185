# SPDX-License-Identifier: MIT
"""What a load generator is asked to do, and what came of it: the same of all of them."""

from dataclasses import dataclass, field

from bench.host.accounting import CpuTime
from bench.records.errors import NoFigure
from bench.records.figures import Latency


@dataclass(frozen=True)
class Load:
    """What a load generator is asked to do."""

    url: str
    requests: int
    connections: int
    """At once; in the open loop the most that may be open."""
    timeout: float
    """Seconds until the run is broken off."""
    keep_alive: bool = False
    form: str | None = None
    """The body of a POST; None: GET."""
    any_length: bool = False
    """Whether responses may differ in length; see `bench.load.ab.command`."""
    rate: float = 0.0
    """Requests per second, in the open loop."""


class WarmUpFailed(NoFigure):
    """The requests before those that count were not answered; the message says why."""

    label = "warm-up"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    command: list[str] = field(default_factory=list)
    status: int | None = None
    """Its exit status."""
    timed_out: bool = False
    message: str = ""
    """The line that it wrote to standard error about what went wrong."""
    report: str = ""
    """All that it printed."""
    latency: Latency | None = None
    wall_seconds: float = 0.0
    """From its start to its end by our own clock."""
    cpu: CpuTime | None = None
    """What it used itself, in microseconds."""
    demand: float | None = None
    """The share of that time in which it ran or wanted to run."""
