# SPDX-License-Identifier: MIT
"""Waiting: how long a test waits for an event, and what it does if the machine pauses.

No test asserts that an action takes no longer than some seconds: on a busy machine it may. A test
waits for an event, with a long timeout, and compares the order of events.
"""

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

# For what takes milliseconds on an idle machine. Only failures last that long; to debug one,
# shorten the timeout: make test TEST_TIMEOUT=20. With less, tests that wait for a server's own
# timers of 5 to 10 s fail although the server is correct.
TIMEOUT = float(os.environ.get("TEST_TIMEOUT", "60"))
TRIES = 5


@dataclass
class Pace:
    """How many times slower than usual the executables are; it stretches all deadlines."""

    slowness: float = 1.0
    sanitized: bool = False


PACE = Pace()


def deadline_in(seconds: float) -> float:
    """Return the time (time.monotonic) `seconds` from now, stretched for slow builds."""
    return time.monotonic() + seconds * PACE.slowness


def wait_until(found: Callable[[], Result], what: str = "", seconds: float = TIMEOUT) -> Result:
    """Call `found` until its result is true; return that. Raise AssertionError naming `what` if it
    is not true within some seconds (stretched for slow builds)."""
    end = deadline_in(seconds)
    pause = 0.002
    while not (result := found()):
        assert time.monotonic() < end, f"not within {seconds * PACE.slowness:.0f} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return result


def undisturbed(seconds: float, attempt: Callable[[], Result]) -> Result:
    """Return what `attempt` returns; try again if it fails and took longer than `seconds`. Use it
    for what a server ends by its own clock: if the machine paused for that long, the test may have
    missed it. A failure that was quick counts at once."""
    for _ in range(TRIES - 1):
        begun = time.monotonic()
        try:
            return attempt()
        except Exception:
            if time.monotonic() - begun < seconds:
                raise
    return attempt()


def undisturbed_test(seconds: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the test is tried again as by undisturbed(), with its fixtures."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: object, **named: object) -> None:
            undisturbed(seconds, lambda: test(*args, **named))

        return run

    return decorate
