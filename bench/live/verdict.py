# SPDX-License-Identifier: MIT
"""The page's sentence on a server, from its own observations only."""

from bench.live.clients import Waits
from bench.live.waits import TaskGroup

STUCK_SECONDS = 1.0
"""Visitors that wait for longer count as delayed."""
RECENT_SECONDS = 8.0
"""The visitors that a sentence describes: those of the last seconds."""
SLOW_SECONDS = 0.2
"""A guestbook that takes longer waits for Redis."""


def verdict(
    groups: list[TaskGroup], waits: Waits, *, alone: bool, has_loop: bool, tasks: str = "threads"
) -> str:
    """Return a sentence or two; empty if there is nothing to say. `alone`: no second thread has
    been seen; `has_loop`: a thread was in a call that waits for several clients; `tasks`:
    "processes" if none has been seen with several threads."""
    threads = sum(group.count for group in groups)
    held = sum(group.count for group in groups if group.silent)
    stuck = waits.still > STUCK_SECONDS
    redis = _redis(waits, tasks, alone=alone, has_loop=has_loop)
    if held:
        who = f"{held} of {threads} {tasks} {'is' if held == 1 else 'are'}"
        who = "The only process is" if alone else who
        others = "" if alone else redis or f"Other {tasks} serve the visitors."
        by = "a silent client" if held == 1 else "silent clients"
        waiting = stuck and (alone or not redis)  # otherwise they may wait for Redis only
        return f"{who} held by {by}. {'Visitors wait.' if waiting else others}".rstrip()
    if redis or stuck or not (waits.silent and has_loop):
        return redis
    return "A loop waits for all clients at once: the silent ones block no other client."


def _redis(waits: Waits, tasks: str, *, alone: bool, has_loop: bool) -> str:
    page, file = waits.page, waits.file
    if not waits.redis_is_slow or page < SLOW_SECONDS:
        return ""
    if file > page / 4:
        why = (
            "The only process waits for Redis, and all other clients wait behind it"
            if alone and not has_loop
            else "Clients that need no Redis wait, too"
        )
    elif has_loop:
        why = "A loop waits for Redis and for all clients at once, so only the guestbook is slow"
    elif alone:
        why = "The only process waits for Redis"
    else:
        why = f"Only the {tasks} that serve the guestbook wait for Redis; others serve the files"
    took = f"in the last {RECENT_SECONDS:.0f} s a guestbook took up to {_time(page)}"
    return f"{why}: {took}, a file up to {_time(file)}."


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
