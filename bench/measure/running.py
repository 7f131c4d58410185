"""A subject that runs."""

import contextlib
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.measure.accounting import CpuTime, Group, parent_of_groups, rusage_of_buried
from bench.measure.subjects import Place, Subject
from bench.placement import Placement
from bench.private_redis import RunRedis, free_port
from bench.process import Child
from bench.server_process import START_SECONDS, STOP_SECONDS, StartError, last_line
from bench.servers import ROOT
from bench.signals import SignalWatch

SETTLE_SECONDS = 0.05
"""After the load: time for the last children and threads to end and be counted."""


class Bench:
    """What all runs share."""

    def __init__(
        self,
        redis: RunRedis,
        placement: Placement,
        watch: SignalWatch,
        say: Callable[[str], None],
    ) -> None:
        self.redis, self.placement, self.watch = redis, placement, watch
        self.say = say
        """Tells whoever watches what is being done."""
        self.groups = parent_of_groups()
        self._idle: dict[Subject, CpuTime] = {}

    @property
    def accounting(self) -> str:
        """How CPU time is measured, in words."""
        if self.groups:
            return "cpu.stat of a control group of the server's own, from warm-up to end of load"
        return "rusage of the server and its children at their end, minus a start without requests"

    def idle_cost(self, subject: Subject) -> CpuTime:
        """Where there are no groups: what the subject uses to start and end. Measured once."""
        if subject not in self._idle:
            running = Running(subject, self)
            running.stop()
            assert running.lifetime is not None
            self._idle[subject] = running.lifetime
        return self._idle[subject]


class Running:
    """A started subject. Use in a `with` block, or call `stop`."""

    def __init__(self, subject: Subject, bench: Bench, keep_alive: bool = False) -> None:
        """Start it and wait until it listens. Raises StartError, OSError or Interrupted."""
        self.subject = subject
        self.port = free_port()
        self.lifetime: CpuTime | None = None
        """After `stop`, where there are no groups: all it used."""
        self._folder = Path(tempfile.mkdtemp(prefix="zerohttpd-measure-"))
        self._group = Group(bench.groups) if bench.groups else None
        self._child: Child | None = None
        try:
            redis = urlsplit(bench.redis.url)
            place = Place(self.port, f"{redis.hostname}:{redis.port}", self._folder, keep_alive)
            command = subject.command(place)
            if self._group:
                command = self._group.wrap(command)
            self._child = Child(command, bench.placement.server, cwd=ROOT)
            self._await(bench.watch)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, path: str) -> str:
        """The address of a path on it."""
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self._child is not None
        return self._child.pid

    def pids(self) -> list[int]:
        """All its processes."""
        below = psutil.Process(self.pid).children(recursive=True)
        return [self.pid, *(process.pid for process in below)]

    def running(self) -> bool:
        """Whether it is still there."""
        return self._child is not None and self._child.running()

    def last_words(self) -> str:
        """The last line that it wrote to standard error, or nothing."""
        return last_line(self._child.stderr) if self._child else ""

    def cpu(self) -> CpuTime | None:
        """What it has used so far; None where there are no groups."""
        return self._group.read() if self._group else None

    def stop(self) -> None:
        """End it by SIGTERM, by SIGKILL if it does not obey. May be called twice."""
        before = rusage_of_buried()
        if self._child is not None:
            self._child.end(STOP_SECONDS, signal.SIGTERM)
        if self.lifetime is None:
            self.lifetime = rusage_of_buried() - before
        if self._group:
            self._group.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await(self, watch: SignalWatch) -> None:
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            running = self._child.running()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                if running:
                    return
            if not running or time.monotonic() > deadline:
                said = last_line(self._child.stderr) or "it did not say why"
                raise StartError(f"{self.subject.name} does not listen: {said}")
            watch.sleep(0.01)
