# SPDX-License-Identifier: MIT
"""The attacks, with their actions, servers and allowed failures. An `AttackScene` is a running
server with its Redis and crowds.

attacks.toml has a table for each attack: a crowd, an action `during` the attack (a key of ACTIONS),
or both. The number of clients and the time of each attack are limited.
"""

import contextlib
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from pydantic import BaseModel, ConfigDict, model_validator

from bench.host.project import ROOT
from bench.host.sockets import ALL, LISTEN, TIME_WAIT, accept_queue, tcp_sockets
from bench.load.crowd import CrowdOrder, Outcome, Page
from bench.load.running import RunningCrowd
from bench.records.errors import UserError
from bench.records.torture import AttackFacts, CrowdTally, Ending, LeftOver
from bench.records.values import each_of, tables_of
from bench.records.workloads import WORKLOADS
from bench.services.redis_server import SlowRedis
from bench.subjects.running import RunningServer
from bench.subjects.subject import START_SECONDS, Place, Subject, select
from bench.torture.ground import NEAR, Ground

FILE = Path(__file__).with_name("attacks.toml")
REFILL_SECONDS = 0.3
FULL_REDIS = 12
"""The clients that the limited Redis accepts, including the test's own connection."""
UNDER_WAY = 40
"""The number of requests in progress at SIGTERM, below the number of workers of 03 and 05."""
ACCEPTED_SECONDS = 0.6
"""The time limit for a server to accept UNDER_WAY connections. The sum of this time and
PAUSED_SECONDS is below 1 s, the servers' timeout for a new connection to Redis."""
PAUSED_SECONDS = 0.2
"""The time that Redis stays stopped after SIGTERM."""
KILL_SECONDS = 0.05
REFERENCES = ("nginx", "h2o", "lighttpd", "go")
"""The reference servers that are tested by default, because a test of all takes an hour."""
REDIS_PAGES = frozenset({"guestbook", "sign"})
LOOPBACK = "127.0.0.1"
QUIET_SECONDS = 3.0
"""The time limit for a server to release connections, processes and threads. The limit is above
2 s, because a server reads for up to 2 s after an early error response."""
SETTLED_SECONDS = 0.06
"""If the number of tasks is constant for this time, a server has created all of them."""


def page(name: str) -> Page:
    """Return the page of a workload."""
    found = WORKLOADS[name]
    file = str(ROOT / "public" / found.file) if found.file else None
    return Page(name, found.path, found.status or 200, found.form is not None, file)


class AttackScene(contextlib.ExitStack):
    """A running server for one configuration. Use it in a `with` block."""

    def __init__(self, subject: Subject, attack: "Attack", ground: Ground) -> None:
        """Start the server under the conditions of the attack and wait until it listens. Raises
        NoFigure, OSError or Interrupted."""
        super().__init__()
        plain = subject.command
        prlimit = ["prlimit", f"--{attack.limit}", "--"] if attack.limit else []
        subject = replace(subject, command=lambda place: [*prlimit, *plain(place)])
        self.subject, self.attack, self.ground = subject, attack, ground
        self.redis, self.watch = ground.redis, ground.watch
        self.host = NEAR if attack.far else LOOPBACK
        """The address on which the server listens."""
        self.crowd_seen: CrowdTally | None = None
        self.ended: list[Ending] = []
        self.killed = 0
        """The number of child processes that an attack has killed."""
        self._counts: list[tuple[int, int]] = []
        try:
            folder = self.enter_context(tempfile.TemporaryDirectory(prefix="zerohttpd-torture-"))
            url = ground.redis.url
            if attack.during == "redis_lying":
                liar = SlowRedis(url, 0, ground.placement.load, ground.watch)
                self.liar, url = self.enter_context(liar), liar.url
            self._place = Place(redis_url=url, folder=Path(folder), address=self.host)
            self._start()
            self.callback(self.stop)
            self._at_first = self._settled()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        cpus, group = self.ground.placement.server, self.ground.group()
        self.server = RunningServer(self.subject, self._place, cpus, self.watch, group)
        self.port = urlsplit(self.server.url).port or 80
        self._gone = False
        # After a restart the server must have the same port, because its clients use this port.
        self._place = replace(self._place, port=self.port)

    def stop(self) -> None:
        """End the server and record how it ended. May be called twice."""
        if not self._gone:
            self.ended.append(self._end())

    def died(self) -> Ending | None:
        """If the server has ended by itself, end its other processes and return how it ended;
        otherwise return None."""
        return None if self.server.running() else self._end()

    def _end(self) -> Ending:
        self._gone, end = True, self.server.stop()
        return Ending(obeyed=end.obeyed, well=end.status == 0, words=end.describe())

    def restart(self) -> None:
        """End the server, and start it again at the same address."""
        self.stop()
        self._start()

    @contextlib.contextmanager
    def crowd(
        self, kind: str, count: int, of: Page, pause: float = 0.0, rounds: int = 0
    ) -> Iterator[None]:
        """Run a crowd; afterwards `crowd_seen` has its tally. `pause`, `rounds`: see `CrowdOrder`.
        Raises HelperError if the crowd failed."""
        order = CrowdOrder(kind, self.host, self.port, count, (of,), pause, rounds)
        inside = self.ground.far_end if self.attack.far else ()
        with RunningCrowd(order, self.ground.placement.load, self.watch, inside) as crowd:
            yield
        self.crowd_seen = CrowdTally(**crowd.tally())

    def children(self) -> list[psutil.Process]:
        """Return the child processes of the server, and their children."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.server.pid).children(recursive=True)
        return []

    def await_accepted(self, count: int, seconds: float) -> None:
        """Wait, at most `seconds`, until the server has `count` connections and its accept queue is
        empty."""
        self.watch.until(
            lambda: held_connections(self.port) >= count and not accept_queue(self.port), seconds
        )

    def has_children(self) -> bool:
        """Return whether the server has child processes while a client is connected."""
        with socket.create_connection((self.host, self.port), 5) as client:
            client.sendall(b"GET /")
            return bool(self.watch.until(self.children, 0.2))

    def look(self) -> None:
        """Count processes and threads before the attack, while some clients are served. `left_over`
        uses the smallest of these counts, but at least the count after the server's start."""
        self._counts.append(self._tasks())

    def left_over(self) -> LeftOver:
        """Count open connections, and tasks beyond those before the attack, after a wait of at most
        QUIET_SECONDS. Threads of reference servers do not count: a runtime manages them."""
        usual = max(self._at_first, min(self._counts, default=self._at_first))
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
        """Return the numbers of processes and of their threads."""
        found = [psutil.Process(self.server.pid), *self.children()] if self.server.running() else []
        threads = 0
        for process in found:
            with contextlib.suppress(psutil.Error):
                threads += process.num_threads()
        return len(found), threads


def held_connections(port: int) -> int:
    """Return the number of connections of a local port that a process has open. Connections in an
    accept queue, or only in the kernel, do not count."""
    held = tcp_sockets(local=port, states=ALL & ~LISTEN & ~TIME_WAIT)
    return sum(socket.inode != 0 for socket in held)


# ---- The attacks ----


class Action(NamedTuple):
    """What happens to the server or to Redis during an attack."""

    begin: Callable[[AttackScene], None] = lambda _: None
    end: Callable[[AttackScene], None] = lambda _: None
    interval: float = 0.0
    """The interval in seconds at which `begin` is repeated; 0: it is not repeated."""


def kill_child(scene: AttackScene) -> None:
    """Kill a random child process with SIGKILL. It may serve a client, or wait for one."""
    if children := scene.children():
        with contextlib.suppress(psutil.Error):
            random.choice(children).kill()
            scene.killed += 1


def sigterm(scene: AttackScene) -> None:
    """Send SIGTERM while clients wait for a stopped Redis, and let Redis continue. After the server
    has ended, start it again, as a supervisor would."""
    scene.redis.stop()
    try:
        with scene.crowd("rush", UNDER_WAY, page("guestbook"), rounds=1):
            scene.await_accepted(UNDER_WAY, ACCEPTED_SECONDS)
            scene.server.ask_to_stop()
            scene.watch.sleep(PAUSED_SECONDS)
            scene.redis.go_on()
    finally:
        scene.redis.go_on()
    scene.restart()


ACTIONS = {
    "": Action(),
    "redis_killed": Action(lambda s: s.redis.kill(), lambda s: s.redis.start_again()),
    "redis_stopped": Action(lambda s: s.redis.stop(), lambda s: s.redis.go_on()),
    "redis_lying": Action(lambda s: s.liar.lie(), lambda s: s.liar.be_honest()),
    "redis_full": Action(
        lambda s: s.redis.limit_clients(FULL_REDIS), lambda s: s.redis.lift_limit()
    ),
    # Visitors add remarks, and the page shows only the newest. So the long remarks are repeated.
    "large_pages": Action(
        lambda s: s.redis.fill_page(), lambda s: s.redis.empty_page(), REFILL_SECONDS
    ),
    "children_killed": Action(kill_child, interval=KILL_SECONDS),
    "sigterm": Action(sigterm),
}


class Attackers(BaseModel):
    """The crowd of an attack."""

    model_config = ConfigDict(extra="forbid")

    kind: str  # A key of `bench.load.crowd.KINDS`.
    count: int = 200
    """The number of clients; the default is twice the number of workers of 03 and 05."""
    pages: Sequence[str] = ["redirect"]
    """The crowd requests the first page that the server has; if it has none, the last page."""
    pause: float = 0.0
    far: bool = False  # Whether the crowd uses the slow line.

    def wants(self, subject: Subject) -> Page:
        """Return the page that the crowd requests from a server."""
        return page(next(filter(subject.serves, self.pages), self.pages[-1]))


class Attack(AttackFacts):
    """An attack, and the rules for its result."""

    model_config = ConfigDict(extra="forbid")

    crowd: Attackers | None = None
    during: str = ""
    limit: str = ""
    """A limit of the server's processes, as an option of prlimit(1) without the hyphens."""
    needs_redis: bool = False  # Whether only servers that use Redis take part.
    excused: Sequence[Outcome] = []
    own_only: str = ""
    """The reason why only the project's servers take part; empty if all servers take part."""
    needs_children: bool = False

    @property
    def far(self) -> bool:
        """Return whether the crowd uses the slow line."""
        return bool(self.crowd and self.crowd.far)

    @model_validator(mode="after")
    def _says_how_many(self) -> "Attack":
        self.what = self.what.format(count=self.crowd and self.crowd.count)
        return self

    def rated_pages(self, pages: list[str]) -> list[str]:
        """Return the pages whose visitors are rated."""
        every = self.rated == "all visitors"
        return [name for name in pages if every or name not in REDIS_PAGES]

    def why_not(self, subject: Subject) -> str:
        """Return the reason why a server cannot take part, or an empty string if it can."""
        if self.own_only and subject.kind != "server":
            return self.own_only
        if self.needs_redis and not subject.serves("guestbook"):
            return "does not use Redis"
        return ""

    @contextlib.contextmanager
    def run(self, scene: AttackScene) -> Iterator[Callable[[], None]]:
        """Attack during the `with` block; yield a function that the caller must call repeatedly."""
        action = ACTIONS[self.during]
        due = time.monotonic() + action.interval

        def again() -> None:
            nonlocal due
            if action.interval and time.monotonic() >= due:
                due = time.monotonic() + action.interval
                action.begin(scene)

        with contextlib.ExitStack() as stack:
            action.begin(scene)
            stack.callback(action.end, scene)
            if who := self.crowd:
                of = who.wants(scene.subject)
                stack.enter_context(scene.crowd(who.kind, who.count, of, who.pause))
            yield again


ATTACKS = tables_of(Attack, FILE)


def attacks_of(names: list[str]) -> list[Attack]:
    """Return the attacks with these names, each once; all if `names` is empty. Raises UserError."""
    return [ATTACKS[name] for name in each_of("attack", names or ATTACKS, ATTACKS)]


def servers_of(names: list[str]) -> tuple[list[Subject], list[str]]:
    """Return the named servers, and the reasons for omitted ones. Without names: all servers of the
    project and the installed servers of REFERENCES. Raises UserError."""
    if baselines := [name for name in names if name.startswith("baseline-")]:
        raise UserError(f"{', '.join(baselines)}: baselines make no promises and are not tested")
    if names:
        return select(names), []
    left_out: dict[str, str] = {}
    servers = [*select(None), *select(REFERENCES, left_out=left_out)]
    return servers, list(left_out.values())
