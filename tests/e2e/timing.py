# SPDX-License-Identifier: MIT
"""Waiting: how long for what should come, and what to make of a machine that stands still.

No test asserts that something takes no longer than so many seconds: on a busy machine anything
may. A test waits for an event, patiently, and compares the order of events.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

# For what takes milliseconds on a machine with nothing else to do; only failures take that long, so
# whoever looks for the fault of a server that has one need not wait for it: make test PATIENCE=20.
# With less, tests fail that wait for a server's own timers, of 5 to 10 s, and nothing is wrong.
PATIENCE = float(os.environ.get("PATIENCE", "60"))
TRIES = 5


@dataclass
class Pace:
    """How many times slower than usual the executables are: all deadlines are stretched."""

    slowness: float = 1.0
    sanitized: bool = False


PACE = Pace()


def deadline_in(seconds: float) -> float:
    """Return the moment (time.monotonic) `seconds` from now, stretched for slow builds."""
    return time.monotonic() + seconds * PACE.slowness


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll `condition` until it is true; AssertionError naming `what` when it never is."""
    end = deadline_in(PATIENCE)
    pause = 0.002
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE * PACE.slowness:.0f} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def undisturbed(seconds: float, attempt: Callable[[], Result]) -> Result:
    """Return what `attempt` returns; try again when it fails and took longer than `seconds`.

    For what a server ends by its own clock: who came too late to see it, because the machine
    stood still for that long, has seen nothing. A failure that was quick counts at once.
    """
    for _ in range(TRIES - 1):
        begun = time.monotonic()
        try:
            return attempt()
        except Exception:
            if time.monotonic() - begun < seconds:
                raise
    return attempt()
