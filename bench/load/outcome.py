# SPDX-License-Identifier: MIT
"""A load generator, its input and its outcome: the same for all of them."""

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.host.accounting import CpuTime, rusage_of_reaped
from bench.host.kernel import difference
from bench.host.process import Child
from bench.host.programs import find_program, require
from bench.host.signals import SignalWatch
from bench.records.errors import NoFigure
from bench.records.figures import AbFigures, Latency, MemoryFigures, OpenLoopFigures, WrkFigures


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

    tool: str = ""
    """The name of the load generator; empty: this process made the load."""
    command: list[str] = field(default_factory=list)
    status: int | None = None
    """Its exit status."""
    timed_out: bool = False
    message: str = ""
    """Its standard error; of a named generator the line that names the error."""
    report: str = ""
    """Its whole standard output."""
    figures: AbFigures | WrkFigures | OpenLoopFigures | None = None
    """Its figures; None if it has not reported them."""
    completed: int | None = None
    """Requests completed, also if there are no figures; None: unknown."""
    body_bytes: int | None = None
    """The bodies of all responses, if only the generator of the open loop reports them."""
    memory: MemoryFigures | None = None
    """The memory of the connections, if this process has measured it."""
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
    before, begin = rusage_of_reaped(), time.monotonic()
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
        cpu=difference(rusage_of_reaped(), before),
        demand=min(1.0, wanted / max(wall - idle, 0.01)) if wanted else None,
    )


@dataclass(frozen=True)
class Generator:
    """A program that makes a load."""

    name: str
    group: str
    """The group of scripts/setup.sh that installs it."""
    version_option: str
    command: Callable[[Load, Path], list[str]]
    """Return its command line for a load; it writes its data into this folder, which has the body
    of a POST as `form`."""
    read: Callable[[Outcome, Load, Path], Outcome]
    """Return its outcome with the figures in its output and in the folder."""
    idle: float = 0.0
    """See `run_measured`."""

    def run(
        self,
        load: Load,
        cpus: Sequence[int],
        watch: SignalWatch,
        meanwhile: Callable[[], None] | None = None,
    ) -> Outcome:
        """Run it to its end, or to the load's timeout, calling `meanwhile` several times a second.
        May raise Interrupted; it has ended then, too."""
        with tempfile.TemporaryDirectory(prefix=f"zerohttpd-{self.name}-") as name:
            folder = Path(name)
            if load.form is not None:
                (folder / "form").write_text(load.form)
            words = self.command(load, folder)
            ran = run_measured(words, cpus, load.timeout, watch, meanwhile, self.idle)
            shown = self.command(load, Path())  # without the temporary folder
            return self.read(replace(ran, tool=self.name, command=shown), load, folder)

    def require(self) -> str:
        """Return its path. Raise UserError unless it is installed."""
        return require(self.name, find_program(self.name), self.group)

    def version(self) -> str | None:
        """Return its name and version, without its copyright; None if it is not installed. (wrk
        prints them with its usage, and exits with status 1.)"""
        program = find_program(self.name)
        if program is None:
            return None
        said = subprocess.run([program, self.version_option], capture_output=True, text=True).stdout
        first = re.split(" <| Copyright|\n", said.strip())[0].removeprefix("This is ")
        return first or "unknown"
