# SPDX-License-Identifier: MIT
"""Turn a trace into a picture: the request and the wait of each call.

The client's port, which strace prints with each socket, identifies a request. Between accept and
close of a client, a task's calls belong to that client, including calls to Redis. Waits for events
and calls of futex belong to no client. In an event loop, calls to Redis also belong to no single
client, because all clients share one Redis connection.

Times of a picture are milliseconds since its left edge.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from bench.timeline.strace import Call, Request, Trace

SLEPT_MS = 0.5
"""Longer calls have slept; strace makes short calls ten times longer."""
MARGIN_MS = 8.0
"""The time shown before the first client and after the last response."""
WAKES_WITHIN_MS = 20.0
"""The maximum time from a wake-up to the end of the call that slept."""

_DESCRIPTOR = re.compile(r"(\d+)<([^>]*(?:->[^>]*)?)>")
_PEER = re.compile(r"->\[?[0-9a-f.:]*?\]?:(\d+)\]")
_CONNECT = re.compile(r"sin6?_port=htons\((\d+)\)")
_FUTEX = re.compile(r"(0x[0-9a-f]+), FUTEX_(WAIT|WAKE)")


class Kind(str, Enum):
    """The purpose of a call, which determines the style of its bar."""

    ACCEPT = "accept"
    RECEIVE = "receive"
    REDIS = "Redis"
    SEND = "send"
    CLOSE = "close"
    WATCH = "watch"
    """A wait for several descriptors or by poll, or a change of the watched descriptors."""
    CREATE = "create"
    """The creation of a process or a thread."""
    LOCK = "lock"
    """A call of futex: a wait for a lock or for another thread, or a wake-up."""
    CHILDREN = "children"
    """A wait for a child's end."""
    FILE = "file"
    OTHER = "other"


LOOPS = ("epoll_wait", "epoll_pwait", "io_uring_enter")
"""Calls that only event loops use. poll is missing: 06 waits in it, but others also call it."""
LOOP_CALLS = (*LOOPS, "poll", "ppoll")
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("accept4", "accept"), Kind.ACCEPT),
    **dict.fromkeys(("recvfrom", "recvmsg", "read", "recv"), Kind.RECEIVE),
    **dict.fromkeys(("sendto", "sendmsg", "write", "writev", "sendfile", "shutdown"), Kind.SEND),
    **dict.fromkeys(("connect",), Kind.REDIS),
    **dict.fromkeys(("close",), Kind.CLOSE),
    **dict.fromkeys(("epoll_ctl", *LOOP_CALLS), Kind.WATCH),
    **dict.fromkeys(("clone", "clone3", "fork", "vfork"), Kind.CREATE),
    **dict.fromkeys(("futex",), Kind.LOCK),
    **dict.fromkeys(("wait4", "waitid"), Kind.CHILDREN),
    **dict.fromkeys(("openat2", "openat", "newfstatat", "fstat", "pread64"), Kind.FILE),
}
ENDS = ("exit", "exit_group")
"""Calls that never return and do not wait for an event."""


@dataclass
class Bar:
    """A call in a lane."""

    call: Call
    begin: float
    end: float
    kind: Kind
    request: int | None = None
    """The number of the request that the call serves; None for no request, or several."""
    waits_for: str = ""
    """The event for which the call waits, in words; empty if the call did not sleep."""

    @property
    def text(self) -> str:
        """Return the call as strace prints it."""
        return f"{self.call.name}({self.call.arguments}) = {self.call.result or '?'}"


@dataclass
class Lane:
    """A process or a thread."""

    task: int
    begin: float
    end: float
    name: str = ""
    ended: str = ""  # How the task ended; empty if it still ran at the picture's end.
    bars: list[Bar] = field(default_factory=list)
    serves: int | None = None  # The request that the task serves after its last bar.
    is_loop: bool = False  # Whether the task is an event loop, which serves many clients at once.


class Arrow(NamedTuple):
    """An arrow from one lane to another: a creation or a wake-up."""

    kind: str  # `fork`, `thread` or `wake`.
    from_task: int
    from_time: float
    to_task: int
    to_time: float


@dataclass
class Recording:
    """The picture of one server in a scenario."""

    server: str
    summary: str
    scenario: str
    length: float
    requests: list[Request]
    lanes: list[Lane]
    arrows: list[Arrow]

    @property
    def calls(self) -> list[tuple[int, Bar]]:
        """Return each call with the number of its task, in order of time."""
        found = [(lane.task, bar) for lane in self.lanes for bar in lane.bars]
        return sorted(found, key=lambda one: one[1].begin)


def tell(trace: Trace) -> Recording:
    """Return the picture of a trace with at least one request."""
    return _Story(trace).tell()


class _Story:
    """Processes the calls of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbers = {one.port: one.number for one in trace.requests if one.port}
        self._left = min(request.begin for request in trace.requests) - MARGIN_MS
        self._length = max(request.end for request in trace.requests) + MARGIN_MS - self._left
        self._lanes: dict[int, Lane] = {}
        self._arrows: list[Arrow] = []

    def tell(self) -> Recording:
        trace, left = self._trace, self._left
        for call in trace.calls:
            self._call(call)
        lanes = [lane for _, lane in sorted(self._lanes.items()) if lane.bars]
        for lane in lanes:
            end = trace.ends.get(lane.task)
            if end and (when := self._ms(end.time)) <= self._length:
                lane.end, lane.ended = when, end.how
                for bar in lane.bars:  # the last call of a killed task never returns
                    bar.end = max(bar.begin, min(bar.end, when))
        requests = [
            one.model_copy(update={"begin": one.begin - left, "end": one.end - left})
            for one in trace.requests
        ]
        tasks = {lane.task for lane in lanes}
        arrows = [a for a in self._arrows if {a.from_task, a.to_task} <= tasks]
        about = (trace.server, trace.summary, trace.scenario)
        made = Recording(*about, self._length, requests, lanes, arrows)
        made.arrows += _wakes(made.calls)
        _name_lanes(made, trace.first)
        return made

    def _ms(self, time: float) -> float:
        return (time - self._trace.origin) * 1000 - self._left

    def _lane(self, task: int) -> Lane:
        """Return the lane of a task."""
        return self._lanes.setdefault(task, Lane(task, 0.0, self._length))

    def _call(self, call: Call) -> None:
        lane, kind, begin = self._lane(call.task), _kind(call), self._ms(call.begin)
        end = self._ms(call.end) if call.end is not None else self._length
        if call.name in ENDS:
            end = begin
        request, is_redis = self._belongs_to(call, kind)
        if kind is Kind.CREATE and (created := call.returned or 0) > 0:
            self._creation(call, created, begin, end)
        if is_redis and kind in (Kind.RECEIVE, Kind.SEND, Kind.WATCH, Kind.CLOSE):
            kind = Kind.REDIS
        several = call.name in LOOP_CALLS and len(_DESCRIPTOR.findall(call.arguments)) > 1
        lane.is_loop |= several or call.name in LOOPS
        if kind is Kind.ACCEPT or request is not None:
            lane.serves = request
        elif kind is not Kind.WATCH and not (lane.is_loop and kind is Kind.REDIS):
            request = lane.serves
        if call.name == "close" and self._request_of(call.arguments) is not None:
            lane.serves = None
        if end < 0 or begin > self._length:
            return
        bar = Bar(call, max(begin, 0.0), min(end, self._length), kind)
        if kind is not Kind.LOCK:
            bar.request = request
        if end - begin >= SLEPT_MS and _may_sleep(call, kind, lane.is_loop):
            bar.waits_for = _waits_for(call, kind, request)
        lane.bars.append(bar)

    def _belongs_to(self, call: Call, kind: Kind) -> tuple[int | None, bool]:
        """Return the request whose client the call names, and whether the call is to Redis."""
        if kind is Kind.ACCEPT:
            return self._request_of(call.result), False
        to_redis = _port_of(call.arguments) == self._trace.redis_port
        if call.name in LOOP_CALLS:
            return None, to_redis and len(_DESCRIPTOR.findall(call.arguments)) == 1
        return self._request_of(call.arguments), to_redis

    def _request_of(self, text: str) -> int | None:
        return self._numbers.get(_port_of(text))

    def _creation(self, call: Call, created: int, begin: float, end: float) -> None:
        kind = "thread" if "CLONE_THREAD" in call.arguments else "fork"
        lane = self._lane(created)
        lane.begin = max(end, 0.0)
        # From its first call, a new task serves the client for which it was created.
        lane.serves = self._lane(call.task).serves
        if begin >= 0:
            self._arrows.append(Arrow(kind, call.task, begin, created, end))


def _port_of(text: str) -> int:
    """Return the peer's port of the first socket in the text, or the port given to connect; 0
    without a port."""
    match = _PEER.search(text) or _CONNECT.search(text)
    return int(match[1]) if match else 0


def _kind(call: Call) -> Kind:
    """Return the purpose of a call. A `read` of a file does not receive data from a client."""
    reads_file = call.name == "read" and "</" in call.arguments
    return Kind.FILE if reads_file else KINDS.get(call.name, Kind.OTHER)


def _may_sleep(call: Call, kind: Kind, loops: bool) -> bool:
    """Return whether a long call may have waited; otherwise the task only lost its CPU."""
    if "MSG_DONTWAIT" in call.arguments or call.error == "EAGAIN":
        return call.name in LOOP_CALLS
    if loops:
        return call.name in LOOP_CALLS or kind is Kind.LOCK
    return kind not in (Kind.CREATE, Kind.FILE, Kind.CLOSE)


def _waits_for(call: Call, kind: Kind, request: int | None) -> str:
    """Return, in words, the event for which a sleeping call waited."""
    functions = [source.function for source in call.stack]
    client = f"client {request}" if request is not None else "the client"
    sleeps = {
        Kind.ACCEPT: "the next client",
        Kind.RECEIVE: f"{client}, to send",
        Kind.SEND: f"{client}, to read",
        Kind.REDIS: f"Redis, for {client}" if request is not None else "Redis",
        Kind.CHILDREN: "a child's end",
        Kind.LOCK: _waits_for_whom(functions),
        Kind.WATCH: _watched(call),
    }
    return sleeps.get(kind, "the kernel")


def _waits_for_whom(functions: Sequence[str]) -> str:
    """Return the event for which a thread waits on a futex, derived from its calling functions."""
    words = {"take": "a client in the queue", "main": "a thread's end", "borrow": "a lock"}
    return next(
        (what for name in functions for word, what in words.items() if word in name), "a lock"
    )


def _watched(call: Call) -> str:
    if call.arguments.startswith(("NULL, 0", "[], 0")):
        return "the end of a pause"
    if call.name in ("poll", "ppoll") and re.search(r"\}\], 1\b", call.arguments):
        return "the next event" if "->" in call.arguments else "the next client"
    return "any watched descriptor"


def _wakes(calls: Sequence[tuple[int, Bar]]) -> Iterator[Arrow]:
    """Yield an arrow from each wake-up to the first sleep that it ended."""
    found = [(task, bar, _FUTEX.search(bar.call.arguments)) for task, bar in calls]
    uses = [(task, bar, match[1], match[2]) for task, bar, match in found if match]
    for waker, wake, word, use in uses:
        if use != "WAKE" or (wake.call.returned or 0) <= 0:
            continue
        woken = [
            (bar.end, task)
            for task, bar, other, kind in uses
            if kind == "WAIT" and other == word and task != waker and bar.waits_for
            if 0 <= bar.end - wake.begin <= WAKES_WITHIN_MS
        ]
        if woken:
            end, task = min(woken)
            yield Arrow("wake", waker, wake.begin, task, end)


def _name_lanes(made: Recording, first: int) -> None:
    """Name the lanes with the sources' words: process, parent, children, workers, threads."""
    # Only threads use futexes here.
    threads = any(bar.kind is Kind.LOCK for _, bar in made.calls)
    threads |= any(arrow.kind == "thread" for arrow in made.arrows)
    created = {arrow.to_task for arrow in made.arrows if arrow.kind != "wake"}
    others = [lane for lane in made.lanes if lane.task != first]
    if threads:
        main, kind = "main thread", "thread"
    else:
        main, kind = "parent", "child" if created >= {lane.task for lane in others} else "worker"
    for lane in made.lanes:
        lane.name = main if others else "the process"
    for position, lane in enumerate(others, 1):
        lane.name = f"{kind} {position}"
