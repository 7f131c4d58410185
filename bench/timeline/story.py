# SPDX-License-Identifier: MIT
"""Turn a trace into a picture: the request and the wait of each call.

The client's port, which strace prints with each socket, identifies a request. Between accept and
close of a client, a task's calls belong to that client, including calls to Redis. Waits for events
and calls of futex belong to no client. In an event loop, calls to Redis also belong to no single
client, because all clients share one Redis connection.
"""

import re
from collections.abc import Iterable, Sequence

from bench.timeline.recording import Arrow, Bar, Kind, Lane, Recording, Setting
from bench.timeline.strace import Call, Event

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


class _Story:
    """Processes the events of a trace. Times are milliseconds since the picture's left edge."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._numbers = {one.port: one.number for one in setting.requests if one.port}
        self._left = min(request.begin for request in setting.requests) - MARGIN_MS
        self._length = max(request.end for request in setting.requests) + MARGIN_MS - self._left
        self._lanes: dict[int, Lane] = {}
        self._serving: dict[int, int | None] = {}
        """The request that each task serves."""
        self._loops: set[int] = set()
        """The tasks that are event loops, which serve many clients at once."""
        self._arrows: list[Arrow] = []
        self._wakes: list[tuple[str, int, float]] = []
        self._sleeps: list[tuple[str, int, float]] = []

    def _ms(self, time: float) -> float:
        return (time - self._setting.origin) * 1000 - self._left

    def tell(self, events: Iterable[Event]) -> Recording:
        for event in events:
            if isinstance(event, Call):
                self._call(event)
            elif (when := self._ms(event.time)) <= self._length:
                lane = self._lane(event.task)
                lane.end, lane.ended = when, event.how
                for bar in lane.bars:  # the last call of a killed task never returns
                    bar.end = max(bar.begin, min(bar.end, when))
        self._link_wakes()
        return self._recording()

    def _lane(self, task: int) -> Lane:
        """Return the lane of a task."""
        new = Lane(task=task, name="", begin=0, end=self._length, ended="", bars=[])
        return self._lanes.setdefault(task, new)

    def _call(self, call: Call) -> None:
        task = call.task
        begin = self._ms(call.begin)
        end = self._ms(call.end) if call.end is not None else self._length
        if call.name in ENDS:
            end = begin
        kind = _kind(call)
        request, is_redis = self._belongs_to(call, kind)
        if kind is Kind.CREATE and (created := call.returned or 0) > 0:
            self._creation(call, created, begin, end)
        if kind is Kind.LOCK:
            self._note_futex(call, begin, end)
        if is_redis and kind in (Kind.RECEIVE, Kind.SEND, Kind.WATCH, Kind.CLOSE):
            kind = Kind.REDIS
        if call.name in LOOPS or (
            call.name in LOOP_CALLS and len(_DESCRIPTOR.findall(call.arguments)) > 1
        ):
            self._loops.add(task)
        loops = task in self._loops
        if kind is Kind.ACCEPT or request is not None:
            self._serving[task] = request
        elif kind is not Kind.WATCH and not (loops and kind is Kind.REDIS):
            request = self._serving.get(task)
        if call.name == "close" and self._request_of(call.arguments) is not None:
            self._serving[task] = None
        if end < 0 or begin > self._length:
            return
        slept = end - begin >= SLEPT_MS and _may_sleep(call, kind, loops)
        self._lane(task).bars.append(
            Bar(
                begin=max(begin, 0),
                end=min(end, self._length),
                name=call.name,
                kind=kind,
                request=request if kind is not Kind.LOCK else None,
                waits_for=_waits_for(call, kind, request) if slept else "",
                text=f"{call.name}({call.arguments}) = {call.result or '?'}",
                returned=call.returned,
                stack=[(one.file, one.line, one.function) for one in call.stack],
            )
        )

    def _belongs_to(self, call: Call, kind: Kind) -> tuple[int | None, bool]:
        """Return the request whose client the call names, and whether the call is to Redis."""
        if kind is Kind.ACCEPT:
            return self._request_of(call.result), False
        to_redis = _port_of(call.arguments) == self._setting.redis_port
        if call.name in LOOP_CALLS:
            return None, to_redis and len(_DESCRIPTOR.findall(call.arguments)) == 1
        return self._request_of(call.arguments), to_redis

    def _request_of(self, text: str) -> int | None:
        return self._numbers.get(_port_of(text))

    def _creation(self, call: Call, created: int, begin: float, end: float) -> None:
        kind = "thread" if "CLONE_THREAD" in call.arguments else "fork"
        self._lane(created).begin = max(end, 0.0)
        # From its first call, a new task serves the client for which it was created.
        self._serving[created] = self._serving.get(call.task)
        if begin >= 0:
            self._arrows.append(Arrow(kind, call.task, begin, created, end))

    def _note_futex(self, call: Call, begin: float, end: float) -> None:
        match = _FUTEX.search(call.arguments)
        if match and match[2] == "WAKE" and (call.returned or 0) > 0:
            self._wakes.append((match[1], call.task, begin))
        elif match and match[2] == "WAIT" and end - begin >= SLEPT_MS:
            self._sleeps.append((match[1], call.task, end))

    def _link_wakes(self) -> None:
        for word, waker, when in self._wakes:
            woken = [
                (end, task)
                for other, task, end in self._sleeps
                if other == word and task != waker and 0 <= end - when <= WAKES_WITHIN_MS
            ]
            if woken and 0 <= when <= self._length:
                end, task = min(woken)
                self._arrows.append(Arrow("wake", waker, when, task, end))

    def _recording(self) -> Recording:
        setting, left = self._setting, self._left
        alive = {task: lane for task, lane in self._lanes.items() if lane.bars}
        return Recording(
            server=setting.server,
            summary=setting.summary,
            scenario=setting.scenario,
            length=self._length,
            requests=[
                one.model_copy(update={"begin": one.begin - left, "end": one.end - left})
                for one in setting.requests
            ],
            lanes=[lane for _, lane in sorted(alive.items())],
            arrows=[a for a in self._arrows if a.from_task in alive and a.to_task in alive],
        )


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


def tell(events: Iterable[Event], setting: Setting) -> Recording:
    """Return the picture of one server in a scenario with at least one request."""
    recording = _Story(setting).tell(events)
    name_lanes(recording, setting.first)
    return recording


def name_lanes(recording: Recording, first: int) -> None:
    """Name the lanes with the sources' words: process, parent, children, workers, threads."""
    # Only threads use futexes here.
    threads = any(bar.kind is Kind.LOCK for _, bar in recording.calls)
    threads |= any(arrow.kind == "thread" for arrow in recording.arrows)
    created = {arrow.to_task for arrow in recording.arrows if arrow.kind != "wake"}
    others = [lane for lane in recording.lanes if lane.task != first]
    if threads:
        main, kind = "main thread", "thread"
    else:
        main, kind = "parent", "child" if created >= {lane.task for lane in others} else "worker"
    for lane in recording.lanes:
        lane.name = main if others else "the process"
    for position, lane in enumerate(others, 1):
        lane.name = f"{kind} {position}"
