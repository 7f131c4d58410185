# SPDX-License-Identifier: MIT
"""The scene of an attack: a running server, its Redis, and crowds."""

import contextlib
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench.host.project import ROOT
from bench.host.sockets import ALL, LISTEN, TIME_WAIT, accept_queue, tcp_sockets
from bench.load.crowd import CrowdOrder, Page
from bench.load.running import RunningCrowd
from bench.records.torture import CrowdTally, Ending, LeftOver
from bench.records.workloads import WORKLOADS
from bench.services.redis_server import SlowRedis
from bench.subjects.running import Ended, RunningServer
from bench.subjects.subject import START_SECONDS, Place, Subject
from bench.torture.ground import Ground

LOOPBACK = "127.0.0.1"
QUIET_SECONDS = 3.0
"""The time limit for a server to release connections, processes and threads: more than the 2 s for
which it reads on after an early error."""
SETTLED_SECONDS = 0.06
"""After this time without a change a server has created all its processes and threads."""


class CannotTakePart(Exception):
    """A server cannot take part in this attack; the message says why."""


def page(name: str) -> Page:
    """Return the page of a workload."""
    found = WORKLOADS[name]
    file = str(ROOT / "public" / found.file) if found.file else None
    return Page(name, found.path, found.status or 200, found.form is not None, file)


class AttackScene:
    """A running server for one configuration. Use it in a `with` block."""

    def __init__(
        self,
        subject: Subject,
        ground: Ground,
        address: str = LOOPBACK,
        liar: SlowRedis | None = None,
        limit: str = "",
    ) -> None:
        """Start the server and wait until it listens. `liar`: the proxy for its Redis. `limit`: see
        `Attack`. Raises StartError, OSError or Interrupted."""
        plain, prlimit = subject.command, ["prlimit", f"--{limit}", "--"] if limit else []
        subject = replace(subject, command=lambda place: [*prlimit, *plain(place)])
        self.subject, self.ground = subject, ground
        self.redis, self.watch, self.liar = ground.redis, ground.watch, liar
        self.crowd_seen: CrowdTally | None = None
        self.ended: list[Ending] = []
        self.killed = 0
        """The number of child processes that an attack has killed."""
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
        # After a restart it must have the same port, which its clients use.
        self._place = replace(self._place, port=self.port)

    @property
    def host(self) -> str:
        """Return the address on which the server listens."""
        return self._place.address

    def stop(self) -> None:
        """End the server and record how it ended. May be called twice."""
        if not self._gone:
            self.ended.append(ending(self.server.stop()))
        self._gone = True

    def died(self) -> Ending | None:
        """Return how the server ended by itself, and end its other processes; None if it runs."""
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
        """Run a crowd; its tally is in `crowd_seen` afterwards. `inside`: see `Ground.far_end`;
        `pause`, `rounds`: see `CrowdOrder`. Raises HelperError if the crowd failed."""
        order = CrowdOrder(kind, self.host, self.port, count, (of,), pause, rounds)
        with RunningCrowd(order, self.ground.placement.load, self.watch, inside) as crowd:
            yield
        self.crowd_seen = CrowdTally(**crowd.tally())

    def children(self) -> list[psutil.Process]:
        """Return the child processes of the server, and their children."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.server.pid).children(recursive=True)
        return []

    def await_accepted(self, count: int, seconds: float) -> None:
        """Wait until the server has `count` connections and none waits to be accepted; at most
        `seconds`."""
        self.watch.until(
            lambda: held_connections(self.port) >= count and not accept_queue(self.port), seconds
        )

    def has_children(self) -> bool:
        """Return whether the server has child processes while a client is connected."""
        with socket.create_connection((self.host, self.port), 5) as client:
            client.sendall(b"GET /")
            return bool(self.watch.until(self.children, 0.2))

    def look(self) -> None:
        """Count processes and threads, before the attack and with some clients. Those that the
        server always has are not left over, even if it created them late."""
        self._at_least = min(self._at_least or self._tasks(), self._tasks())

    def left_over(self) -> LeftOver:
        """Return the server's resources in excess of its first state, at the latest after
        QUIET_SECONDS. Threads of reference servers do not count: their runtimes manage them."""
        usual = max(self._at_first, self._at_least or self._at_first)
        found = LeftOver()

        def nothing() -> bool:
            processes, threads = self._tasks()
            found.connections = held_connections(self.port)
            found.processes = max(0, processes - usual[0])
            found.threads = max(0, threads - usual[1]) * (self.subject.kind == "server")
            return found == LeftOver()

        self.watch.until(nothing, QUIET_SECONDS)
        return found

    def _settled(self) -> tuple[int, int]:
        """Wait until the server has started all its workers; return processes and threads."""
        deadline, last, since = time.monotonic() + START_SECONDS, self._tasks(), time.monotonic()
        while time.monotonic() < min(deadline, since + SETTLED_SECONDS):
            self.watch.sleep(SETTLED_SECONDS / 4)
            if (now := self._tasks()) != last:
                last, since = now, time.monotonic()
        return last

    def _tasks(self) -> tuple[int, int]:
        """Return the number of processes, and of the threads of all of them."""
        found = [psutil.Process(self.server.pid), *self.children()] if self.server.running() else []
        threads = 0
        for process in found:
            with contextlib.suppress(psutil.Error):
                threads += process.num_threads()
        return len(found), threads


def ending(ended: Ended) -> Ending:
    """Return how a server ended, in the form for a record."""
    return Ending(obeyed=ended.obeyed, well=ended.status == 0, words=ended.describe())


def held_connections(port: int) -> int:
    """Return the number of a local port's connections that a process still has open, without those
    that wait to be accepted or exist only in the kernel."""
    held = tcp_sockets(local=port, states=ALL & ~LISTEN & ~TIME_WAIT)
    return sum(socket.inode != 0 for socket in held)
