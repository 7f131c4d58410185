# SPDX-License-Identifier: MIT
"""A station on another host, asked through its agent."""

import contextlib
import os
import select
import subprocess
import tempfile
import time
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bench.host.process import guarded, last_line
from bench.host.project import source_digest
from bench.host.signals import SignalWatch
from bench.records.errors import NoFigure, UserError
from bench.records.figures import StackFigures
from bench.services.balancer import BalancerOrder
from bench.stations import orders
from bench.stations.hosts import AgentHost
from bench.stations.orders import Station
from bench.stations.wire import (
    CALLS,
    ERRORS,
    LONGEST_LINE,
    Greeting,
    Hello,
    Nothing,
    Question,
    Reply,
)

CLOSE_SECONDS = 30.0
"""So long an agent may take to end what it started."""
LOST_SECONDS = 2.0
"""And one that was given up: it may not know of its end."""
SHOWN = 120
"""So many characters of what somebody said are repeated."""

Result = TypeVar("Result", bound=BaseModel)


class HostLost(NoFigure, UserError):
    """A host does not answer any more, or makes no sense. The message names it."""

    label = "host lost"


class RemoteStation(Station):
    """The agent of one host."""

    def __init__(self, host: AgentHost, watch: SignalWatch) -> None:
        """Start the agent; `greet` it before all else."""
        self.name, self._address = host.name, host.address
        self.lost = ""
        """Why it can no longer be asked, if so."""
        self._watch = watch
        self._number = 0
        self._received = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed with this object
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            guarded(host.agent),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin
        os.set_blocking(self._process.stdin.fileno(), False)

    def greet(self) -> None:
        """See that it is there, and of the same version. Raises HostLost or Interrupted."""
        greeting = self._ask("hello", Hello(address=self._address), Greeting)
        if greeting != Greeting(digest=source_digest()):
            self._give_up(
                f"{self.name} has another version of this project: bring the same files to all "
                "hosts, and build there"
            )
            raise HostLost(self.lost)

    def survey(self, order: orders.Survey) -> orders.Surveyed:
        return self._ask("survey", order, orders.Surveyed)

    def start_redis(self) -> orders.Listening:
        return self._ask("start_redis", Nothing(), orders.Listening)

    def make_room(self, order: orders.RoomOrder) -> None:
        self._ask("make_room", order, Nothing)

    def start_slow_redis(self, order: orders.SlowOrder) -> orders.Listening:
        return self._ask("start_slow_redis", order, orders.Listening)

    def start_servers(self, order: orders.ServerOrder) -> orders.Listening:
        return self._ask("start_servers", order, orders.Listening, order.instances)

    def start_balancer(self, order: BalancerOrder) -> orders.Listening:
        return self._ask("start_balancer", order, orders.Listening)

    def begin(self) -> None:
        self._ask("begin", Nothing(), Nothing)

    def look(self) -> None:
        """The agent does it by itself."""

    def end(self) -> orders.Report:
        return self._ask("end", Nothing(), orders.Report)

    def weigh(self) -> orders.Weight:
        return self._ask("weigh", Nothing(), orders.Weight)

    def start_trace(self) -> None:
        self._ask("start_trace", Nothing(), Nothing)

    def stop_trace(self) -> orders.Calls:
        return self._ask("stop_trace", Nothing(), orders.Calls)

    def start_sampling(self) -> None:
        self._ask("start_sampling", Nothing(), Nothing)

    def stop_sampling(self) -> StackFigures:
        return self._ask("stop_sampling", Nothing(), StackFigures)

    def stop_run(self) -> orders.Stopped:
        """What a lost host had started its agent ends, as far as it lives."""
        if self._process is None:
            return orders.Stopped()
        watch, self._watch = self._watch, SignalWatch()  # a signal must not disturb the tidying
        try:
            return self._ask("stop_run", Nothing(), orders.Stopped)
        except HostLost:
            return orders.Stopped()
        finally:
            self._watch = watch

    def close(self, patience: float = CLOSE_SECONDS) -> None:
        """End the agent, which ends all that it started; kill it after some seconds. May be called
        twice."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _ask(self, name: str, order: BaseModel, result: type[Result], times: int = 1) -> Result:
        """One question. A host that does not answer well is given up; so is one whose answer is
        not waited for because of a signal."""
        if self._process is None:
            raise HostLost(self.lost or f"the agent on {self.name} has ended")
        self._number += 1
        question = Question(number=self._number, call=name, order=order.model_dump(mode="json"))
        try:
            self._send(question.model_dump_json().encode() + b"\n")
            answer = self._answer(time.monotonic() + CALLS[name].seconds * times, name)
        except HostLost as lost:
            self._give_up(str(lost))
            raise
        except BaseException:
            self._give_up(f"the answer of {self.name} was not waited for")
            raise
        if answer.error:
            raise ERRORS.get(answer.error.kind, HostLost)(f"{self.name}: {answer.error.text}")
        try:
            return result.model_validate(answer.result or {})
        except ValidationError:
            self._give_up(f"the agent on {self.name} gave half an answer to {name}")
            raise HostLost(self.lost) from None

    def _give_up(self, why: str) -> None:
        self.lost = why
        self.close(LOST_SECONDS)

    def _send(self, line: bytes) -> None:
        """Send a question, which a pipe takes at once. One who is gone is noticed when his answer
        is read, which may say why."""
        assert self._process
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(line)

    def _answer(self, deadline: float, name: str) -> Reply:
        """The answer to the last question; older ones are left out."""
        while True:
            line = self._line(deadline, name)
            try:
                answer = Reply.model_validate_json(line)
            except ValidationError:
                said = line[:SHOWN].decode(errors="replace").strip()
                text = f"the agent on {self.name} said something that is no answer: {said!r}"
                raise HostLost(text) from None
            if answer.number in (self._number, -1):
                return answer

    def _line(self, deadline: float, name: str) -> bytes:
        assert self._process
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._received:
            self._watch.check()
            left = deadline - time.monotonic()
            if left <= 0:
                took = CALLS[name].seconds
                raise HostLost(f"the agent on {self.name} gave no answer to {name} in {took:g} s")
            if len(self._received) > LONGEST_LINE:
                return self._received
            if select.select([descriptor], [], [], min(left, 0.05))[0]:
                piece = os.read(descriptor, 65536)
                if not piece:
                    raise HostLost(self._why_gone())
                self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _why_gone(self) -> str:
        """What the agent, or ssh, wrote to standard error at last."""
        assert self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        size = os.fstat(self._said.fileno()).st_size
        said = last_line(os.pread(self._said.fileno(), size, 0).decode(errors="replace"))
        status = self._process.poll()
        how = f" (status {status})" if status is not None else ""
        return f"the agent on {self.name} is gone{how}: {said[:SHOWN] or 'it did not say why'}"
