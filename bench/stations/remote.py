# SPDX-License-Identifier: MIT
"""The sweep's connection to an agent on another host."""

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bench.host.process import guarded, last_line
from bench.host.project import source_digest
from bench.host.signals import SignalWatch
from bench.records.errors import NoFigure, UserError
from bench.stations import orders
from bench.stations.hosts import AgentHost
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
"""The time limit for an agent to end what it started."""
LOST_SECONDS = 2.0
"""The time limit for a lost agent, which may not have received its end."""
SHOWN = 120
"""The maximum length of output that an error message quotes."""

Result = TypeVar("Result", bound=BaseModel)


class HostLost(NoFigure, UserError):
    """A host does not answer, or its reply is not valid. The message names it."""

    label = "host lost"


class RemoteStation:
    """The agent of one host. It has the methods of `Station`."""

    def __init__(self, host: AgentHost, watch: SignalWatch) -> None:
        """Start the agent; call `greet` before all other methods."""
        self.name, self._address = host.name, host.address
        self.lost = ""
        """Why the agent is lost; empty if it is not."""
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
        """Check that it answers and has the same version. Raises HostLost or Interrupted."""
        greeting = self._ask("hello", Hello(address=self._address), Greeting)
        if greeting != Greeting(digest=source_digest()):
            self._give_up(
                f"{self.name} has another version of this project: copy the same files to all "
                "hosts and build there"
            )
            raise HostLost(self.lost)

    def __getattr__(self, name: str) -> Callable[..., BaseModel]:
        """Return a method of `Station` that asks the agent."""
        if name not in CALLS:
            raise AttributeError(name)

        def ask(order: BaseModel | None = None) -> BaseModel:
            times = order.instances if isinstance(order, orders.ServerOrder) else 1
            return self._ask(name, order or Nothing(), CALLS[name].result, times)

        return ask

    def look(self) -> None:
        """Do nothing: the agent samples its servers by itself."""

    def stop_run(self) -> orders.Stopped:
        """End all that was started for this run. The agent of a lost host does this by itself."""
        if self._process is None:
            return orders.Stopped()
        watch, self._watch = self._watch, SignalWatch()  # a signal must not interrupt this
        try:
            return self._ask("stop_run", Nothing(), orders.Stopped)
        except HostLost:
            return orders.Stopped()
        finally:
            self._watch = watch

    def close(self, patience: float = CLOSE_SECONDS) -> None:
        """End the agent, which ends all that it started; kill it after the time limit in seconds.
        May be called twice."""
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
        """Send a request and return the reply. The host is lost if the reply is not valid or late,
        or if a signal ends the wait."""
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
            self._give_up(f"a signal ended the wait for the reply of {self.name}")
            raise
        if answer.error:
            raise ERRORS.get(answer.error.kind, HostLost)(f"{self.name}: {answer.error.text}")
        try:
            return result.model_validate(answer.result or {})
        except ValidationError:
            self._give_up(f"the agent on {self.name} sent an incomplete reply to {name}")
            raise HostLost(self.lost) from None

    def notice_end(self) -> None:
        """Mark the host as lost if its agent has ended. Its Redis ends with it, so the first error
        may be one of Redis."""
        if self._process is not None and self._process.poll() is not None:
            self._give_up(f"the agent on {self.name} has ended")

    def _give_up(self, why: str) -> None:
        self.lost = why
        self.close(LOST_SECONDS)

    def _send(self, line: bytes) -> None:
        """Send a request, which fits into the pipe. If the agent has ended, reading its reply fails
        and gives the reason."""
        assert self._process
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(line)

    def _answer(self, deadline: float, name: str) -> Reply:
        """Return the reply to the last request; skip older replies."""
        while True:
            line = self._line(deadline, name)
            try:
                answer = Reply.model_validate_json(line)
            except ValidationError:
                said = line[:SHOWN].decode(errors="replace").strip()
                text = f"the agent on {self.name} sent a line that is not a reply: {said!r}"
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
                raise HostLost(f"the agent on {self.name} sent no reply to {name} in {took:g} s")
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
        """Return an error message with the last line that the agent, or ssh, has written."""
        assert self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        size = os.fstat(self._said.fileno()).st_size
        said = last_line(os.pread(self._said.fileno(), size, 0).decode(errors="replace"))
        status = self._process.poll()
        how = f" (status {status})" if status is not None else ""
        return f"the agent on {self.name} has ended{how}: {said[:SHOWN] or 'no error message'}"
