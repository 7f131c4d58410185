# SPDX-License-Identifier: MIT
"""Ctrl-C and its relatives, noticed where it is safe.

A signal that raised an exception at once could strike between the start of a process and the line
that remembers it, and the process would be left behind. So a handler only notes the signal, and
the loops that wait ask `check()` several times a second. While things are being put away nobody
asks, so a second Ctrl-C cannot break the tidying.
"""

import signal
import time
from types import FrameType

from bench.records.errors import Interrupted

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def signal_name(number: int) -> str:
    """Such as SIGTERM. Most of the real-time signals have no name."""
    names = {int(one): one.name for one in signal.Signals}
    return names.get(number, f"signal {number}")


class SignalWatch:
    """Notes SIGINT, SIGTERM and SIGHUP while the `with` block runs."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "SignalWatch":
        for number in WATCHED:
            # Somebody who started us with nohup wants SIGHUP ignored, and so it stays.
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGINT:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number

    def check(self) -> None:
        """Raise Interrupted if a signal has come since the start."""
        if self.number is not None:
            raise Interrupted(self.number)

    def sleep(self, seconds: float) -> None:
        """Sleep for a moment, then check."""
        time.sleep(seconds)
        self.check()
