# SPDX-License-Identifier: MIT
"""What a server does just now, put together for the page: twice a second, while a page is open."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from bench.live import sockets, tasks
from bench.live.clients import Clients
from bench.live.counters import Counters
from bench.live.sockets import Sockets
from bench.live.tasks import Task

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


WAITS = {
    **dict.fromkeys(("accept", "accept4"), Wait("accept", "the next client")),
    **dict.fromkeys(LOOPS, Wait("all", "whoever is ready first")),
    **dict.fromkeys(("wait4", "waitid"), Wait("task", "a child's end")),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait("other", "a pause to pass")),
    "futex": Wait("task", "another thread: work in a queue, a lock, or its end"),
}


def wait_of(task: Task, seen: Sockets, names: dict[int, tuple[str, int]]) -> Wait:
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


def _polling(task: Task, seen: Sockets, names: dict[int, tuple[str, int]]) -> Wait:
    if task.arguments[1] == 0:
        return WAITS["nanosleep"]
    one = tasks.watched(task)
    if one is None:
        return WAITS["epoll_wait"]
    return _peer(tasks.inode_of(task, one), task.call, seen, names)


def _peer(inode: int, call: str, seen: Sockets, names: dict[int, tuple[str, int]]) -> Wait:
    if inode and inode == seen.listener:
        return WAITS["accept"]
    if inode in seen.redis:
        return Wait("redis", "Redis")
    if inode not in seen.clients:
        return Wait("other", "somebody who has just gone" if inode else "")
    who, number = names.get(seen.clients[inode], ("a client", 0))
    return Wait("client", f"{who}, to read on" if call in TO_WRITE else who, number)


@dataclass
class Sleep:
    """Since when a task has been seen in the same sleep."""

    key: tuple[Any, ...]
    since: float


@dataclass
class Look:
    """Looks again and again, in a thread of its own, and tells who waits in `next`."""

    server: Server
    clients: Clients
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _watchers: int = 0
    _told: dict[str, Any] = field(default_factory=dict)
    _sleeps: dict[int, Sleep] = field(default_factory=dict)
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=RATES_SHOWN))
    _before: tuple[float, int] | None = None
    _over: bool = False

    def __post_init__(self) -> None:
        self._counters = Counters(self.server.pid)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more looks; who waits is told so."""
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

    def next(self, after: float, seconds: float = 5.0) -> dict[str, Any] | None:
        """The first look behind the one of that time; None if it is over, or takes longer."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or self._told.get("time", 0.0) > after, seconds
            )
            newer = self._told.get("time", 0.0) > after
            return self._told if newer and not self._over else None

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._watchers:
                    self._before = None
                self._changed.wait_for(lambda: self._over or self._watchers > 0)
                if self._over:
                    return
            begin = time.thread_time()
            told = self._look(time.monotonic())
            took = time.thread_time() - begin
            pause = min(max(EVERY_SECONDS, took / SHARE_OF_TIME), LONGEST_PAUSE)
            told["look"] = {"ms": round(took * 1000, 1), "every": round(pause, 1)}
            with self._changed:
                self._told = told
                self._changed.notify_all()
            self.clients.visit()
            with self._changed:
                self._changed.wait_for(lambda: self._over, pause)

    def _look(self, now: float) -> dict[str, Any]:
        told: dict[str, Any] = {"time": now, "pid": self.server.pid, "gone": False}
        told |= self.clients.told()
        seen = sockets.look(self.server.port, self.server.redis_port)
        found = tasks.look(self.server.pid)
        if not found:
            return told | {"gone": True}
        return told | {
            "processes": len({task.process for task in found}),
            "threads": len(found),
            "groups": self._groups(found, seen, now),
            "connections": seen.states,
            "queue": {"waiting": seen.queue, "room": seen.room},
            "rate": self._rate(now),
        }

    def _rate(self, now: float) -> dict[str, Any]:
        total = self._counters.requests()
        if total is None:
            return {"now": None, "total": None, "past": []}
        if self._before is not None and now > self._before[0]:
            self._rates.append((total - self._before[1]) / (now - self._before[0]))
        self._before = (now, total)
        past = [round(rate, 1) for rate in self._rates]
        return {"now": past[-1] if past else 0, "total": total, "past": past}

    def _groups(self, found: list[Task], seen: Sockets, now: float) -> list[dict[str, Any]]:
        """Those who wait for the same in the same call, together."""
        names = self.clients.names()
        titles = _titles(found)
        groups: dict[tuple[str, ...], dict[str, Any]] = {}
        self._sleeps = {t.number: self._sleep(t, now) for t in found}
        for task in found:
            wait = wait_of(task, seen, names)
            title = titles[task.number]
            group = groups.setdefault(
                (title.rstrip("0123456789"), task.call, wait.kind, wait.whom),
                {
                    "kind": wait.kind,
                    "call": task.call,
                    "whom": wait.whom,
                    "count": 0,
                    "names": [],
                    "numbers": [],
                    "seconds": 0.0,
                },
            )
            group["count"] += 1
            if len(group["names"]) < NAMES_SHOWN:
                group["names"].append(title)
            if wait.number and len(group["numbers"]) < NAMES_SHOWN:
                group["numbers"].append(wait.number)
            slept = now - self._sleeps[task.number].since
            group["seconds"] = max(group["seconds"], round(slept, 1))
        return list(groups.values())

    def _sleep(self, task: Task, now: float) -> Sleep:
        """The same one as before, if it has not run since."""
        key = (task.call, task.arguments, task.ran_ns)
        before = self._sleeps.get(task.number)
        slept_on = before is not None and before.key == key and not task.runs and task.ran_ns
        return before if before is not None and slept_on else Sleep(key, now)


def _titles(found: list[Task]) -> dict[int, str]:
    """What each task is called; the first one is the server's first process."""
    if len(found) == 1:
        return {found[0].number: "the process"}
    threads = any(task.process != task.number for task in found)
    titles: dict[int, str] = {}
    for position, task in enumerate(found):
        kind = "thread" if task.process != task.number else "child"
        first = "main thread" if threads else "parent"
        titles[task.number] = f"{kind} {position}" if position else first
    return titles
