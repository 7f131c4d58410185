# SPDX-License-Identifier: MIT
"""The words between the sweep and an agent: a JSON object a line, a question and its answer.

    {"number": 7, "call": "start_servers", "order": {"subject": "epoll", ...}}
    {"number": 7, "result": {"urls": ["http://10.77.0.3:41234/"]}}
    {"number": 7, "error": {"kind": "StartError", "text": "epoll did not start: ..."}}

The first question is `hello`. Both sides must be of the same checkout: a sweep would otherwise
compare servers, or figures, that are not what they are called.
"""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue

from bench.host.kernel import REST_SECONDS
from bench.host.process import HelperError, StartError
from bench.records.errors import UserError
from bench.services.balancer import BalancerOrder
from bench.stations import orders
from bench.stations.hosts import Address
from bench.subjects.running import STOP_SECONDS
from bench.subjects.subject import START_SECONDS as SERVER_SECONDS

LONGEST_LINE = 4_000_000
"""Bytes; an answer is a few thousand."""


class Nothing(BaseModel):
    """No order, or no result."""


class Hello(BaseModel):
    """The first question: at which address this host's programs shall listen."""

    address: Address


class Greeting(BaseModel):
    """The reply to it."""

    digest: str
    """Of the sources, see `bench.host.project.source_digest`."""


class Question(BaseModel):
    """A line to the agent."""

    number: int
    call: str
    order: dict[str, JsonValue] = {}


class Failure(BaseModel):
    """What went wrong."""

    kind: str
    text: str


class Reply(BaseModel):
    """A line from the agent."""

    model_config = ConfigDict(extra="forbid")

    number: int
    result: dict[str, JsonValue] | None = None
    error: Failure | None = None


@dataclass(frozen=True)
class CallType:
    """Something that can be asked for."""

    order: type[BaseModel]
    seconds: float
    """After which a host that has not answered is given up. What it waits for itself must fit."""


CALLS = {
    "hello": CallType(Hello, 60.0),
    "survey": CallType(orders.Survey, 1200.0),  # strangers may have to be built
    "start_redis": CallType(Nothing, 40.0),
    "make_room": CallType(orders.RoomOrder, REST_SECONDS + 30.0),
    "start_slow_redis": CallType(orders.SlowOrder, 20.0),
    # For one; the second and the next are each granted as much again.
    "start_servers": CallType(orders.ServerOrder, 2 * SERVER_SECONDS),
    "start_balancer": CallType(BalancerOrder, 60.0),
    "begin": CallType(Nothing, 30.0),
    "end": CallType(Nothing, 30.0),
    "weigh": CallType(Nothing, 30.0),
    "start_trace": CallType(Nothing, 30.0),
    "stop_trace": CallType(Nothing, 60.0),
    "start_sampling": CallType(Nothing, 30.0),
    "stop_sampling": CallType(Nothing, 100.0),
    "stop_run": CallType(Nothing, 2 * STOP_SECONDS + 20.0),
}

ERRORS: dict[str, type[Exception]] = {
    "UserError": UserError,
    "StartError": StartError,
    "HelperError": HelperError,
    "OSError": OSError,
}
"""What a station raises, by the name that is sent."""
