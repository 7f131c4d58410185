# SPDX-License-Identifier: MIT
"""The agent on another host: `python -m bench.stations.agent` reads requests from standard input
and writes replies to standard output. `wire` has the messages; `orders` describes them.

When its standard input ends (the sweep has ended, was killed or cannot be reached), the agent ends
all that it started and itself. If it is killed, the kernel ends its children. During a load it
samples the servers without requests.
"""

import os
import select
import sys
from collections.abc import Callable
from typing import BinaryIO

from pydantic import BaseModel, ValidationError

from bench.host.project import source_digest
from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.records.errors import Interrupted
from bench.records.inherited import forget_foreign_variables
from bench.stations.station import LocalStation
from bench.stations.wire import (
    CALLS,
    ERRORS,
    LONGEST_LINE,
    Failure,
    Greeting,
    Hello,
    Nothing,
    Question,
    Reply,
)

LOOK_SECONDS = 0.1
HANG_UP = 1
"""The signal number that means that the sweep has ended: SIGHUP."""


class AgentWatch(SignalWatch):
    """A SignalWatch that also detects the end of the sweep's connection."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN | select.POLLRDHUP)

    def check(self) -> None:
        """Raise Interrupted after a signal, or after the sweep has closed the connection."""
        gone = select.POLLHUP | select.POLLRDHUP | select.POLLERR
        if any(events & gone for _, events in self._poll.poll(0)):
            self.number = self.number or HANG_UP
        super().check()


class Agent:
    """Answers one request after another."""

    def __init__(self, station: LocalStation, watch: SignalWatch, asked: int, out: BinaryIO):
        """`asked`: the descriptor of the requests; `out`: the stream for the replies."""
        self._station, self._watch, self._asked, self._out = station, watch, asked, out
        self._received = b""

    def run(self) -> None:
        """Answer until there are no more requests. Raises Interrupted."""
        while (line := self._next_line()) is not None:
            if line.strip():
                self._out.write(self._answer(line).model_dump_json().encode())
                self._out.write(b"\n")
                self._out.flush()

    def _next_line(self) -> bytes | None:
        """Wait for the next request, sample the servers meanwhile, return it; None at the end."""
        while b"\n" not in self._received:
            readable = select.select([self._asked], [], [], LOOK_SECONDS)[0]
            self._watch.check()
            self._station.look()
            if readable:
                piece = os.read(self._asked, 65536)
                if not piece or len(self._received) > LONGEST_LINE:
                    return None
                self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _answer(self, line: bytes) -> Reply:
        try:
            question = Question.model_validate_json(line)
            call = CALLS[question.call]
            order = call.order.model_validate(question.order)
        except (ValidationError, KeyError):
            return Reply(number=-1, error=Failure(kind="nonsense", text="unknown request"))
        try:
            result = self._do(question.call, order)
        except tuple(ERRORS.values()) as error:
            kind = next(name for name, known in ERRORS.items() if isinstance(error, known))
            return Reply(number=question.number, error=Failure(kind=kind, text=str(error)))
        return Reply(number=question.number, result=result.model_dump(mode="json"))

    def _do(self, name: str, order: BaseModel) -> BaseModel:
        if isinstance(order, Hello):
            self._station.address = order.address
            return Greeting(digest=source_digest())
        do: Callable[..., BaseModel | None] = getattr(self._station, name)
        return (do() if isinstance(order, Nothing) else do(order)) or Nothing()


def main() -> int:
    """Answer until the end. Return the exit status: 0, or 128 + n after signal n."""
    forget_foreign_variables()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other prints must not mix with replies
    cpus = sorted(os.sched_getaffinity(0))
    placement = Placement(server=cpus if len(cpus) > 1 else [], load=[], note="")
    with AgentWatch(sys.stdin.fileno()) as watch:
        try:
            with LocalStation(watch, placement) as station:
                Agent(station, watch, sys.stdin.fileno(), out).run()
        except Interrupted as interrupted:
            return 0 if interrupted.number == HANG_UP else interrupted.exit_status
        except BrokenPipeError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
