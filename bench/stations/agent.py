# SPDX-License-Identifier: MIT
"""The agent on another host: `python -m bench.stations.agent` reads requests from standard input
and writes replies to standard output. `remote` has the messages.

When its standard input ends (the sweep has ended, was killed or cannot be reached), the agent ends
all that it started and itself. If it is killed, the kernel ends its children. During a load it
samples the servers without requests.
"""

import contextlib
import os
import select
import sys
from typing import BinaryIO

from pydantic import ValidationError, validate_call

from bench.host.signals import SignalWatch
from bench.records.environment import Placement
from bench.records.errors import Interrupted, UserError
from bench.records.inherited import forget_foreign_variables
from bench.stations.remote import ERRORS, JSON, TIMEOUTS, Failure, Lines, Question, Reply
from bench.stations.station import LocalStation

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


def serve(station: LocalStation, watch: SignalWatch, asked: int, out: BinaryIO) -> None:
    """Answer until there are no more requests, and sample the servers meanwhile. `asked`: the
    descriptor of the requests; `out`: the stream for the replies. Raises Interrupted."""
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
    """Answer until the end. Return the exit status: 0, or 128 + n after signal n."""
    forget_foreign_variables()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other prints must not mix with replies
    cpus = sorted(os.sched_getaffinity(0))
    placement = Placement(server=cpus if len(cpus) > 1 else [], load=[], note="")
    with AgentWatch(sys.stdin.fileno()) as watch:
        try:
            with LocalStation(watch, placement) as station:
                serve(station, watch, sys.stdin.fileno(), out)
        except Interrupted as interrupted:
            return 0 if interrupted.number == HANG_UP else interrupted.exit_status
        except BrokenPipeError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
