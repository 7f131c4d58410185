# SPDX-License-Identifier: MIT
"""Waiting: timeouts for events, and repetition of a test after a pause of the machine. No test
asserts that an action is fast, because a busy machine may be slow. A test waits for an event, with
a long timeout, and compares the order of events.
"""

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

# The timeout for events that take milliseconds on an idle machine. Only failures last so long. To
# debug a failure use a shorter timeout, e.g. make test TEST_TIMEOUT=20. Below 20 s correct servers
# fail, because some tests wait for timers of 5 to 10 s.
TIMEOUT = float(os.environ.get("TEST_TIMEOUT", "60"))
TRIES = 5


@dataclass
class Pace:
    """How many times slower than usual the executables are: the factor for all deadlines."""

    slowness: float = 1.0
    sanitized: bool = False


PACE = Pace()


def deadline_in(seconds: float) -> float:
    """Return the time (time.monotonic) after `seconds`, which are stretched for slow builds."""
    return time.monotonic() + seconds * PACE.slowness


def wait_until(found: Callable[[], Result], what: str = "", seconds: float = TIMEOUT) -> Result:
    """Call `found` until its result is true; return the result. Raise AssertionError with `what`
    after `seconds` (stretched for slow builds)."""
    end = deadline_in(seconds)
    pause = 0.002
    while not (result := found()):
        assert time.monotonic() < end, f"not within {seconds * PACE.slowness:.0f} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return result


def undisturbed(seconds: float, attempt: Callable[[], Result]) -> Result:
    """Call `attempt` and return its result. Try again if it fails after more than `seconds`: if the
    machine paused, a timeout of the server may be the cause. Raise a quick failure immediately."""
    for _ in range(TRIES - 1):
        begun = time.monotonic()
        try:
            return attempt()
        except Exception:
            if time.monotonic() - begun < seconds:
                raise
    return attempt()


def undisturbed_test(seconds: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that repeats a test like undisturbed(), with the same fixtures."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: object, **named: object) -> None:
            undisturbed(seconds, lambda: test(*args, **named))

        return run

    return decorate
