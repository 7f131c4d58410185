# SPDX-License-Identifier: MIT
"""The definition of a check (Trial) and of a stage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.grade.sandbox import Limits
from bench.grade.scene import Scene


@dataclass(frozen=True)
class Trial:
    """A check of one ability of a server."""

    name: str
    points: int
    run: Callable[[Scene], str | None]
    """Raises Failed; may return a note for the report."""
    options: tuple[str, ...] = ()
    """Additional options of the server's command line."""
    gate: bool = False
    """If this check fails, the checks after it are not run."""
    also_closed: bool = False
    """It runs even after a failed gate, to find the cause. If it succeeds then, it gives no
    points."""
    traced: bool = False
    """strace records process ends and close(2) from the first attempt, if tracing is allowed."""
    starts_server: bool = True
    limits: Limits = field(default_factory=Limits)
    redis_delay_ms: float = 0
    """The delay that is added to each reply of Redis."""
    seconds: float = 3
    """The usual duration without a fault. The check is not started if less time is left."""


@dataclass(frozen=True)
class Stage:
    """A group of checks."""

    name: str
    title: str
    checks: Sequence[Trial]
