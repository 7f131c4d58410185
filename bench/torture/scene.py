# SPDX-License-Identifier: MIT
"""What an attack works on: a running server, its Redis, and crowds."""

import contextlib
import json
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.host.process import Helper, last_line
from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.host.sockets import ALL, LISTEN, TIME_WAIT, accept_queue, tcp_sockets
from bench.records.environment import Placement
from bench.records.torture import CrowdTally, Ending, LeftOver
from bench.records.workloads import WORKLOADS
from bench.services.private_redis import PrivateRedis
from bench.subjects.running import Ended, RunningServer
from bench.subjects.subject import START_SECONDS, Place, Subject
from bench.torture import crowd as crowds
from bench.torture.answers import Page

LOOPBACK = "127.0.0.1"
CROWD_SECONDS = 2 * crowds.PATIENCE
"""How long a crowd may take to come to its end."""
QUIET_SECONDS = 3.0
"""How long a server may take to put away what clients have left: more than the 2 s for which it
reads on after an early error."""
SETTLED_SECONDS = 0.06
"""A server whose processes and threads have not changed for so long has made them all."""
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Ground:
    """What all cells share."""

    redis: PrivateRedis
    placement: Placement
    watch: SignalWatch
    groups: Path | None = None
    """Where servers get control groups of their own, if anywhere."""
    far_end: Sequence[str] = ()
    """The words that start a program at the far end of the slow line."""
    why_no_line: str = ""
    """Where there is none."""


class CannotTakePart(Exception):
    """A subject cannot be attacked in this way; the message says why."""


class LyingRedis(Helper):
    """A way to Redis that can begin to lie: see `bench.torture.liar`. `url` is for the server."""

    def __init__(self, url: str, cpus: Sequence[int], watch: SignalWatch) -> None:
        """Before the Redis at `url`. Raises HelperError or Interrupted."""
        redis = urlsplit(url)
        where = [str(redis.hostname), str(redis.port)]
        super().__init__("bench.torture.liar", where, cpus, watch)
        self.url = redis._replace(netloc=f"127.0.0.1:{self._first}").geturl()

    def lie(self) -> None:
        """From now on."""
        self._child.send(signal.SIGUSR1)

    def be_honest(self) -> None:
        """From now on."""
        self._child.send(signal.SIGUSR2)


class RunningCrowd(Helper):
    """A crowd at work. Use in a `with` block, and ask for its tally afterwards."""

    def __init__(self, order: crowds.CrowdOrder, ground: Ground, inside: Sequence[str]) -> None:
        """`inside`: the words that start it elsewhere. Raises HelperError or Interrupted."""
        cpus, words = ground.placement.load, [order.words()]
        super().__init__("bench.torture.crowd", words, cpus, ground.watch, inside)

    def close(self) -> None:
        """Call it off."""
        self._child.end(CROWD_SECONDS)

    def tally(self) -> CrowdTally:
        """What it has done, behind its first line. Raises CannotTakePart if it cannot say."""
        lines = self._child.stdout.splitlines()
        try:
            return CrowdTally(**json.loads(lines[1]))
        except (IndexError, ValueError) as error:  # killed before, or while it wrote
            said = last_line(self._child.stderr) or "it said nothing"
            raise CannotTakePart(f"its crowd failed: {said}") from error


def page(name: str) -> Page:
    """A page by the name of its workload."""
    found = WORKLOADS[name]
    file = str(ROOT / "public" / found.file) if found.file else None
    return Page(name, found.path, found.status or 200, found.form is not None, file)


class AttackScene:
    """A subject that runs, for one cell. Use in a `with` block."""

    def __init__(
        self,
        subject: Subject,
        ground: Ground,
        address: str = LOOPBACK,
        liar: LyingRedis | None = None,
        limit: str = "",
    ) -> None:
        """Start it and wait until it listens. `liar`: stands between it and Redis. `limit`: of each
        of its processes, an option of prlimit(1). Raises StartError, OSError or Interrupted."""
        if limit:
            subject = limited(subject, limit)
        self.subject, self.ground = subject, ground
        self.redis, self.watch, self.liar = ground.redis, ground.watch, liar
        self.crowd_seen: CrowdTally | None = None
        self.ended: list[Ending] = []
        self.killed = 0
        """Children, by an attack."""
        self._folder = tempfile.TemporaryDirectory(prefix="zerohttpd-torture-")
        self._place = Place(
            redis_url=liar.url if liar else ground.redis.url,
            folder=Path(self._folder.name),
            address=address,
        )
        self._at_least: tuple[int, int] | None = None
        self._start()
        try:
            self._at_first = self._settled()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "AttackScene":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def _start(self) -> None:
        cpus = self.ground.placement.server
        groups = self.ground.groups
        self.server = RunningServer(self.subject, self._place, cpus, self.watch, groups)
        self.port = urlsplit(self.server.url).port or 80
        self._gone = False
        # Should it be started again, then where its clients know it to be.
        self._place = replace(self._place, port=self.port)

    @property
    def host(self) -> str:
        """The address at which the server listens."""
        return self._place.address

    def stop(self) -> None:
        """End the server, and keep in mind how it ended. May be called twice."""
        if not self._gone:
            self.ended.append(ending(self.server.stop()))
        self._gone = True

    def died(self) -> Ending | None:
        """How the server ended by itself, and end what it has left behind; None if it runs."""
        if self.server.running():
            return None
        self._gone = True
        return ending(self.server.stop())

    def restart(self) -> None:
        """End the server, and start it again at the same address."""
        self.stop()
        self._start()

    @contextlib.contextmanager
    def crowd(
        self,
        kind: str,
        count: int,
        of: Page,
        *,
        inside: Sequence[str] = (),
        pause: float = 0.0,
        rounds: int = 0,
    ) -> Iterator[None]:
        """A crowd at work; what it did is in `crowd_seen` afterwards. `inside`: the words that
        start it elsewhere. `pause`, `rounds`: of its order. Raises CannotTakePart or HelperError if
        nothing was done."""
        order = crowds.CrowdOrder(kind, self.host, self.port, count, of, pause, rounds)
        with RunningCrowd(order, self.ground, inside) as crowd:
            yield
        self.crowd_seen = crowd.tally()

    def children(self) -> list[psutil.Process]:
        """The processes that the server has started."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.server.pid).children(recursive=True)
        return []

    def await_accepted(self, count: int, seconds: float) -> None:
        """Until the server holds so many connections and none waits to be accepted; or for so
        many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if held_connections(self.port) >= count and not accept_queue(self.port):
                return
            self.watch.sleep(LOOK_SECONDS)

    def has_children(self) -> bool:
        """Whether some of its processes are children, while a client is there."""
        with socket.create_connection((self.host, self.port), 5) as client:
            client.sendall(b"GET /")
            deadline = time.monotonic() + 0.2
            while not (found := bool(self.children())) and time.monotonic() < deadline:
                self.watch.sleep(LOOK_SECONDS)
        return found

    def look(self) -> None:
        """Look what it has, before the attack and with some clients: processes and threads that it
        has all the time are not left over, however late they were made."""
        self._at_least = min(self._at_least or self._tasks(), self._tasks())

    def left_over(self) -> LeftOver:
        """What the server still has beyond what it had at first, when it has had time to put it
        away. Threads of others come and go as their runtimes like."""
        deadline = time.monotonic() + QUIET_SECONDS
        usual = max(self._at_first, self._at_least or self._at_first)
        while True:
            processes, threads = self._tasks()
            found = LeftOver(
                connections=held_connections(self.port),
                processes=max(0, processes - usual[0]),
                threads=max(0, threads - usual[1]) * (self.subject.kind == "server"),
            )
            if found == LeftOver() or time.monotonic() >= deadline:
                return found
            self.watch.sleep(LOOK_SECONDS)

    def _settled(self) -> tuple[int, int]:
        """Processes and threads, when those that it starts beforehand are there."""
        deadline, last, since = time.monotonic() + START_SECONDS, self._tasks(), time.monotonic()
        while time.monotonic() < min(deadline, since + SETTLED_SECONDS):
            self.watch.sleep(SETTLED_SECONDS / 4)
            if (now := self._tasks()) != last:
                last, since = now, time.monotonic()
        return last

    def _tasks(self) -> tuple[int, int]:
        """Processes, and the threads of all of them."""
        found = [psutil.Process(self.server.pid), *self.children()] if self.server.running() else []
        threads = 0
        for process in found:
            with contextlib.suppress(psutil.Error):
                threads += process.num_threads()
        return len(found), threads


def limited(subject: Subject, limit: str) -> Subject:
    """The same, with a limit: an option of prlimit(1)."""

    def command(place: Place) -> list[str]:
        return ["prlimit", limit, "--", *subject.command(place)]

    return replace(subject, command=command)


def ending(ended: Ended) -> Ending:
    """The same as a record has it."""
    return Ending(obeyed=ended.obeyed, well=ended.status == 0, words=ended.describe())


def held_connections(port: int) -> int:
    """Connections of a local port that a process still holds open: neither those that wait to be
    accepted, nor those that have ended and are only remembered by the kernel."""
    held = tcp_sockets(local=port, states=ALL & ~LISTEN & ~TIME_WAIT)
    return sum(socket.inode != 0 for socket in held)
