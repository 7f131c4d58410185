# SPDX-License-Identifier: MIT
"""What a check is, and a stage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.grade.sandbox import Limits
from bench.grade.scene import Scene


@dataclass(frozen=True)
class Trial:
    """Something that a server can do."""

    name: str
    points: int
    run: Callable[[Scene], str | None]
    """Raises Failed; may return what is worth knowing."""
    options: tuple[str, ...] = ()
    """Of the server's command line."""
    gate: bool = False
    """Who fails here need not try the rest."""
    also_closed: bool = False
    """It is tried even if a gate has failed, for the cause. If it succeeds then, it counts
    nothing."""
    traced: bool = False
    """The ends of its processes, and close(2), are traced from the beginning, where that is
    allowed."""
    starts_server: bool = True
    limits: Limits = field(default_factory=Limits)
    redis_delay_ms: float = 0
    """Each reply of Redis comes so much later."""
    seconds: float = 3
    """About how long it takes where all is well: it is not begun with less left."""


@dataclass(frozen=True)
class Stage:
    """Checks that belong together."""

    name: str
    title: str
    checks: Sequence[Trial]
