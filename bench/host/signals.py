# SPDX-License-Identifier: MIT
"""Handles SIGINT (Ctrl-C), SIGTERM and SIGHUP at safe places.

If a handler raised an exception before a started child was assigned to a variable, no code would
end the child. So the handler only stores the signal, and waiting loops call `check()` several times
a second. The cleanup does not call `check()`, so a second Ctrl-C cannot interrupt the cleanup.
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
    """Return a signal's name, e.g. SIGTERM; "signal N" for a real-time signal without a name."""
    names = {int(one): one.name for one in signal.Signals}
    return names.get(number, f"signal {number}")


class SignalWatch:
    """Stores the first SIGINT, SIGTERM or SIGHUP that arrives during the `with` block."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "SignalWatch":
        for number in WATCHED:
            # If nohup started the program, SIGHUP is ignored, and must stay ignored.
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
        """Raise Interrupted if a signal has arrived."""
        if self.number is not None:
            raise Interrupted(self.number)

    def sleep(self, seconds: float) -> None:
        """Sleep, then raise Interrupted if a signal has arrived."""
        time.sleep(seconds)
        self.check()

    def until(self, ready: Callable[[], Found], seconds: float, pause: float = 0.02) -> Found:
        """Call `ready` until its result is true, at most for `seconds`. Return the last result."""
        deadline = time.monotonic() + seconds
        while not (found := ready()) and time.monotonic() < deadline:
            self.sleep(pause)
        return found
