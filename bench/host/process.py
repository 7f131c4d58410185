# SPDX-License-Identifier: MIT
"""Child processes that never outlive the run.

Every child
  - is a session of its own, so that Ctrl-C at the terminal reaches us alone and we end the
    children in order;
  - is killed by the kernel when we die, even of `kill -9`: util-linux' setpriv sets the
    parent-death signal and then becomes the program. (Python could make the same call between
    fork and exec, but in a process with threads, which the live table has, that may deadlock.)
  - is put on its CPUs by taskset before its first instruction, so that threads and children that
    it starts at once are there too;
  - writes to files without a name, so that no pipe can fill up and block it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TypeVar

from bench.host.accounting import CpuTime, rusage_of_buried
from bench.host.programs import search_path
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.errors import NoFigure

POLL_SECONDS = 0.02
"""How often a waiting loop looks. Short beside a run, long beside what looking costs."""


class Child:
    """A started process. Use `end` in a `finally`."""

    def __init__(
        self,
        command: Sequence[str],
        cpus: Sequence[int] = (),
        cwd: Path | None = None,
        death_signal: str = "KILL",
    ) -> None:
        """`death_signal`: what it gets when we die; one that has children of its own to end needs
        a gentler one."""
        self.command = list(command)
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  closed in end()
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._said: tuple[str, str] | None = None
        self._process = subprocess.Popen(
            guarded(command, cpus, death_signal),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            cwd=cwd,
            # Where a command begins with env or setpriv, these look for the program behind it.
            env={**os.environ, "PATH": search_path()},
            start_new_session=True,
        )
        self.pid = self._process.pid

    @property
    def stdout(self) -> str:
        """All it has written to standard output so far."""
        return self._said[0] if self._said else _content(self._out.fileno())

    @property
    def stderr(self) -> str:
        """All it has written to standard error so far."""
        return self._said[1] if self._said else _content(self._err.fileno())

    def running(self) -> bool:
        """Whether it still runs. Does not reap the child, so its PID is not reused."""
        if self._process.returncode is not None:
            return False
        try:
            seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # another thread has reaped it just now
            return False
        return seen is None

    def wait(
        self,
        seconds: float,
        watch: SignalWatch | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> bool:
        """Wait until it ends, calling `meanwhile` several times a second. False when it still
        runs after `seconds`; may raise Interrupted."""
        deadline = time.monotonic() + seconds
        while self.running():
            if meanwhile:
                meanwhile()
            if time.monotonic() >= deadline:
                return False
            if watch is None:
                time.sleep(POLL_SECONDS)
            else:
                watch.sleep(POLL_SECONDS)
        return True

    def demand_seconds(self) -> float | None:
        """For how long its busiest task has run or wanted to run; None where the kernel does not
        say."""
        return demand_seconds(self.pid)

    def send(self, number: int) -> None:
        """Send a signal to the process itself (not to its children)."""
        if self.running():
            self._process.send_signal(number)

    def end(self, patience: float = 2.0, number: int = signal.SIGTERM) -> bool:
        """End it and whatever it started; its output stays readable. May be called twice.

        Sends `number`, waits `patience` seconds, then kills. Returns False if it had to be killed.
        """
        if self._process.returncode is not None:
            return True
        self.send(number)
        ended = self.wait(patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-self.pid, 0)  # its orphans, if we have adopted them
        self._said = (self.stdout, self.stderr)
        self._out.close()
        self._err.close()
        return ended

    @property
    def exit_status(self) -> int | None:
        """Its exit status after `end` or `wait`; minus the signal's number if one ended it."""
        return self._process.poll()


@dataclass(frozen=True)
class RanChild:
    """A child that was run to its end, and what it took."""

    child: Child
    in_time: bool
    """It ended by itself before its time was over."""
    wall_seconds: float
    """From its start to its end by our own clock."""
    cpu: CpuTime
    demand: float | None
    """The share of that time in which it ran or wanted to; None where the kernel does not say."""


def run_measured(
    command: Sequence[str],
    cpus: Sequence[int],
    seconds: float,
    watch: SignalWatch,
    meanwhile: Callable[[], None] | None = None,
    idle: float = 0.0,
) -> RanChild:
    """Run a load generator for so long at most, calling `meanwhile` several times a second. It is
    ended by SIGINT, at which it still says what it has seen. `idle`: for so many seconds of its
    time it cannot want to run. May raise Interrupted; it is gone then too."""
    before = rusage_of_buried()
    begin = time.monotonic()
    child = Child(command, cpus)
    demands: list[float | None] = []

    def look() -> None:
        demands.append(child.demand_seconds())  # of threads only as long as they are there
        if meanwhile:
            meanwhile()

    try:
        in_time = child.wait(seconds, watch, look)
        wall = time.monotonic() - begin
        demands.append(child.demand_seconds())
    finally:
        child.end(number=signal.SIGINT)
    wanted = max((seen for seen in demands if seen is not None), default=None)
    demand = None if wanted is None else min(1.0, wanted / max(wall - idle, 0.01))
    return RanChild(child, in_time, wall, rusage_of_buried() - before, demand)


def demand_seconds(pid: int) -> float | None:
    """For how long the busiest task of a process has run or waited for a CPU, in seconds. Of a
    process that has ended and is not buried its first task is left."""
    found = []
    for file in Path("/proc", str(pid), "task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # a thread that has just ended
            ran, waited, *_ = file.read_text().split()
            found.append((int(ran) + int(waited)) / 1e9)
    return max(found, default=None)


def guarded(
    command: Sequence[str], cpus: Sequence[int] = (), death_signal: str = "KILL"
) -> list[str]:
    """The command line with CPU placement and parent-death signal in front."""
    placed = ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []
    return [*placed, "setpriv", "--pdeathsig", death_signal, "--", *command]


def _content(descriptor: int) -> str:
    # pread, because a seek would move the child's own writing position, which is shared.
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode("utf-8", errors="replace")


class StartError(NoFigure):
    """The server did not start; the message says why, in its own words where it has some."""

    label = "no start"
    status: int | None = None
    """Its exit status after that, or minus the number of the signal that ended it."""


def last_line(text: str) -> str:
    """The last line of a text that is not empty, without its line feed; or an empty text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def url_that_answers(address: str, port: int, running: bool, ready: str = "") -> str | None:
    """The URL of an address if somebody listens there, and the one who should still runs; `ready`:
    and answers this path with no error."""
    with contextlib.suppress(OSError, HTTPException):
        client = HTTPConnection(address, port, timeout=1)
        with contextlib.closing(client):
            client.connect()
            if ready:
                client.request("GET", ready)
                running = running and client.getresponse().status < HTTPStatus.BAD_REQUEST
        return f"http://{address}:{port}/" if running else None
    return None


def free_port(address: str = "127.0.0.1") -> int:
    """A port of an address of this host that nobody uses right now. May raise OSError."""
    with socket.create_server((address, 0)) as listener:
        return int(listener.getsockname()[1])


# ---- Helpers that run beside a load as processes of their own ----

START_SECONDS = 10.0


class HelperError(NoFigure):
    """A helper did not start; the message says why."""

    label = "no start"


Own = TypeVar("Own", bound="Helper")


class Helper:
    """A module of this package as a child process. Use in a `with` block."""

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        cpus: Sequence[int],
        watch: SignalWatch,
        inside: Sequence[str] = (),
        tells: bool = True,
    ) -> None:
        """Start it and wait for its first line, a number, if it `tells` of its start. It does
        without site-packages: so it starts sooner. `inside`: the words that start it elsewhere.
        Raises HelperError or Interrupted."""
        command = [*inside, sys.executable, "-S", "-m", module, *words]
        self._child = Child(command, cpus, cwd=ROOT)
        deadline = time.monotonic() + START_SECONDS
        try:
            while tells and "\n" not in self._child.stdout:
                if not self._child.running() or time.monotonic() > deadline:
                    said = last_line(self._child.stderr) or "it said nothing"
                    raise HelperError(f"{module} did not start: {said}")
                watch.sleep(0.005)
            self._first = int(self._child.stdout.split("\n")[0]) if tells else 0
        except BaseException:
            self._child.end()
            raise

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._child.end()

    def demand_seconds(self) -> float | None:
        """For how long it has run or wanted to run."""
        return self._child.demand_seconds()
