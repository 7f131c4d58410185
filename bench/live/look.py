# SPDX-License-Identifier: MIT
"""What a server does just now, put together for the page: twice a second, while a page is open."""

import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from bench.live import tasks
from bench.live.clients import Clients, Who
from bench.live.tasks import Counters, Sockets, Task
from bench.records.store import Json

EVERY_SECONDS = 0.5
SHARE_OF_TIME = 0.1
"""Looking at a thousand processes takes long; then it is done less often, so that it takes no more
than this part of one processor."""
LONGEST_PAUSE = 3.0
RATES_SHOWN = 80
NAMES_SHOWN = 6
"""Of a group that waits for the same."""

TO_READ = ("recvfrom", "recvmsg", "read")
TO_WRITE = ("sendto", "sendmsg", "write", "writev", "sendfile")
LOOPS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6", "io_uring_enter")


@dataclass(frozen=True)
class Server:
    """What is looked at."""

    name: str
    summary: str
    """What it says of itself."""
    url: str
    pid: int
    port: int
    redis_port: int


@dataclass(frozen=True)
class Wait:
    """For whom a task waits. `kind` decides how the page draws it: accept, client, redis, all,
    task, runs, other."""

    kind: str
    whom: str
    number: int = 0
    """Of the client, where several have a number."""
    by_many: str = ""
    """Whom, where several tasks do the same."""
    silent: bool = False
    """Whether it is for a silent client."""


WAITS = {
    **dict.fromkeys(("accept", "accept4"), Wait("accept", "the next client")),
    **dict.fromkeys(LOOPS, Wait("all", "the first client that is ready")),
    **dict.fromkeys(("wait4", "waitid"), Wait("task", "a child's end")),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait("other", "a pause to pass")),
    "futex": Wait("task", "another thread: work in a queue, a lock, or its end"),
}


def wait_of(task: Task, seen: Sockets, names: dict[int, tuple[Who, int]]) -> Wait:
    """In words; `names`: the clients that are known, by their port."""
    if task.runs:
        return Wait("runs", "")
    if task.call in WAITS:
        return WAITS[task.call]
    if task.call in ("poll", "ppoll"):
        return _polling(task, seen, names)
    if task.call in (*TO_READ, *TO_WRITE, "connect"):
        return _peer(tasks.inode_of(task, task.arguments[0]), task.call, seen, names)
    where = f" (in {task.channel})" if task.channel else ""
    return Wait("other", "" if task.call else f"what may not be read here{where}")


def _polling(task: Task, seen: Sockets, names: dict[int, tuple[Who, int]]) -> Wait:
    if task.arguments[1] == 0:
        return WAITS["nanosleep"]
    one = tasks.watched(task)
    if one is None:
        return WAITS["epoll_wait"]
    return _peer(tasks.inode_of(task, one), task.call, seen, names)


def _peer(inode: int, call: str, seen: Sockets, names: dict[int, tuple[Who, int]]) -> Wait:
    if inode and inode == seen.listener:
        return WAITS["accept"]
    if inode in seen.redis:
        return Wait("redis", "Redis")
    if inode not in seen.clients:
        return Wait("other", "a client that has just left" if inode else "")
    who, number = names.get(seen.clients[inode], (Who.OTHER, 0))
    one, many = (f"{name}{', to read on' if call in TO_WRITE else ''}" for name in who.value)
    return Wait("client", one, number, many, who is Who.SILENT)


@dataclass
class Sleep:
    """Since when a task has been seen in the same sleep."""

    key: tuple[str, tuple[int, ...], int]
    since: float


@dataclass
class TaskGroup:
    """Tasks that wait for the same in the same call, as the page shows them."""

    kind: str
    call: str
    whom: str
    silent: bool
    who: str = ""
    count: int = 0
    names: list[str] = field(default_factory=list)
    """Of the first."""
    numbers: list[int] = field(default_factory=list)
    """Of the first clients."""
    seconds: float = 0.0
    """For how long the first has slept."""

    def add(self, title: "TaskTitle", wait: Wait, slept: float) -> None:
        """One more of them."""
        self.count += 1
        self.who = f"{self.count} {title.many}" if self.count > 1 else title.words
        if self.count > 1 and wait.by_many:
            self.whom = wait.by_many
        if len(self.names) < NAMES_SHOWN:
            self.names.append(title.words)
        if wait.number and len(self.numbers) < NAMES_SHOWN:
            self.numbers.append(wait.number)
        self.seconds = max(self.seconds, round(slept, 1))


class TaskTitle(NamedTuple):
    """What a task is called."""

    one: str
    many: str = ""
    number: int = 0

    @property
    def words(self) -> str:
        """It alone."""
        return f"{self.one} {self.number}" if self.number else self.one


class Told(NamedTuple):
    """What a look has seen, for the page."""

    time: float
    said: dict[str, Json]


@dataclass
class Look:
    """Looks again and again, in a thread of its own, and tells who waits in `next`."""

    server: Server
    clients: Clients
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _watchers: int = 0
    _told: Told = field(default_factory=lambda: Told(0.0, {}))
    _sleeps: dict[int, Sleep] = field(default_factory=dict)
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_SHOWN))
    _before: tuple[float, int] | None = None
    _over: bool = False

    def __post_init__(self) -> None:
        self._counters = Counters(self.server.pid)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the looks, and wake all waiting readers."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join()

    def watch(self, by: int) -> None:
        """One more page is open (1), or one less (-1). Without one nothing is looked at, and
        what the buttons did is taken back."""
        with self._changed:
            self._watchers += by
            left = self._watchers == 0
            self._changed.notify_all()
        if left:
            self.clients.stop()

    def next(self, after: float, seconds: float = 5.0) -> Told | None:
        """The first look behind the one of that time; None if it is over, or takes longer."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._told.time > after, seconds)
            return self._told if self._told.time > after and not self._over else None

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._watchers:
                    self._before = None
                self._changed.wait_for(lambda: self._over or self._watchers > 0)
                if self._over:
                    return
            begin = time.thread_time()
            now = time.monotonic()
            said = self._look(now)
            took = time.thread_time() - begin
            pause = min(max(EVERY_SECONDS, took / SHARE_OF_TIME), LONGEST_PAUSE)
            said["look"] = {"ms": round(took * 1000, 1), "every": round(pause, 1)}
            with self._changed:
                self._told = Told(now, said)
                self._changed.notify_all()
            self.clients.visit()
            with self._changed:
                self._changed.wait_for(lambda: self._over, pause)

    def _look(self, now: float) -> dict[str, Json]:
        said: dict[str, Json] = {"pid": self.server.pid, "gone": False, **self.clients.told()}
        seen = tasks.look_at_sockets(self.server.port, self.server.redis_port)
        found = tasks.look(self.server.pid)
        if not found:
            return said | {"gone": True}
        return said | {
            "processes": len({task.process for task in found}),
            "threads": len(found),
            "groups": [asdict(group) for group in self._groups(found, seen, now)],
            "connections": seen.states,
            "queue": {"waiting": seen.queue, "room": seen.room},
            "rate": self._rate(now),
        }

    def _rate(self, now: float) -> dict[str, Json]:
        total = self._counters.requests()
        if total is None:
            return {"now": None, "total": None, "past": []}
        if self._before is not None and now > self._before[0]:
            self._rates.append((total - self._before[1]) / (now - self._before[0]))
        self._before = (now, total)
        past = [round(rate, 1) for rate in self._rates]
        return {"now": past[-1] if past else 0, "total": total, "past": past}

    def _groups(self, found: list[Task], seen: Sockets, now: float) -> list[TaskGroup]:
        """Those who wait for the same in the same call, together."""
        names = self.clients.names()
        titles = _titles(found)
        groups: dict[tuple[str, str, Wait], TaskGroup] = {}
        self._sleeps = {t.number: self._sleep(t, now) for t in found}
        for task in found:
            wait, title = wait_of(task, seen, names), titles[task.number]
            new = TaskGroup(wait.kind, task.call, wait.whom, wait.silent)
            group = groups.setdefault((title.one, task.call, replace(wait, number=0)), new)
            group.add(title, wait, now - self._sleeps[task.number].since)
        return list(groups.values())

    def _sleep(self, task: Task, now: float) -> Sleep:
        """Return the previous sleep if the task has not run since."""
        key = (task.call, task.arguments, task.ran_ns)
        before = self._sleeps.get(task.number)
        slept_on = before is not None and before.key == key and not task.runs and task.ran_ns
        return before if before is not None and slept_on else Sleep(key, now)


def _titles(found: list[Task]) -> dict[int, TaskTitle]:
    """By their numbers; the first one is the server's first process."""
    if len(found) == 1:
        return {found[0].number: TaskTitle("the process")}
    threads = any(task.process != task.number for task in found)
    titles = {found[0].number: TaskTitle("main thread" if threads else "parent")}
    for position, task in enumerate(found[1:], 1):
        kind = ("thread", "threads") if task.process != task.number else ("child", "children")
        titles[task.number] = TaskTitle(*kind, position)
    return titles
