# SPDX-License-Identifier: MIT
"""What a picture is made of. Times are milliseconds since the scenario began."""

from enum import Enum

from pydantic import BaseModel

HEADING = "# "
"""Begins the first line of a kept trace: a `Setting`, as JSON."""


class Kind(str, Enum):
    """What a call is for; it decides how its bar looks."""

    ACCEPT = "accept"
    RECEIVE = "receive"
    REDIS = "Redis"
    SEND = "send"
    CLOSE = "close"
    WATCH = "watch"
    """A change of what the loop watches, or the loop's own call."""
    CREATE = "create"
    """Of a process or a thread."""
    LOCK = "lock"
    """Or the sleep until somebody calls."""
    CHILDREN = "children"
    """A wait for a child's end."""
    FILE = "file"
    OTHER = "other"


class Request(BaseModel):
    """A client and what became of it."""

    number: int
    """From 1."""
    port: int
    """Its own, by which the trace knows it."""
    what: str
    """Such as "GET /guestbook"."""
    begin: float
    end: float
    answer: str
    """The status, or how it ended without one."""


class Setting(BaseModel):
    """What a trace does not say by itself."""

    server: str
    summary: str
    scenario: str
    first: int
    """The server's first process."""
    redis_port: int
    origin: float
    """When the scenario began, seconds since the epoch; the requests' times count from there."""
    requests: list[Request]


class Bar(BaseModel):
    """A call in a lane."""

    begin: float
    end: float
    name: str
    """Of the call."""
    kind: Kind
    request: int | None
    """For which it is made; None: for none, or for several."""
    waits_for: str
    """In words; empty: it did not sleep."""
    text: str
    """The call as strace tells it."""
    stack: list[tuple[str, int, str]]
    """File, line and function, innermost first."""


class Lane(BaseModel):
    """A process or a thread."""

    task: int
    name: str
    begin: float
    end: float
    ended: str
    """How, or empty if it outlived the scenario."""
    bars: list[Bar]


class Arrow(BaseModel):
    """From one lane to another: a creation or a wake-up."""

    kind: str
    """fork, thread, wake."""
    from_task: int
    from_time: float
    to_task: int
    to_time: float


class Recording(BaseModel):
    """What one server did in a scenario."""

    server: str
    summary: str
    """What it says of itself."""
    scenario: str
    length: float
    requests: list[Request]
    lanes: list[Lane]
    arrows: list[Arrow]
