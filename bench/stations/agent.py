# SPDX-License-Identifier: MIT
"""The agent on another host, and the sweep's connection to it. Requests and replies are lines of
JSON.

    ["start_slow_redis", "redis://10.77.0.4:6379", 5.0]
    {"result": "redis://10.77.0.4:41234"}
    {"error": ["UserError", "a slow Redis needs TCP: ..."]}

A request has the name of a method of `LocalStation` and its arguments; a reply has the result or
an error. The first request is `hello`: both sides must have the same source files, because a sweep
must not compare different versions. After a late or wrong reply the sweep sends no more requests.

`python -m bench.stations.agent` is the agent. It reads requests from standard input and writes
replies to standard output. During a load it samples the servers, without being asked. When its
standard input ends (the sweep has ended or cannot be reached), it ends all programs that it started
and exits. If the agent is killed, the kernel ends its children.
"""

import contextlib
import functools
import os
import re
import select
import signal
import sys
import time
from typing import Annotated, Any, BinaryIO, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    validate_call,
)

from bench.host.process import Child, HelperError, SignalWatch, StartError, last_line
from bench.host.project import source_digest
from bench.host.sockets import REST_SECONDS
from bench.records.environment import Placement
from bench.records.errors import Interrupted, NoFigure, UserError
from bench.records.inherited import forget_foreign_variables
from bench.stations.footprint import Stopped
from bench.stations.station import LocalStation, ServerOrder
from bench.subjects.running import STOP_SECONDS
from bench.subjects.subject import START_SECONDS as SERVER_SECONDS

LONGEST_LINE = 4_000_000
"""The maximum length of a line in bytes; a reply has a few thousand bytes."""
CLOSE_SECONDS = 30.0
"""The time, in seconds, in which an agent must end the programs that it started, and exit."""
LOST_SECONDS = 2.0
"""CLOSE_SECONDS for a lost agent: short, because it may not notice the closed connection."""
SHOWN = 120
"""The maximum number of characters of output that an error message quotes."""

TIMEOUTS = {
    "hello": 60.0,
    "survey": 1200.0,  # the agent may build reference servers
    "start_redis": 40.0,
    "make_room": REST_SECONDS + 30.0,
    "start_slow_redis": 20.0,
    "start_servers": 2 * SERVER_SECONDS,  # for one server; each further server adds the same time
    "start_balancer": 60.0,
    "begin": 40.0,
    "end": 120.0,  # perf script needs up to 60 s
    "weigh": 30.0,
    "stop_run": 2 * STOP_SECONDS + 20.0,
}
"""The timeout for the reply to each call, in seconds: longer than the timeouts that the call uses
on the agent's host."""

ERRORS: dict[str, type[Exception]] = {
    one.__name__: one for one in (UserError, StartError, HelperError, OSError)
}
"""The exceptions that an agent reports, by the name in the reply."""
JSON: TypeAdapter[Any] = TypeAdapter(Any)
REQUEST: TypeAdapter[list[JsonValue]] = TypeAdapter(Annotated[list[JsonValue], Field(min_length=1)])


class Reply(BaseModel):
    """A reply of the agent."""

    model_config = ConfigDict(extra="forbid")

    result: JsonValue = None
    error: tuple[str, str] | None = None  # A key of ERRORS (or "nonsense") and the message.


class Lines:
    """The lines that arrive at a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = b""

    def next(self, seconds: float) -> bytes | None:
        """Return the next line, or the beginning of a line that is too long; None if no line is
        complete after one read (at most `seconds`). Raises EOFError at the end of the stream."""
        if b"\n" not in self._received and select.select([self._descriptor], [], [], seconds)[0]:
            piece = os.read(self._descriptor, 65536)
            if not piece:
                raise EOFError
            self._received += piece
        if b"\n" not in self._received and len(self._received) <= LONGEST_LINE:
            return None
        line, _, self._received = self._received.partition(b"\n")
        return line


def _address(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", value):
        raise ValueError("is not an IPv4 address or host name")
    return value


class LoadHost(BaseModel):
    """The host that the sweep runs on."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    address: Annotated[str, AfterValidator(_address)]
    """Only letters, digits, dots and hyphens, because command lines contain the address."""


class AgentHost(LoadHost):
    """A host with an agent."""

    agent: list[str] = Field(min_length=1)  # The command that starts the agent on that host.


class HostLost(NoFigure, UserError):
    """A host sent no valid reply in time, or has other source files. The message names the host."""

    label = "host lost"


class RemoteStation:
    """The connection to one host's agent. It has those methods of `LocalStation` that are keys of
    TIMEOUTS."""

    def __init__(self, host: AgentHost, watch: SignalWatch) -> None:
        """Start the agent; call `greet` before all other methods."""
        self._host, self._watch, self._lost = host, watch, ""
        self._child: Child | None = Child(host.agent, piped=True)
        self._to, answers = self._child.pipes
        self._lines = Lines(answers.fileno())
        os.set_blocking(self._to.fileno(), False)

    def greet(self) -> None:
        """Check that the agent answers and has the same version. Raises HostLost or Interrupted."""
        if self._ask("hello", self._host.address) != source_digest():
            why = "copy the same files to all hosts and build there"
            raise self._give_up(f"{self._host.name} has another version of this project: {why}")

    def __getattr__(self, name: str) -> "functools.partial[Any]":
        """Return a function that calls the `LocalStation` method `name` in the agent."""
        if name not in TIMEOUTS:
            raise AttributeError(name)
        return functools.partial(self._ask, name)

    @property
    def lost(self) -> str:
        """Return the reason why the agent is lost; empty if it runs. Redis ends with its agent, so
        an error of Redis may be the first sign of a lost host."""
        if self._child and not self._child.running():
            self._give_up(self._end_in_words())
        return self._lost

    def stop_run(self) -> Stopped:
        """End all programs of this run, and return how they ended. If the host is lost, its agent
        ends the programs without a request."""
        watch, self._watch = self._watch, SignalWatch()  # a signal must not interrupt this request
        try:
            found: Stopped = self._ask("stop_run")
        except HostLost:
            return Stopped()
        finally:
            self._watch = watch
        return found

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """End the agent and its programs; kill it after `timeout` seconds. May be called twice."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in child.pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        child.wait(timeout)
        child.end(0.0)

    def _ask(self, name: str, *words: object) -> Any:
        """Send a request and return the result. If the reply is late or not valid, or if a signal
        ends the wait, mark the host as lost and raise the error."""
        if self._child is None:
            raise HostLost(self._lost or f"the agent on {self._host.name} has ended")
        times = next((one.instances for one in words if isinstance(one, ServerOrder)), 1)
        request = JSON.dump_json((name, *words)) + b"\n"
        # The request fits into the pipe. If the agent has ended, `_reply` reports the reason.
        with contextlib.suppress(OSError, ValueError):
            self._to.write(request)
        try:
            reply = self._reply(time.monotonic() + TIMEOUTS[name] * times, name)
        except Interrupted:
            self._give_up(f"a signal ended the wait for the reply of {self._host.name}")
            raise
        if reply.error:
            kind, text = reply.error
            raise ERRORS.get(kind, HostLost)(f"{self._host.name}: {text}")
        try:
            result = get_type_hints(getattr(LocalStation, name))["return"]
            return TypeAdapter(result).validate_python(reply.result)
        except ValidationError:
            why = f"the agent on {self._host.name} sent an invalid reply to {name}"
            raise self._give_up(why) from None

    def _reply(self, deadline: float, name: str) -> Reply:
        agent = f"the agent on {self._host.name}"
        while (left := deadline - time.monotonic()) > 0:
            self._watch.check()
            try:
                line = self._lines.next(min(left, 0.05))
                if line is not None:
                    return Reply.model_validate_json(line)
            except EOFError:
                raise self._give_up(self._end_in_words()) from None
            except ValidationError:
                said = (line or b"")[:SHOWN].decode(errors="replace").strip()
                raise self._give_up(f"{agent} sent a line that is not a reply: {said!r}") from None
        raise self._give_up(f"{agent} sent no reply to {name} in {TIMEOUTS[name]:g} s")

    def _give_up(self, why: str) -> HostLost:
        """Mark the host as lost, and return the error to raise."""
        self._lost = why
        self.close(LOST_SECONDS)
        return HostLost(why)

    def _end_in_words(self) -> str:
        """Return an error message with the last line that the agent or ssh has printed."""
        assert self._child
        self._child.wait(1.0)
        said, status = last_line(self._child.stderr), self._child.exit_status
        how = f" (status {status})" if status is not None else ""
        return (
            f"the agent on {self._host.name} has ended{how}: {said[:SHOWN] or 'no error message'}"
        )


# ---- The agent ----

LOOK_SECONDS = 0.1


class AgentWatch(SignalWatch):
    """A SignalWatch that reports the end of the sweep's connection as SIGHUP."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN | select.POLLRDHUP)

    def check(self) -> None:
        """Raise Interrupted after a signal, or after the sweep has closed the connection."""
        gone = select.POLLHUP | select.POLLRDHUP | select.POLLERR
        if any(events & gone for _, events in self._poll.poll(0)):
            self.number = self.number or signal.SIGHUP
        super().check()


def serve(station: LocalStation, watch: SignalWatch, asked: int, out: BinaryIO) -> None:
    """Answer requests until their stream ends, and sample the servers between requests. `asked`:
    the descriptor of the requests; `out`: the stream for the replies. Raises Interrupted."""
    lines = Lines(asked)
    with contextlib.suppress(EOFError):
        while True:
            line = lines.next(LOOK_SECONDS)
            watch.check()
            station.look()
            if line:
                out.write(_answer(station, line).model_dump_json().encode() + b"\n")
                out.flush()


def _answer(station: LocalStation, line: bytes) -> Reply:
    try:
        name, *words = REQUEST.validate_json(line)
        if str(name) not in TIMEOUTS:
            raise UserError(f"unknown request: {name}")
        result = validate_call(getattr(station, str(name)))(*words)
    except ValidationError:
        return Reply(error=("nonsense", "the request is not valid"))
    except tuple(ERRORS.values()) as error:
        kind = next(name for name, known in ERRORS.items() if isinstance(error, known))
        return Reply(error=(kind, str(error)))
    return Reply(result=JSON.dump_python(result, mode="json"))


def main() -> int:
    """Answer all requests. Return the exit status: 0, or 128 + n after signal n except SIGHUP."""
    forget_foreign_variables()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output must not mix with replies
    cpus = sorted(os.sched_getaffinity(0))
    placement = Placement(server=cpus if len(cpus) > 1 else [], load=[], note="")
    with AgentWatch(sys.stdin.fileno()) as watch, contextlib.suppress(BrokenPipeError):
        try:
            with contextlib.closing(LocalStation(watch, placement)) as station:
                serve(station, watch, sys.stdin.fileno(), out)
        except Interrupted as interrupted:
            return 0 if interrupted.number == signal.SIGHUP else interrupted.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
