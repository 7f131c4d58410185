# SPDX-License-Identifier: MIT
"""Start, observe and end one server under test, and parse its output.

The lines at a server's start and its statistics at the end are aligned: a key in the first 14
columns, then the value.
"""

import contextlib
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
from pydantic import BaseModel

from bench.host.accounting import Group, Usage
from bench.host.process import (
    Child,
    SignalWatch,
    StartError,
    free_port,
    last_line,
    signal_name,
    url_that_answers,
)
from bench.host.project import ROOT, find_program
from bench.records.figures import ServerStatistics
from bench.subjects.subject import Place, Subject

KEY_COLUMNS = 14
_NUMBER = r"(\d+(?:\.\d+)?)"


def lines_of(text: str) -> dict[str, str]:
    """Return the aligned lines of a text as keys and values. If a key is repeated, the last line
    counts. Other lines are ignored, and also an incomplete last line (without line feed)."""
    found = {}
    for line in text.splitlines(keepends=True):
        key, value = line[:KEY_COLUMNS].strip(), line[KEY_COLUMNS:].strip()
        if line.endswith("\n") and key and value:
            found[key] = value
    return found


def url_in(text: str) -> str | None:
    """Return the URL in a banner; None if the URL is missing or not complete yet."""
    url = lines_of(text).get("url")
    return url if url and url.startswith("http") else None


def statistics_in(text: str) -> ServerStatistics | None:
    """Return the statistics in an ended server's output; None if there are no statistics."""
    lines = lines_of(text)
    if "requests" not in lines:
        return None
    cpu = lines.get("cpu", "")
    responses = re.findall(r"(\dxx) (\d{1,18})", lines.get("responses", ""))
    return ServerStatistics(
        requests=_whole(lines.get("requests")),
        responses={kind: int(number) for kind, number in responses},
        bytes_sent=_whole(lines.get("bytes")),
        cpu_user_s=_figure(rf"user {_NUMBER} s", cpu),
        cpu_system_s=_figure(rf"system {_NUMBER} s", cpu),
        cpu_us_per_request=_figure(rf"{_NUMBER} us", lines.get("cpu/request", "")),
        peak_memory_mb=_figure(rf"{_NUMBER} MB", lines.get("peak memory", "")),
        workers={k[7:]: _whole(v) or 0 for k, v in lines.items() if re.fullmatch(r"worker \d+", k)},
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else None


def _figure(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text)
    return float(match[1]) if match else None


WITHOUT = ROOT / "build" / "baselines" / "without.so"
"""The library that disables optimisations."""
CHANGED = ROOT / "build" / "experiments"
"""The folder of changed programs, with a subfolder for each experiment."""
CALLGRIND_FILE = "callgrind."
"""The beginning of the name of callgrind's output file, before the PID."""
STOP_SECONDS = 20.0
"""The time limit for the end of a server, which waits 5 s for active requests. On a busy machine,
a hundred processes need more time to end."""
NEVER_SERVED_SECONDS = 0.5
"""The time limit for the end of a server that never listened, so it has no active requests."""


def without(optimisation: str, command: Sequence[str]) -> list[str]:
    """Return the command with an optimisation disabled by baselines/without.c."""
    if not WITHOUT.exists():
        raise StartError(f"{WITHOUT.name} is not built; run `make baselines`")
    return ["env", f"LD_PRELOAD={WITHOUT}", f"WITHOUT={optimisation}", *command]


def changed(name: str, command: Sequence[str]) -> list[str]:
    """Return the command with the changed program of the experiment `name`."""
    program, *words = command
    other = CHANGED / name / Path(program).name
    if not other.exists():
        raise StartError(f"{other.relative_to(ROOT)} is not built: make experiment N={name}")
    return [str(other), *words]


def counted(command: Sequence[str], folder: Path) -> list[str]:
    """Return the command that counts a server's instructions; see `bench.stations.sampling`.
    Some versions of valgrind do not know openat2(2), so the server runs without openat2."""
    if not find_program("valgrind"):
        raise StartError("valgrind is not installed: apt-get install valgrind")
    separate = ("--separate-callers=30", "--separate-recs=1")
    where = f"--callgrind-out-file={folder / CALLGRIND_FILE}%p"
    tool = ["valgrind", "--quiet", "--tool=callgrind", *separate, where]
    return without("openat2", [*tool, *command, "--no-confinement"])


class RunningServer(Child):
    """A running server under test. Its `url` ends in a slash. End the server with `stop`."""

    def __init__(
        self,
        subject: Subject,
        place: Place,
        cpus: Sequence[int],
        watch: SignalWatch,
        group: Group | None = None,
    ) -> None:
        """Start the server and wait until it listens. `group`: a control group for this server
        alone; `stop` closes it. Raises StartError, Interrupted or OSError."""
        with contextlib.ExitStack() as undo:
            if group:
                undo.callback(group.close)
            if not (place.port or subject.announces):  # the server does not report its port
                place = replace(place, port=free_port(place.address))
            self.place, self._group = place, group
            command, conditions = subject.command(place), place.conditions
            if conditions.change:
                command = changed(conditions.change, command)
            if conditions.without:
                command = without(conditions.without, command)
            if conditions.mode == "counted":
                command = counted(command, place.folder)
            if group:
                command = group.wrap(command)
            super().__init__(command, cpus, cwd=ROOT)
            undo.callback(self.end, STOP_SECONDS)
            try:
                self.url = self._await(subject, place, watch)
            except StartError as error:
                error.status = self.stop(NEVER_SERVED_SECONDS).status
                raise
            undo.pop_all()

    def _await(self, subject: Subject, place: Place, watch: SignalWatch) -> str:
        def url() -> str | None:
            if subject.announces:
                return url_in(self.stdout)
            return url_that_answers(place.address, place.port, self.running(), subject.ready)

        if found := self.until(url, subject.start_seconds, watch):
            return found
        said = last_line(self.stderr)
        if not self.running():
            raise StartError(f"{subject.name} did not start: {said or 'no error message'}")
        what = "printed no url line" if subject.announces else "did not listen"
        raise StartError(
            f"{subject.name} {what} within {subject.start_seconds:.0f} s; its processes: "
            f"{len(self.pids())}; a thread of the first process ran or was runnable for "
            f"{self.demand_seconds() or 0:.1f} s" + (f"; its last line: {said}" if said else "")
        )

    def pids(self) -> list[int]:
        """Return the PIDs of all processes of the server."""
        if self._group:
            return self._group.pids()
        try:
            below = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            return []
        return [self.pid, *(process.pid for process in below)]

    def used(self) -> Usage | None:
        """Return the usage of the server's processes so far; None without a control group."""
        return self._group.read() if self._group else None

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return at once."""
        self.send(signal.SIGTERM)

    def stop(self, timeout: float = STOP_SECONDS) -> "Ended":
        """End the server with SIGTERM, and kill its processes that still run after `timeout`
        seconds. Return how the server ended. May be called twice."""
        try:
            obeyed = self.end(timeout)
            return Ended(
                obeyed=obeyed,
                status=self.exit_status,
                statistics=statistics_in(self.stdout),
                last_words=last_line(self.stderr),
            )
        finally:
            if self._group:
                self._group.close()
                self._group = None


class Ended(BaseModel):
    """The end of a server: its exit status or signal, and its output."""

    obeyed: bool  # False if the server did not end after SIGTERM and was killed.
    status: int | None
    """The exit status, or the negative number of the signal that ended the server."""
    statistics: ServerStatistics | None
    last_words: str  # The last line of the server's standard error, or an empty text.

    def describe(self) -> str:
        """Return how the server ended, as a part of a sentence."""
        if self.status is not None and self.status < 0:
            how = f"was ended by {signal_name(-self.status)}"
        else:
            how = f"ended with status {self.status}"
        return f"{how} ({self.last_words})" if self.last_words else how
