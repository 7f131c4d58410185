# SPDX-License-Identifier: MIT
"""The input and the outcome of a load generator, the same for all of them."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from bench.host.accounting import CpuTime
from bench.host.process import RanChild
from bench.records.errors import NoFigure
from bench.records.figures import Latency


@dataclass(frozen=True)
class Load:
    """The load that a generator makes."""

    url: str
    requests: int
    connections: int
    """Concurrent connections; in the open loop their maximum."""
    timeout: float
    """Seconds after which the run is stopped."""
    keep_alive: bool = False
    form: str | None = None
    """The body of a POST; None: GET."""
    any_length: bool = False
    """Whether responses may differ in length; see `bench.load.ab.command`."""
    rate: float = 0.0
    """Requests per second, in the open loop."""


class WarmUpFailed(NoFigure):
    """The warm-up requests were not answered; the message says why."""

    label = "warm-up"


Own = TypeVar("Own", bound="Outcome")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a load."""

    command: list[str] = field(default_factory=list)
    status: int | None = None
    """Its exit status."""
    timed_out: bool = False
    message: str = ""
    """The line of its standard error that names the error."""
    report: str = ""
    """Its whole standard output."""
    latency: Latency | None = None
    wall_seconds: float = 0.0
    """From its start to its end by our own clock."""
    cpu: CpuTime | None = None
    """The CPU time of the generator, in microseconds."""
    demand: float | None = None
    """The share of `wall_seconds` in which it ran or wanted to run."""

    def of(self: Own, ran: RanChild) -> Own:
        """Return the outcome with all that is known of the generator's process."""
        return replace(
            self,
            status=ran.child.exit_status,
            timed_out=not ran.in_time,
            report=ran.child.stdout,
            wall_seconds=ran.wall_seconds,
            cpu=ran.cpu,
            demand=ran.demand,
        )
