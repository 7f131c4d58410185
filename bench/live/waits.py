# SPDX-License-Identifier: MIT
"""The reason why each process and thread of a server waits, in words, and groups with the same
reason."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bench.live import tasks
from bench.live.clients import OwnClient, Who
from bench.live.connections import Sockets
from bench.live.tasks import Task

NAMES_SHOWN = 6
"""The largest number of names that a group lists."""

TO_READ = ("recvfrom", "recvmsg", "read")
TO_WRITE = ("sendto", "sendmsg", "write", "writev", "sendfile")
LOOPS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6", "io_uring_enter")


@dataclass(frozen=True)
class Wait:
    """The reason why a task waits. `kind` decides how the page draws it: accept, client, redis,
    all, task, runs, other."""

    kind: str
    whom: str
    number: int = 0
    """The number of a silent client; 0 for others."""
    by_many: str = ""
    """The words for a group: for whom several tasks wait, if they do the same."""
    silent: bool = False
    """Whether it is for a silent client."""


WAITS = {
    **dict.fromkeys(("accept", "accept4"), Wait("accept", "the next client")),
    **dict.fromkeys(LOOPS, Wait("all", "the first client that is ready")),
    **dict.fromkeys(("wait4", "waitid"), Wait("task", "a child's end")),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait("other", "a pause to pass")),
    "futex": Wait("task", "another thread: work in a queue, a lock, or its end"),
}


def wait_of(task: Task, seen: Sockets, names: dict[int, OwnClient]) -> Wait:
    """Return the reason in words; `names`: the known clients by their port."""
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


def _polling(task: Task, seen: Sockets, names: dict[int, OwnClient]) -> Wait:
    if task.arguments[1] == 0:
        return WAITS["nanosleep"]
    one = tasks.watched(task)
    if one is None:
        return WAITS["epoll_wait"]
    return _peer(tasks.inode_of(task, one), task.call, seen, names)


def _peer(inode: int, call: str, seen: Sockets, names: dict[int, OwnClient]) -> Wait:
    if inode and inode == seen.listener:
        return WAITS["accept"]
    if inode in seen.redis:
        return Wait("redis", "Redis")
    if inode not in seen.clients:
        return Wait("other", "a client that has just left" if inode else "")
    known = names.get(seen.clients[inode])
    who = known.who if known else Who.OTHER
    one, many = (f"{name}{', to read on' if call in TO_WRITE else ''}" for name in who.value)
    silent = who is Who.SILENT
    return Wait("client", one, known.number if known and silent else 0, many, silent)


@dataclass
class Sleep:
    """The time since which a task sleeps in the same call."""

    key: tuple[str, tuple[int, ...], int]
    since: float


@dataclass
class TaskGroup:
    """Tasks that wait for the same event in the same call, as the page shows them."""

    kind: str
    call: str
    whom: str
    silent: bool
    who: str = ""
    count: int = 0
    names: list[str] = field(default_factory=list)
    """Of the first."""
    numbers: list[int] = field(default_factory=list)
    """The numbers of the first clients."""
    seconds: float = 0.0
    """The seconds that the first task has slept."""

    def add(self, title: "TaskTitle", wait: Wait, slept: float) -> None:
        """Add a task to the group."""
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
    """The name of a task."""

    one: str
    many: str = ""
    number: int = 0

    @property
    def words(self) -> str:
        """Return the title of a single task."""
        return f"{self.one} {self.number}" if self.number else self.one


class Sleeps:
    """The time that each task has slept."""

    def __init__(self) -> None:
        self._sleeps: dict[int, Sleep] = {}

    def see(self, found: list[Task], now: float) -> None:
        """Look at all tasks once."""
        self._sleeps = {task.number: self._sleep(task, now) for task in found}

    def since(self, task: Task) -> float:
        """Return the time since which it sleeps."""
        return self._sleeps[task.number].since

    def _sleep(self, task: Task, now: float) -> Sleep:
        """Return the previous sleep if the task has not run since."""
        key = (task.call, task.arguments, task.ran_ns)
        before = self._sleeps.get(task.number)
        slept_on = before is not None and before.key == key and not task.runs and task.ran_ns
        return before if before is not None and slept_on else Sleep(key, now)


def groups_of(
    found: list[Task], seen: Sockets, names: dict[int, OwnClient], sleeps: Sleeps, now: float
) -> list[TaskGroup]:
    """Return groups of tasks that wait for the same thing in the same call."""
    titles = _titles(found)
    groups: dict[tuple[str, str, Wait], TaskGroup] = {}
    for task in found:
        wait, title = wait_of(task, seen, names), titles[task.number]
        new = TaskGroup(wait.kind, task.call, wait.whom, wait.silent)
        group = groups.setdefault((title.one, task.call, replace(wait, number=0)), new)
        group.add(title, wait, now - sleeps.since(task))
    return list(groups.values())


def _titles(found: list[Task]) -> dict[int, TaskTitle]:
    """Return the titles of tasks by their numbers; the first task is the server's first process."""
    if len(found) == 1:
        return {found[0].number: TaskTitle("the process")}
    threads = any(task.process != task.number for task in found)
    titles = {found[0].number: TaskTitle("main thread" if threads else "parent")}
    for position, task in enumerate(found[1:], 1):
        kind = ("thread", "threads") if task.process != task.number else ("child", "children")
        titles[task.number] = TaskTitle(*kind, position)
    return titles
