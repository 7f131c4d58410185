# SPDX-License-Identifier: MIT
"""The data models of a picture. Times are milliseconds since its left edge."""

from enum import Enum
from typing import NamedTuple

from pydantic import BaseModel

HEADING = "# "
"""The start of a recorded trace's first line, before a `Setting` as JSON."""


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


class Request(BaseModel):
    """A client's request and its result."""

    number: int
    """Counted from 1."""
    port: int
    """The client's port, which identifies the request in the trace."""
    what: str
    """The method and the path, for example "GET /guestbook"."""
    begin: float
    end: float
    answer: str
    """The status, or the reason why there is no status."""


class TracedServer(BaseModel):
    """The server under test, its scenario, and the results of the clients."""

    server: str
    summary: str
    """The server's one-line description."""
    scenario: str
    requests: list[Request]


class Setting(TracedServer):
    """Facts that are not in the trace. Times of requests are relative to `origin`."""

    first: int
    """The PID of the server's first process."""
    redis_port: int
    origin: float
    """The scenario's start in seconds since the epoch."""


class Bar(BaseModel):
    """A call in a lane."""

    begin: float
    end: float
    name: str
    """The name of the call."""
    kind: Kind
    request: int | None
    """The number of the request that the call serves; None for no request, or several."""
    waits_for: str
    """The event for which the call waits, in words; empty if the call did not sleep."""
    text: str
    """The call as strace prints it."""
    returned: int | None
    """The result of the call; None if the call never returned."""
    stack: list[tuple[str, int, str]]
    """File, line and function of each frame, innermost first."""


class Lane(BaseModel):
    """A process or a thread."""

    task: int
    name: str
    begin: float
    end: float
    ended: str
    """How the task ended; empty if it still ran at the scenario's end."""
    bars: list[Bar]


class Arrow(NamedTuple):
    """An arrow from one lane to another: a creation or a wake-up."""

    kind: str
    """`fork`, `thread` or `wake`."""
    from_task: int
    from_time: float
    to_task: int
    to_time: float


class Recording(TracedServer):
    """The calls of one server in a scenario."""

    length: float
    lanes: list[Lane]
    arrows: list[Arrow]

    @property
    def calls(self) -> list[tuple[int, Bar]]:
        """Return each call with the number of its task, in order of time."""
        found = [(lane.task, bar) for lane in self.lanes for bar in lane.bars]
        return sorted(found, key=lambda one: one[1].begin)
