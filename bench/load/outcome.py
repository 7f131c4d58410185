# SPDX-License-Identifier: MIT
"""The input and the outcome of a load generator, the same for all of them."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.host.accounting import CpuTime, rusage_of_buried
from bench.host.process import Child
from bench.host.signals import SignalWatch
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


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a load."""

    command: list[str] = field(default_factory=list)
    status: int | None = None
    """Its exit status."""
    timed_out: bool = False
    message: str = ""
    """Its standard error; of a named generator the line that names the error."""
    report: str = ""
    """Its whole standard output."""
    latency: Latency | None = None
    wall_seconds: float = 0.0
    """From its start to its end by our own clock."""
    cpu: CpuTime | None = None
    """The CPU time of the generator, in microseconds."""
    demand: float | None = None
    """The share of `wall_seconds` in which it ran or was runnable; None if unknown."""


def run_measured(
    command: Sequence[str],
    cpus: Sequence[int],
    seconds: float,
    watch: SignalWatch,
    meanwhile: Callable[[], None] | None = None,
    idle: float = 0.0,
) -> Outcome:
    """Run a load generator for `seconds` at most, calling `meanwhile` several times a second. Then
    end it by SIGINT, after which it still prints its results. `idle`: seconds in which it cannot
    run. May raise Interrupted; it has ended then, too."""
    before, begin = rusage_of_buried(), time.monotonic()
    child = Child(command, cpus)
    demands: list[float] = []

    def look() -> None:
        demands.append(child.demand_seconds() or 0.0)  # threads are counted only while they exist
        if meanwhile:
            meanwhile()

    try:
        in_time = child.wait(seconds, watch, look)
        wall = time.monotonic() - begin
        demands.append(child.demand_seconds() or 0.0)
    finally:
        child.end(number=signal.SIGINT)
    wanted = max(demands)
    return Outcome(
        status=child.exit_status,
        timed_out=not in_time,
        message=child.stderr,
        report=child.stdout,
        wall_seconds=wall,
        cpu=rusage_of_buried() - before,
        demand=min(1.0, wanted / max(wall - idle, 0.01)) if wanted else None,
    )
