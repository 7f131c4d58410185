# SPDX-License-Identifier: MIT
"""The graded server during a check: start and stop the server, and observe its processes."""

import contextlib
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import psutil

from bench.grade.building import SeededSite
from bench.grade.findings import Failed, FaultName, NotHere
from bench.grade.sandbox import MEMORY, Limits, confined, end_strangers, forget_strangers, user
from bench.host.kernel import demands, stat_fields, task_folders
from bench.host.process import SignalWatch, StartError, lines_at_ends
from bench.services.redis_server import is_loopback
from bench.subjects.running import Ended, RunningServer
from bench.subjects.subject import Place, Subject

TIMEOUT = 4.0
"""A client's timeout in seconds (a response takes milliseconds). This timeout is below
REQUEST_TIMEOUT, so that the server disconnects no other client meanwhile."""
START_SECONDS = 5.0
"""The time limit for the server to print its url, which usually takes milliseconds."""
LOOK_SECONDS = 0.02
DYING_SECONDS = 0.2
IDLE_END_SECONDS = 3.0
"""The time limit for an idle server to end: less than STOP_TIMEOUT (5 s)."""
WORKERS = 16
BUSY_SHARE = 0.5
"""The share of a CPU above which a thread counts as busy."""
TRACED_SHARE, TRACED_BYTES, ALL_CALLS = 0.15, 50_000, math.inf
"""TRACED_SHARE replaces BUSY_SHARE for a traced thread, because strace slows down a spinning
thread. If the trace grows by more than TRACED_BYTES per second, the share is ALL_CALLS."""
SLEEP_ROUNDS = 4
NOHUP = ("sh", "-c", 'trap "" HUP; exec "$0" "$@" --log 2>&1')
"""Starts a server as nohup(1) does, with --log and with all its output on standard output."""
_CALL = r"\d+ +[\d.]+ (?:<\.\.\. )?"
"""The beginning of a line of strace: process and time."""
ENDED_BY: dict[int, FaultName] = {signal.SIGPIPE: "sigpipe", signal.SIGSYS: "unlisted-call"}
"""The fault to report if this signal terminates the server."""
Same = TypeVar("Same", bound="GradedServer")


@dataclass
class GradedServer:
    """A server in the sandbox, which can be started once; `of` makes a copy for another start."""

    server: Subject
    site: SeededSite
    watch: SignalWatch
    folder: Path  # The folder for temporary files of this examination.
    redis_url: str = ""  # The URL of the server's database.
    limits: Limits = field(default_factory=Limits)
    environment: Sequence[str] = ()
    """Additional environment variables of the server, NAME=value each."""
    nohup: bool = False  # Whether the server is started with NOHUP.
    lane: int = 0
    """Servers that run at the same time have different lanes. With root, each has its own user."""
    trace: Path | None = None  # The output file of strace; None: no trace.
    timeout: float = TIMEOUT
    left: Callable[[], float] = lambda: math.inf
    """Returns the seconds until the time limit of the examination."""
    gives_up: FaultName = "crash"
    """The fault that is reported if the server exits although the grader did not stop it."""
    program: Path = Path()  # The compiled server.
    running: RunningServer | None = None
    ready: float = 0  # The time when the server was ready (Unix time).
    told: bool = False
    """Whether the grader has sent SIGTERM, SIGINT or SIGKILL to the server, to end it."""
    too_large: bool = False
    """Whether the grader has killed the server because of its memory, or because time was over."""
    ended: Ended | None = None
    stopping: AbstractContextManager[object] = field(default_factory=threading.RLock)

    def start(self, options: Sequence[str] = (), tracer: Sequence[str] = ()) -> None:
        """Start the server. Raises StartError, Interrupted, NotHere or Failed. After the
        examination's time limit, the attempt does not count."""
        if self.left() <= 0:
            raise Failed("too-slow", "the time was over before the server was started")
        # Processes of the previous server must not count against the limit.
        if self.limits.tasks < Limits.tasks and not forget_strangers():
            raise NotHere("ended processes still count against the limit: init does not reap them")
        place = Place(self.redis_url, self.folder)
        words = [*self.server.command(place), "--root", str(self.site.root)]
        words += ["--workers", str(WORKERS), *options]
        self.program = Path(words[0])
        limited = confined(
            [*(NOHUP if self.nohup else ()), *words],
            self.limits,
            reads=[self.folder, self.program],
            environment=self.environment,
            lane=self.lane,
        )
        server = replace(
            self.server, command=lambda _: [*tracer, *limited], start_seconds=START_SECONDS
        )
        try:
            self.running = RunningServer(server, place, (), self.watch)
        except StartError:
            end_strangers(self.lane)
            raise
        self.ready = time.time()
        if not listens_here(self.running.url):
            raise StartError(f"the url is {self.running.url[:60]!r}, not a loopback address")
        self.require_own_program()

    def require_own_program(self) -> None:
        """Raise Failed if a process of the server executes a file other than `program`."""
        for pid in self.pids():
            with contextlib.suppress(OSError):  # the process has ended, or cannot be inspected
                other = Path(f"/proc/{pid}/exe")
                if not other.samefile(self.program):
                    seen = f"process {pid} executes {str(other.readlink())[:60]!r}"
                    raise Failed("another-program", f"{seen}, not the file that was compiled")

    def of(self: Same, server: Subject) -> Same:
        """Return a copy for another server that has not been started."""
        return replace(self, server=server, running=None, ended=None, told=False)

    @contextlib.contextmanager
    def started(self: Same, *options: str) -> Iterator[Same]:
        """Start the server during the `with` block. Raises the errors of `start`."""
        try:
            self.start(options)
            yield self
        finally:
            self.stop()

    def stop(self) -> Ended | None:
        """Kill the server if it runs. Return how it ended (None: not started). Thread-safe."""
        with self.stopping:
            if self.running is not None and self.ended is None:
                self._kill()
                self.ended = self.running.stop()
                end_strangers(self.lane)
                self.until(lambda: not self.left_behind())
            return self.ended

    def has_ended(self) -> bool:
        """Return whether the server's first process has ended or was not started."""
        return self.running is None or not self.running.running()

    def end_by_itself(self, seconds: float) -> bool:
        """Send SIGTERM if no stop signal was sent. Return whether the server ended in time."""
        if not self.told:
            self.tell_to_stop()
        return self.until(self.has_ended, seconds)

    def tell_to_stop(self) -> None:
        """Send SIGTERM to the server."""
        assert self.running is not None
        self.running.ask_to_stop()
        self.told = True

    def interrupt(self) -> None:
        """Send SIGINT to all processes of the server, as a terminal does for Ctrl-C."""
        self.told = True
        self.kill(self.pids(), signal.SIGINT)

    def _kill(self) -> None:
        """Kill all processes of the server. Do nothing if the first process has ended by itself."""
        if not self.has_ended():
            self.told = True
            self.kill(self.pids())

    @staticmethod
    def kill(pids: Collection[int], number: int = signal.SIGKILL) -> None:
        """Send a signal to processes, and ignore processes that have ended."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextlib.contextmanager
    def suspended(self, pids: Collection[int]) -> Iterator[None]:
        """Stop processes during the `with` block (SIGSTOP), then let them continue (SIGCONT)."""
        self.kill(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            self.kill(pids, signal.SIGCONT)

    def require_end(self, what: str, sure: bool = True) -> None:
        """Raise Failed if the server still runs IDLE_END_SECONDS after SIGTERM, without clients.
        `what`: the actions before."""
        if not self.end_by_itself(IDLE_END_SECONDS):
            late = f"{IDLE_END_SECONDS:.0f} s after SIGTERM the server still runs"
            raise Failed("deaf", f"{what}; {late}", sure=sure)

    def alive(self, seconds: float = DYING_SECONDS) -> None:
        """Raise Failed if the server's first process has ended, although the grader did not stop
        it, or if the grader killed the server because of its memory. Wait up to `seconds`, because
        a process may end a little later than its connections."""
        if self.too_large:
            seen = f"the server used more than {MEMORY >> 20} MB and was killed"
            raise Failed("takes-memory", seen)
        if self.running is None or self.told or not self.until(self.has_ended, seconds):
            return
        if ended := self.stop():
            fault = fault_of_end(ended.status, self.gives_up)
            raise Failed(fault, f"during the check the server {ended.describe()}")

    def left_behind(self) -> list[int]:
        """Return the PIDs of the processes of the server's session or user, without zombies and
        without the first process."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                own = os.getsid(process.pid) == self.pid or process.uids().real == user(self.lane)
                if own and process.pid != self.pid and not is_zombie(process.pid):
                    found.append(process.pid)
        return found

    @property
    def pid(self) -> int:
        """Return the PID of the server's first process."""
        assert self.running is not None
        return self.running.pid

    def pids(self) -> list[int]:
        """Return the PIDs of the server's first process and its descendants (without orphans)."""
        return self.running.pids() if self.running is not None else []

    def tasks(self) -> int:
        """Return the number of processes and threads of the server."""
        return sum(len(task_folders(pid)) for pid in self.pids())

    def said(self) -> str:
        """Return the server's standard error; if `nohup`, its standard output and error."""
        if self.running is None:
            return ""
        return self.running.stdout if self.nohup else self.running.stderr

    def traced(self, pattern: str) -> list[str]:
        """Return the trace lines that match, up to the match's end. `pattern` begins after process
        and time. Without a trace, return an empty list."""
        if self.trace is None or not self.trace.exists():
            return []
        wanted = re.compile(_CALL + pattern)
        found = map(wanted.match, lines_at_ends(self.trace))
        return [line.group() for line in found if line]

    def until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Return whether the condition becomes true in time (`seconds`: None means `timeout`)."""
        return self.watch.until(condition, self.timeout if seconds is None else seconds)

    # ---- CPU time and memory ----

    @property
    def most_share(self) -> float:
        """Return the share of a CPU above which a thread counts as busy."""
        return TRACED_SHARE if self.trace else BUSY_SHARE

    def busy_meter(self) -> Callable[[], float]:
        """Return a function that measures the time since this call. The function returns the share
        of this time in which the busiest thread ran or waited for a CPU, or ALL_CALLS."""

        def counters() -> tuple[float, int, dict[Path, float]]:
            size = self.trace.stat().st_size if self.trace and self.trace.exists() else 0
            tasks = {task: ran for pid in self.pids() for task, ran in demands(pid).items()}
            return time.monotonic(), size, tasks

        def share() -> float:
            now, traced, tasks = counters()
            took = now - begun
            ran = max((ran - before.get(task, 0.0) for task, ran in tasks.items()), default=0.0)
            return ALL_CALLS if traced - size > TRACED_BYTES * took else ran / took

        begun, size, before = counters()
        return share

    def busy_share(self, seconds: float) -> float:
        """Wait; return the busy share of this time (see `busy_meter`)."""
        share = self.busy_meter()
        self.watch.sleep(seconds)
        return share()

    def is_busy(self, seconds: float) -> bool:
        """Wait; return whether the busiest thread ran or waited for a CPU for most of this time, or
        whether a thread does not sleep, e.g. because it waits for strace or for a disk."""
        return self.busy_share(seconds) > self.most_share or not all(map(sleeps, self.pids()))

    def require_sleep(self, seconds: float, seen: str, port: int = 0, sure: bool = False) -> None:
        """Wait. Raise Failed if one thread runs or waits for a CPU for most of the time. `seen`:
        the events meanwhile. On a busy machine a thread may run before it sleeps. Therefore wait up
        to SLEEP_ROUNDS times, and twice as often for a traced thread."""
        for _ in range((2 if self.trace else 1) * SLEEP_ROUNDS):
            share = self.busy_share(seconds)
            self.alive(0)
            if share <= self.most_share:
                return
        raise Failed("spins", f"{seen}; {in_words(share)}", port, sure)

    def guarded(self) -> AbstractContextManager[None]:
        """During the `with` block, kill the server if it uses more memory than MEMORY, or if the
        examination's time is over. Failures after this time are not reported."""

        def look() -> None:
            if self.memory() > MEMORY or self.left() <= 0:
                self.too_large = True
                self._kill()

        return meanwhile(look, 0.2)

    def memory(self) -> int:
        """Return the memory of the server's processes in bytes. Shared pages are counted (once)
        only if the other pages exceed MEMORY, because this takes a millisecond for each process."""

        def total(exact: bool) -> int:
            found = 0
            for pid in self.pids():
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(pid)
                    if exact:
                        found += process.memory_full_info().pss
                    else:
                        found += (held := process.memory_info()).rss - held.shared
            return found

        roughly = total(exact=False)
        return roughly if roughly <= MEMORY else total(exact=True)


@contextlib.contextmanager
def meanwhile(act: Callable[[], object], pause: float) -> Iterator[None]:
    """Call a function repeatedly in a thread during the `with` block, with a pause (seconds) before
    each call. Raise the function's error at the end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause):
            act()

    with ThreadPoolExecutor(1) as actor:
        acting = actor.submit(repeat)
        try:
            yield
        finally:
            over.set()
        acting.result()


def listens_here(url: str) -> bool:
    """Return whether a URL is valid and its host is a loopback address."""
    try:
        parts = urlsplit(url)
        return parts.port != 0 and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def is_zombie(pid: int) -> bool:
    """Return whether a process is a zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return False


def sleeps(pid: int) -> bool:
    """Return whether all threads of a process sleep or have ended."""
    for folder in task_folders(pid):
        with contextlib.suppress(OSError):  # the thread has ended
            if stat_fields(folder)[0] not in "SIZX":
                return False
    return True


def in_words(share: float) -> str:
    """Return the result of `busy_share` in words, for a finding."""
    if share == ALL_CALLS:
        return "the server made system calls all the time"
    return f"one thread ran or waited for a CPU for {share:.0%} of the time"


def fault_of_end(status: int | None, otherwise: FaultName) -> FaultName:
    """Return the fault of a server that ended with this status (negative: a signal). `otherwise`:
    the fault if the server exited, or ended by SIGTERM or SIGINT."""
    if status is None:
        return "crash"
    if status >= 0 or -status in (signal.SIGTERM, signal.SIGINT):
        return otherwise
    return ENDED_BY.get(-status, "crash")
