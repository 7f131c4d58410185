# SPDX-License-Identifier: MIT
"""The messages between the sweep and an agent: a request and its reply, each a line of JSON.

    {"number": 7, "call": "start_servers", "order": {"subject": "epoll", ...}}
    {"number": 7, "result": {"urls": ["http://10.77.0.3:41234/"]}}
    {"number": 7, "error": {"kind": "StartError", "text": "epoll did not start: ..."}}

The first request is `hello`. Both sides must have the same source files; otherwise a sweep would
compare different versions of a server or different measurements.
"""

from typing import NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, JsonValue

from bench.host.kernel import REST_SECONDS
from bench.host.process import HelperError, StartError
from bench.records.errors import UserError
from bench.stations import orders
from bench.stations.hosts import Address
from bench.subjects.running import STOP_SECONDS
from bench.subjects.subject import START_SECONDS as SERVER_SECONDS

LONGEST_LINE = 4_000_000
"""The maximum in bytes; a reply has a few thousand."""


class Nothing(BaseModel):
    """An empty order or result."""


class Hello(BaseModel):
    """The first request, with the address on which this host's programs listen."""

    address: Address


class Greeting(BaseModel):
    """The reply to `hello`."""

    digest: str
    """The digest of the sources, see `bench.host.project.source_digest`."""


class Question(BaseModel):
    """A request to the agent."""

    number: int
    call: str
    order: dict[str, JsonValue] = {}


class Failure(BaseModel):
    """The error of a request."""

    kind: str
    text: str


class Reply(BaseModel):
    """A reply of the agent."""

    model_config = ConfigDict(extra="forbid")

    number: int
    result: dict[str, JsonValue] | None = None
    error: Failure | None = None


class CallType(NamedTuple):
    """A kind of request: the models of the request and its result."""

    seconds: float
    """The timeout of the reply. It must be longer than the timeouts on the host."""
    order: type[BaseModel] = Nothing
    result: type[BaseModel] = Nothing


def _call_type(name: str, seconds: float) -> CallType:
    """Return the kind of request that a method of `Station` makes; its types are the models."""
    types = get_type_hints(getattr(orders.Station, name))
    result = types.pop("return")
    return CallType(seconds, types.get("order", Nothing), Nothing if result is NONE else result)


NONE = type(None)
TIMEOUTS = {
    "survey": 1200.0,  # it may build reference servers
    "start_redis": 40.0,
    "make_room": REST_SECONDS + 30.0,
    "start_slow_redis": 20.0,
    "start_servers": 2 * SERVER_SECONDS,  # for one server; each further server adds the same time
    "start_balancer": 60.0,
    "begin": 30.0,
    "end": 30.0,
    "weigh": 30.0,
    "start_trace": 30.0,
    "stop_trace": 60.0,
    "start_sampling": 30.0,
    "stop_sampling": 100.0,
    "stop_run": 2 * STOP_SECONDS + 20.0,
}
CALLS = {name: _call_type(name, seconds) for name, seconds in TIMEOUTS.items()}
CALLS["hello"] = CallType(60.0, Hello, Greeting)

ERRORS: dict[str, type[Exception]] = {
    "UserError": UserError,
    "StartError": StartError,
    "HelperError": HelperError,
    "OSError": OSError,
}
"""The exceptions that an agent reports, by the name in its reply."""
