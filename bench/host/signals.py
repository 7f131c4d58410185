# SPDX-License-Identifier: MIT
"""Handles SIGINT (Ctrl-C), SIGTERM and SIGHUP at safe places.

If a handler raised an exception, it could interrupt us between the start of a process and the line
that stores it. The process would then be left over. So a handler only stores the signal, and
waiting loops call `check()` several times a second. The cleanup does not call it, so a second
Ctrl-C cannot interrupt the cleanup.
"""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from bench.records.errors import Interrupted

Found = TypeVar("Found")
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def signal_name(number: int) -> str:
    """Return a signal's name, e.g. SIGTERM. Most of the real-time signals have none."""
    names = {int(one): one.name for one in signal.Signals}
    return names.get(number, f"signal {number}")


class SignalWatch:
    """Stores the first SIGINT, SIGTERM or SIGHUP while the `with` block runs."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "SignalWatch":
        for number in WATCHED:
            # nohup sets SIGHUP to be ignored: keep that.
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
        """Raise Interrupted if a signal has arrived since the start."""
        if self.number is not None:
            raise Interrupted(self.number)

    def sleep(self, seconds: float) -> None:
        """Sleep, then check for signals."""
        time.sleep(seconds)
        self.check()

    def until(self, ready: Callable[[], Found], seconds: float, pause: float = 0.02) -> Found:
        """Call `ready` repeatedly, until its result is true or `seconds` are over. Return its last
        result. May raise Interrupted."""
        deadline = time.monotonic() + seconds
        while not (found := ready()) and time.monotonic() < deadline:
            self.sleep(pause)
        return found
