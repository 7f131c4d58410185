# SPDX-License-Identifier: MIT
"""Send a first request, whose answer is the reference for all later answers. Then run a load in its
own process: a load generator, or a crowd of `bench.load.crowd`."""

import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.host.accounting import CpuTime, rusage_of_reaped
from bench.host.kernel import difference
from bench.host.process import Child, Helper, HelperError, SignalWatch, last_line
from bench.host.project import ROOT, find_program, require
from bench.load.client import Client, NoAnswer, Response, request
from bench.load.crowd import RUSH_SECONDS, CrowdOrder, Page
from bench.records.errors import NoFigure
from bench.records.figures import AbFigures, Latency, MemoryFigures, OpenLoopFigures, WrkFigures
from bench.records.workloads import FORM, Workload

FIRST_SECONDS = 10.0
SURPLUS_SECONDS = 0.2
"""The time to wait for surplus bytes after a body of the announced length."""


class ProbeError(NoFigure):
    """The first request got no correct answer."""


def probe(url: str, workload: Workload, status: int | None, keep_alive: bool = False) -> Response:
    """Send one request like ab, and read until the server closes or no more bytes arrive.

    Raises ProbeError if there is no answer, if the status is wrong, or if the body's length is not
    Content-Length, which ab does not check. `status`: the right status; None: any below 400.
    """
    kept = ["Connection: Keep-Alive"] if keep_alive else []
    fields = [*kept, "User-Agent: probe", "Accept: */*"]
    to = urlsplit(url)
    try:
        with Client((to.hostname or "", to.port or 80), FIRST_SECONDS) as client:
            client.send(request_for(url, workload, "HTTP/1.0", fields))
            answer = client.answer()
            seconds = FIRST_SECONDS if answer.announced is None else SURPLUS_SECONDS
            answer = replace(answer, body=answer.body + client.rest(seconds)[0])
    except (OSError, NoAnswer) as error:
        cut = Response.of(error.head + error.received) if isinstance(error, NoAnswer) else None
        if cut is None:
            raise ProbeError(f"a first request got no answer: {error}", "no answer") from error
        answer = cut
    wrong = answer.status >= 400 if status is None else answer.status != status
    if wrong:
        wanted = f" and not {status}" if status else ""
        raise ProbeError(f"a first request got {answer.status}{wanted}", f"status {answer.status}")
    announced, came = answer.announced, len(answer.body)
    if announced is not None and announced != came:
        words = f"Content-Length says {announced:,}, but {came:,} bytes were received"
        raise ProbeError(words, "wrong length")
    return answer


def require_content(answer: Response, workload: Workload) -> None:
    """Raise ProbeError if a redirect has the wrong target or a page has the wrong content. Do not
    call this for baselines: their fixed answer has neither a target nor this content."""
    if workload.leads:
        to = answer.field("Location") or ""
        if urlsplit(to).path != workload.leads:
            words = f"to {to}" if to else "nowhere"
            raise ProbeError(f"a redirect leads {words}, not to {workload.leads}", "wrong place")
    if workload.file and answer.body != (ROOT / "public" / workload.file).read_bytes():
        words = f"{len(answer.body):,} bytes that are not public/{workload.file}"
        raise ProbeError(f"a first request got {words}", "wrong page")
    if workload.contains.encode() not in answer.body:
        raise ProbeError(f"a first request got a page without {workload.contains!r}", "wrong page")


def request_for(url: str, workload: Workload, version: str, fields: Sequence[str]) -> bytes:
    """Return the request that a generator sends for a URL. The field Host has the port, because
    some servers copy Host into the target of a redirect."""
    to = urlsplit(url)
    target = to._replace(scheme="", netloc="").geturl()
    if workload.form is None:
        return request("GET", target, *fields, host=to.netloc, version=version)
    posted = (*fields, f"Content-Type: {FORM}")
    body = workload.form.encode()
    return request("POST", target, *posted, body=body, host=to.netloc, version=version)


@dataclass(frozen=True)
class Load:
    """The load that a generator makes."""

    url: str
    requests: int
    connections: int  # The number of concurrent connections; in the open loop the maximum number.
    timeout: float  # Seconds after which the run is stopped.
    keep_alive: bool = False
    form: str | None = None  # The body of a POST; None: GET.
    any_length: bool = False  # Whether responses may differ in length; see `Ab.command`.
    rate: float = 0.0  # Requests per second, in the open loop.


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a load."""

    tool: str = ""  # The name of the load generator; empty: this process made the load.
    command: list[str] = field(default_factory=list)
    status: int | None = None
    timed_out: bool = False
    message: str = ""
    """The generator's standard error; after `Generator.read` only the line with the error."""
    report: str = ""  # The generator's whole standard output.
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


class Generator:
    """A program that makes a load. A subclass says how to start it and how to read its report."""

    name: str
    group: str  # The group of scripts/setup.sh that installs the generator.
    version_option: str
    idle = 0.0
    """The seconds of a run in which the generator does not run, such as its start."""

    def command(self, load: Load, folder: Path) -> list[str]:
        """Return the generator's command line for a load. The generator writes its data into
        `folder`, whose file `form` has the body of a POST."""
        raise NotImplementedError

    def read(self, ran: Outcome, load: Load, folder: Path) -> Outcome:
        """Return the outcome with the figures from the ended generator's output and `folder`."""
        raise NotImplementedError

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


CROWD_SECONDS = 3 * RUSH_SECONDS
"""The time within which a crowd must end."""


class RunningCrowd(Helper):
    """A running crowd. Use it in a `with` block, and read its tally afterwards."""

    def __init__(
        self, order: CrowdOrder, cpus: Sequence[int], watch: SignalWatch, inside: Sequence[str] = ()
    ) -> None:
        """Start the crowd; `inside`: see `Helper`. Raises HelperError or Interrupted."""
        super().__init__("bench.load.crowd", [order.words()], cpus, watch, inside)

    def close(self) -> None:
        """End the crowd."""
        self.end(CROWD_SECONDS)

    def tally(self) -> dict[str, Any]:
        """Return the fields of the crowd's `Tally`. Raises HelperError if it is missing."""
        try:
            found: dict[str, Any] = json.loads(self.stdout.splitlines()[1])
        except (IndexError, ValueError) as error:  # the crowd was killed too early
            said = last_line(self.stderr) or "it printed nothing"
            raise HelperError(f"the crowd failed: {said}") from error
        return found


@dataclass(frozen=True)
class IdleReport:
    """The counts of the idle connections; `held`, `reopened` and `requests` as in `Tally`."""

    asked: int
    held: int
    reopened: int
    requests: int
    requests_during: int  # The number of requests that were answered during the load.


class IdleConnections(RunningCrowd):
    """Idle connections that stay open during a load. Call `report` after the load."""

    def __init__(self, url: str, count: int, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Open `count` connections and request `url` on each. Raises HelperError or Interrupted."""
        self._count = count
        to = urlsplit(url)
        page = Page("idle", to.path)
        order = CrowdOrder("kept", to.hostname or "", to.port or 80, count, (page,))
        super().__init__(order, cpus, watch)

    def report(self) -> IdleReport:
        """Close all connections and return the counts. Raises HelperError."""
        self.close()
        counts = self.tally()
        requests = counts["requests"]
        during = max(0, requests - self.first)
        return IdleReport(self._count, counts["held"], counts["reopened"], requests, during)
