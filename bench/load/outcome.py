# SPDX-License-Identifier: MIT
"""The input and the outcome of a load generator: the same types for all generators."""

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.host.accounting import CpuTime, rusage_of_reaped
from bench.host.kernel import difference
from bench.host.process import Child
from bench.host.programs import find_program, require
from bench.host.signals import SignalWatch
from bench.records.figures import AbFigures, Latency, MemoryFigures, OpenLoopFigures, WrkFigures


@dataclass(frozen=True)
class Load:
    """The load that a generator makes."""

    url: str
    requests: int
    connections: int
    """The number of concurrent connections; in the open loop the maximum number."""
    timeout: float
    """Seconds after which the run is stopped."""
    keep_alive: bool = False
    form: str | None = None
    """The body of a POST; None: GET."""
    any_length: bool = False
    """Whether responses may differ in length; see `bench.load.ab.command`."""
    rate: float = 0.0
    """Requests per second, in the open loop."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a load."""

    tool: str = ""
    """The name of the load generator; empty: this process made the load."""
    command: list[str] = field(default_factory=list)
    status: int | None = None
    timed_out: bool = False
    message: str = ""
    """The generator's standard error; after `Generator.read` only the line with the error."""
    report: str = ""
    """The generator's whole standard output."""
    figures: AbFigures | WrkFigures | OpenLoopFigures | None = None
    completed: int | None = None
    """The number of completed requests, even without `figures`; None: unknown."""
    body_bytes: int | None = None
    """The bytes of the bodies of all responses; only oha reports this number."""
    memory: MemoryFigures | None = None
    """The memory of the connections, if this process has measured it."""
    latency: Latency | None = None
    wall_seconds: float = 0.0
    """The seconds from the generator's start to its end, measured by this process."""
    cpu: CpuTime | None = None
    demand: float | None = None
    """The share of time in which the generator ran or waited for a CPU; None if unknown."""


@dataclass(frozen=True)
class Generator:
    """A program that makes a load."""

    name: str
    group: str
    """The group of scripts/setup.sh that installs the generator."""
    version_option: str
    command: Callable[[Load, Path], list[str]]
    """Returns the generator's command line for a load. The generator writes its data into the given
    folder, whose file `form` has the body of a POST."""
    read: Callable[[Outcome, Load, Path], Outcome]
    """Returns the outcome with the figures from the generator's output and from the folder."""
    idle: float = 0.0
    """The seconds of a run in which the generator does not run, such as its start."""

    def run(
        self,
        load: Load,
        cpus: Sequence[int],
        watch: SignalWatch,
        meanwhile: Callable[[], None] | None = None,
    ) -> Outcome:
        """Run the generator until it ends, and call `meanwhile` several times a second. After the
        load's timeout, send SIGINT, so that the generator still prints its results. May raise
        Interrupted, but only after the generator has ended."""
        with tempfile.TemporaryDirectory(prefix=f"zerohttpd-{self.name}-") as name:
            folder = Path(name)
            if load.form is not None:
                (folder / "form").write_text(load.form)
            before, begin = rusage_of_reaped(), time.monotonic()
            child = Child(self.command(load, folder), cpus)
            demands: list[float] = []

            def look() -> None:
                demands.append(child.demand_seconds() or 0.0)  # without ended threads
                if meanwhile:
                    meanwhile()

            try:
                in_time = child.wait(load.timeout, watch, look)
                wall = time.monotonic() - begin
                demands.append(child.demand_seconds() or 0.0)
            finally:
                child.end(number=signal.SIGINT)
            wanted = max(demands)
            ran = Outcome(
                tool=self.name,
                command=self.command(load, Path()),  # without the temporary folder
                status=child.exit_status,
                timed_out=not in_time,
                message=child.stderr,
                report=child.stdout,
                wall_seconds=wall,
                cpu=difference(rusage_of_reaped(), before),
                demand=min(1.0, wanted / max(wall - self.idle, 0.01)) if wanted else None,
            )
            return self.read(ran, load, folder)

    def require(self) -> str:
        """Return the generator's path. Raise UserError if the generator is not installed."""
        return require(self.name, self.group)

    def version(self) -> str | None:
        """Return the generator's name and version; None if it is not installed. The exit status is
        ignored, because wrk exits with status 1 after it has printed its version."""
        program = find_program(self.name)
        if program is None:
            return None
        said = subprocess.run([program, self.version_option], capture_output=True, text=True).stdout
        first = re.split(" <| Copyright|\n", said.strip())[0].removeprefix("This is ")
        return first or "unknown"
