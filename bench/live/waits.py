# SPDX-License-Identifier: MIT
"""Describe what each connection, process and thread of a server waits for, in groups that wait for
the same event.

The server needs no code for this. The kernel reports the system call in which a task sleeps. For
each connection, the kernel reports which side sent last and how many bytes are unread, but not
whether a request is complete. The package knows only its own clients' requests. For other clients
the page shows only that they wait for a response.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.host.sockets import Socket, tcp_sockets
from bench.live import tasks
from bench.live.clients import GUESTBOOK, OTHER, SILENT, OwnClient, Title
from bench.live.tasks import Task

NAMES_SHOWN = 6
"""The largest number of names that a group lists."""
CLIENTS_SHOWN = 2000
"""The largest number of connections in all groups."""


class Wait(NamedTuple):
    """The reason why a connection or a task waits. `kind`: the sign on the page."""

    kind: str
    whom: str
    by_many: str = ""  # The text instead of `whom` for a group with several members; empty: `whom`.
    number: int = 0  # The number of the silent client for which a task waits; 0: no silent client.
    silent: bool = False  # Whether the task waits for a silent client.


@dataclass(frozen=True)
class WaitGroup:
    """Connections or tasks that wait for the same event, as the page shows them."""

    kind: str
    label: str
    """The event in words, in the singular: the label of a group of connections in /metrics."""
    call: str = ""  # The system call in which the tasks sleep.
    silent: bool = False
    who: str = ""
    whom: str = ""
    count: int = 0
    names: Sequence[str] = ()  # The names of the first members.
    numbers: Sequence[int] = ()  # The numbers of the first silent clients.
    seconds: float = 0.0  # The longest wait of a member.


Member = tuple[Title, str, Wait, float]
"""A connection or a task: its title, the system call (of a task), the reason and the seconds of its
wait."""


def grouped(members: Iterable[Member]) -> list[WaitGroup]:
    """Return groups of members that wait for the same event in the same call."""
    groups: dict[tuple[str, str, Wait], list[Member]] = {}
    for one in members:
        title, call, wait, _ = one
        groups.setdefault((title.one, call, wait._replace(number=0)), []).append(one)
    return [_group(*each) for each in groups.values()]


def _group(*members: Member) -> WaitGroup:
    (title, call, wait, _), several = members[0], len(members) > 1
    return WaitGroup(
        wait.kind,
        wait.whom,
        call,
        wait.silent,
        who=f"{len(members)} {title.many}" if several else title.words,
        whom=wait.by_many if several and wait.by_many else wait.whom,
        count=len(members),
        names=[one.words for one, *_ in members[:NAMES_SHOWN]],
        numbers=[one.number for _, _, one, _ in members if one.number][:NAMES_SHOWN],
        seconds=max(0.0, *(round(seconds, 1) for *_, seconds in members)),
    )


# ---- Connections ----

QUEUED = Wait("queue", "to be accepted")
UNREAD = Wait("unread", "to be read (it is accepted)", "to be read (they are accepted)")
REQUEST = Wait("client", "the rest of its request", "the rest of their requests")
REDIS = Wait("redis", "Redis")
RESPONSE = Wait("response", "its response", "their responses")
READER = Wait("client", "its client to read more", "their clients to read more")
IDLE = Wait("idle", "its next request", "their next requests")
NOTHING = Wait("idle", "its first byte", "their first bytes")


@dataclass
class Sockets:
    """The state of a server's port at one time."""

    states: Counter[str] = field(default_factory=Counter)
    """The number of connections in each state, without the listener."""
    queue: int = 0  # The number of established connections that the server has not accepted.
    room: int = 0  # The maximum length of the accept queue: the backlog.
    listener: int = 0  # The inode of the listening socket.
    clients: dict[int, int] = field(default_factory=dict)  # The client's port by inode.
    redis: set[int] = field(default_factory=set)  # The inodes of the connections to Redis.
    asks_redis: bool = False
    """Whether a command was sent to Redis after the last reply. Also true if command and reply have
    the same time stamp of the kernel."""
    open: list[Socket] = field(default_factory=list)  # The connections in the state ESTABLISHED.
    known: dict[int, OwnClient] = field(default_factory=dict)  # This program's clients by port.

    @property
    def unread(self) -> int:
        """Return the number of accepted connections with unread data to which nothing was sent. In
        server 05, they wait in a queue of the server."""
        return sum(_phase(one) is UNREAD for one in self.open)


def look_at_sockets(port: int, redis_port: int) -> Sockets:
    """Return the connections of the server that listens on `port`, in this network namespace."""
    found = Sockets()
    for one in tcp_sockets(local=port, traffic=True):
        if one.state == "LISTEN":
            found.listener, found.room = one.inode, one.unsent
            found.queue += one.received
            continue
        found.states[one.state] += 1
        if one.inode:
            found.clients[one.inode] = one.remote
        if one.state == "ESTABLISHED":
            found.open.append(one)
    for one in tcp_sockets(remote=redis_port, traffic=True) if redis_port else ():
        if one.inode:
            found.redis.add(one.inode)
            found.asks_redis |= one.traffic is not None and not one.traffic.peer_was_last
    return found


def groups_of_connections(seen: Sockets, now: float) -> list[WaitGroup]:
    """Return groups of connections that wait for the same event."""
    return grouped(_member(one, seen, now) for one in seen.open[:CLIENTS_SHOWN])


def _member(one: Socket, seen: Sockets, now: float) -> Member:
    """Return a connection with the title of its client, and with its wait."""
    known, wait = seen.known.get(one.remote), _phase(one)
    if known and wait is RESPONSE:  # the server has read this client's bytes
        if known.who is SILENT:
            wait = REQUEST
        elif known.path == GUESTBOOK and seen.asks_redis:
            wait = REDIS
    if known and wait is not IDLE:
        waited = now - known.begin
    elif one.traffic is None:
        waited = 0.0
    else:
        waited = one.traffic.sent_ago if wait is IDLE else one.traffic.received_ago
    return known.who if known else OTHER, "", wait, waited


def _phase(one: Socket) -> Wait:
    if not one.inode:
        return QUEUED
    if one.received:
        return UNREAD if one.traffic is None or not one.traffic.sent else RESPONSE
    if one.unsent:
        return READER
    if one.traffic is None:
        return RESPONSE
    if not one.traffic.received:
        return NOTHING
    return RESPONSE if one.traffic.peer_was_last else IDLE


# ---- Processes and threads ----

TO_READ = ("recvfrom", "recvmsg", "read")
TO_WRITE = ("sendto", "sendmsg", "write", "writev", "sendfile")
LOOPS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6", "io_uring_enter")
WAITS = {
    **dict.fromkeys(("accept", "accept4"), Wait("accept", "the next client")),
    **dict.fromkeys(LOOPS, Wait("all", "the first client that is ready")),
    **dict.fromkeys(("wait4", "waitid"), Wait("task", "a child's end")),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait("other", "the end of a pause")),
    "futex": Wait("task", "another thread: work in a queue, a lock, or its end"),
}


def wait_of(task: Task, seen: Sockets) -> Wait:
    """Return the reason why a task waits, in words."""
    if task.runs:
        return Wait("runs", "")
    if task.call in WAITS:
        return WAITS[task.call]
    if task.call in ("poll", "ppoll"):
        return _polling(task, seen)
    if task.call in (*TO_READ, *TO_WRITE, "connect"):
        return _peer(tasks.inode_of(task, task.arguments[0]), task.call, seen)
    where = f" (in {task.channel})" if task.channel else ""
    unknown = f"an unknown event{where}: this user cannot read /proc/PID/syscall"
    return Wait("other", "" if task.call else unknown)


def _polling(task: Task, seen: Sockets) -> Wait:
    if task.arguments[1] == 0:
        return WAITS["nanosleep"]
    one = tasks.watched(task)
    if one is None:
        return WAITS["epoll_wait"]
    return _peer(tasks.inode_of(task, one), task.call, seen)


def _peer(inode: int, call: str, seen: Sockets) -> Wait:
    if inode and inode == seen.listener:
        return WAITS["accept"]
    if inode in seen.redis:
        return REDIS
    if inode not in seen.clients:
        return Wait("other", "a client that has just disconnected" if inode else "")
    known = seen.known.get(seen.clients[inode])
    who = known.who if known else OTHER
    more = ", to read more" if call in TO_WRITE else ""
    silent = who is SILENT
    number = known.number if known and silent else 0
    return Wait("client", f"{who.one}{more}", f"{who.many}{more}", number, silent)


def groups_of_tasks(
    found: list[Task], seen: Sockets, since: Mapping[Task, float], now: float
) -> list[WaitGroup]:
    """Return groups of tasks that wait for the same event in the same call. `since`: when each task
    was first seen in its present sleep."""
    return grouped(
        (title, task.call, wait_of(task, seen), now - since[task])
        for task, title in zip(found, _titles(found), strict=True)
    )


def _titles(found: list[Task]) -> list[Title]:
    """Return the titles of tasks; the first task is the server's first process."""
    if len(found) == 1:
        return [Title("the process")]
    threads = any(task.process != task.number for task in found)
    titles = [Title("main thread" if threads else "parent")]
    for position, task in enumerate(found[1:], 1):
        kind = ("thread", "threads") if task.process != task.number else ("child", "children")
        titles.append(Title(*kind, position))
    return titles
