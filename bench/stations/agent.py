# SPDX-License-Identifier: MIT
"""The agent on another host, and the sweep's connection to it. Requests and replies are lines of
JSON.

    {"number": 7, "call": "start_slow_redis", "words": ["redis://10.77.0.4:6379", 5.0]}
    {"number": 7, "result": "redis://10.77.0.4:41234"}
    {"number": 7, "error": {"kind": "StartError", "text": "epoll did not start: ..."}}

"call" names a method of `LocalStation`, "words" has its arguments, and "result" its result. The
first request is `hello`: both sides must have the same source files, because a sweep must not
compare different versions.

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
from bench.stations import orders
from bench.stations.station import LocalStation
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


class Question(BaseModel):
    """A request to the agent."""

    number: int
    call: str
    words: list[JsonValue] = []


class Failure(BaseModel):
    """The error of a request."""

    kind: str
    text: str


class Reply(BaseModel):
    """A reply of the agent."""

    model_config = ConfigDict(extra="forbid")

    number: int
    result: JsonValue = None
    error: Failure | None = None


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

    agent: list[str] = Field(min_length=1)
    """The command that starts the agent on this host."""


class HostLost(NoFigure, UserError):
    """A host sent no valid reply in time, or has other source files. The message names the host."""

    label = "host lost"


class RemoteStation:
    """The connection to one host's agent. It has those methods of `LocalStation` that are keys of
    TIMEOUTS."""

    def __init__(self, host: AgentHost, watch: SignalWatch) -> None:
        """Start the agent; call `greet` before all other methods."""
        self.name, self._address = host.name, host.address
        self.lost = ""
        """The reason why the agent is lost; empty if the agent is not lost."""
        self._watch = watch
        self._number = 0
        self._child: Child | None = Child(host.agent, piped=True)
        self._to, answers = self._child.pipes
        self._lines = Lines(answers.fileno())
        os.set_blocking(self._to.fileno(), False)

    def greet(self) -> None:
        """Check that the agent answers and has the same version. Raises HostLost or Interrupted."""
        if self._ask("hello", self._address) != source_digest():
            why = "copy the same files to all hosts and build there"
            self._give_up(f"{self.name} has another version of this project: {why}")
            raise HostLost(self.lost)

    def __getattr__(self, name: str) -> "functools.partial[Any]":
        """Return a function that calls the `LocalStation` method `name` in the agent."""
        if name not in TIMEOUTS:
            raise AttributeError(name)
        return functools.partial(self._ask, name)

    def stop_run(self) -> orders.Stopped:
        """End all programs of this run, and return how they ended. If the host is lost, its agent
        ends the programs without a request."""
        if self._child is None:
            return orders.Stopped()
        watch, self._watch = self._watch, SignalWatch()  # a signal must not interrupt this request
        try:
            found: orders.Stopped = self._ask("stop_run")
        except HostLost:
            return orders.Stopped()
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
            raise HostLost(self.lost or f"the agent on {self.name} has ended")
        self._number += 1
        question = Question(
            number=self._number, call=name, words=JSON.dump_python(words, mode="json")
        )
        times = next((one.instances for one in words if isinstance(one, orders.ServerOrder)), 1)
        try:
            line = question.model_dump_json().encode() + b"\n"
            # The request fits into the pipe. If the agent has ended, `_answer` reports the reason.
            with contextlib.suppress(OSError, ValueError):
                self._to.write(line)
            answer = self._answer(time.monotonic() + TIMEOUTS[name] * times, name)
        except HostLost as lost:
            self._give_up(str(lost))
            raise
        except BaseException:
            self._give_up(f"a signal ended the wait for the reply of {self.name}")
            raise
        if answer.error:
            raise ERRORS.get(answer.error.kind, HostLost)(f"{self.name}: {answer.error.text}")
        result = get_type_hints(getattr(LocalStation, name))["return"]
        try:
            return TypeAdapter(result).validate_python(answer.result)
        except ValidationError:
            self._give_up(f"the agent on {self.name} sent an incomplete reply to {name}")
            raise HostLost(self.lost) from None

    def notice_end(self) -> None:
        """Mark the host as lost if its agent has ended. Redis ends with its agent, so an error of
        Redis may be the first sign of a lost host."""
        if self._child is not None and not self._child.running():
            self._give_up(f"the agent on {self.name} has ended")

    def _give_up(self, why: str) -> None:
        self.lost = why
        self.close(LOST_SECONDS)

    def _answer(self, deadline: float, name: str) -> Reply:
        """Return the reply to the last request; skip replies to older requests."""
        while (left := deadline - time.monotonic()) > 0:
            self._watch.check()
            try:
                line = self._lines.next(min(left, 0.05))
                answer = Reply.model_validate_json(line) if line is not None else None
            except EOFError:
                raise HostLost(self._end_in_words()) from None
            except ValidationError:
                said = (line or b"")[:SHOWN].decode(errors="replace").strip()
                text = f"the agent on {self.name} sent a line that is not a reply: {said!r}"
                raise HostLost(text) from None
            if answer and answer.number in (self._number, -1):
                return answer
        raise HostLost(f"the agent on {self.name} sent no reply to {name} in {TIMEOUTS[name]:g} s")

    def _end_in_words(self) -> str:
        """Return an error message with the last line that the agent or ssh has printed."""
        assert self._child
        self._child.wait(1.0)
        said, status = last_line(self._child.stderr), self._child.exit_status
        how = f" (status {status})" if status is not None else ""
        return f"the agent on {self.name} has ended{how}: {said[:SHOWN] or 'no error message'}"


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
    number = -1
    try:
        question = Question.model_validate_json(line)
        if question.call not in TIMEOUTS:
            raise UserError(f"unknown request: {question.call}")
        number = question.number
        result = validate_call(getattr(station, question.call))(*question.words)
    except ValidationError:
        return Reply(number=-1, error=Failure(kind="nonsense", text="unknown request"))
    except tuple(ERRORS.values()) as error:
        kind = next(name for name, known in ERRORS.items() if isinstance(error, known))
        return Reply(number=number, error=Failure(kind=kind, text=str(error)))
    return Reply(number=number, result=JSON.dump_python(result, mode="json"))


def main() -> int:
    """Answer all requests. Return the exit status: 0, or 128 + n after signal n except SIGHUP."""
    forget_foreign_variables()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output must not mix with replies
    cpus = sorted(os.sched_getaffinity(0))
    placement = Placement(server=cpus if len(cpus) > 1 else [], load=[], note="")
    with AgentWatch(sys.stdin.fileno()) as watch, contextlib.suppress(BrokenPipeError):
        try:
            with LocalStation(watch, placement) as station:
                serve(station, watch, sys.stdin.fileno(), out)
        except Interrupted as interrupted:
            return 0 if interrupted.number == signal.SIGHUP else interrupted.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
