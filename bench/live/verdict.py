# SPDX-License-Identifier: MIT
"""The page's sentences about a server, made only from the page's observations."""

import math
from typing import NamedTuple

from bench.live.clients import Burst, Waits
from bench.live.waits import WaitGroup
from bench.records.words import plural

STUCK_SECONDS = 1.0
"""Visitors with a longer wait count as delayed."""
RECENT_SECONDS = 8.0
"""The sentences describe the visitors of the last RECENT_SECONDS."""
SLOW_SECONDS = 0.2
"""While a button slows Redis down, longer waits for the guestbook count as waits for Redis."""


class Tasks(NamedTuple):
    """The processes and threads of a server that were observed so far."""

    alone: bool = True  # Whether the server never had a second process or thread.
    has_loop: bool = False  # Whether a task was in a call that waits for several clients.
    kind: str = "processes"  # The word for the tasks: "threads" if a process had several threads.


def verdict(groups: list[WaitGroup], waits: Waits, tasks: Tasks) -> str:
    """Return sentences about a server; empty if nothing can be said yet."""
    redis = _redis(waits, tasks)
    silent = _silent(groups, waits, tasks, redis)
    burst = _burst(waits.burst, tasks)
    return " ".join(text for text in (silent or redis, burst) if text) or _usual(waits)


def _silent(groups: list[WaitGroup], waits: Waits, tasks: Tasks, redis: str) -> str:
    """Return how silent clients affect other clients. `redis`: the sentence about a slow Redis."""
    threads = sum(group.count for group in groups)
    held = sum(group.count for group in groups if group.silent)
    stuck = waits.still > STUCK_SECONDS
    if held:
        by = "a silent client" if held == 1 else "silent clients"
        if tasks.alone:
            others = ", so all visitors wait, too." if stuck else "."
            return f"The only process waits for {by}{others}"
        who = f"{held} of {threads} {tasks.kind} {'waits' if held == 1 else 'wait'} for {by}."
        if stuck and not redis:  # visitors may only wait for the slow Redis
            return f"{who} Visitors wait until one of the {tasks.kind} is free."
        return f"{who} {redis or f'Other {tasks.kind} serve the visitors.'}"
    if redis or stuck or not (waits.silent and tasks.has_loop):
        return ""
    text = "An event loop waits for all clients at once: silent clients block no other client."
    return f"{text} {_took(waits)}" if waits.page and waits.file else text


def _burst(burst: Burst | None, tasks: Tasks) -> str:
    if burst is None or burst.ended > RECENT_SECONDS:
        return ""
    if burst.done < burst.asked:
        waiting = f"{burst.asked - burst.done} of {burst.asked} requests of the burst wait."
        return waiting if burst.longest > STUCK_SECONDS else ""
    if burst.good < burst.asked:
        failed = burst.asked - burst.good
        return f"{failed} of {burst.asked} requests of the burst got an error or no answer."
    if tasks.has_loop:
        how = "An event loop served all these clients in turn"
    elif tasks.alone:
        how = "No second process or thread was observed"  # but maybe a child has ended
    else:
        how = f"The clients were served by different {tasks.kind}"
    took = f"each took up to {_time(burst.longest)}"
    return f"All {burst.asked} requests of the burst are answered; {took}. {how}."


def _usual(waits: Waits) -> str:
    """Return how long the visitors waited, if no button has an effect."""
    if waits.failed:
        who = plural(waits.failed, "visitor")
        return f"{who} of the last {RECENT_SECONDS:.0f} s got an error or no answer."
    if waits.still > STUCK_SECONDS:
        return "Visitors wait."
    return f"All visitors are served. {_took(waits)}" if waits.page and waits.file else ""


def _redis(waits: Waits, tasks: Tasks) -> str:
    page, file = waits.page, waits.file
    if not waits.redis_is_slow or page < SLOW_SECONDS or not file:
        return ""
    if file > page / 4:
        why = (
            "The only process waits for Redis, and all other clients wait for the process"
            if tasks.alone and not tasks.has_loop
            else "Clients that need no Redis wait, too"
        )
    elif tasks.has_loop:
        why = "An event loop waits for Redis and all clients at once: only the guestbook is slow"
    elif tasks.alone:
        why = "The only process waits for Redis"
    else:
        serving = f"Only the {tasks.kind} that serve the guestbook"
        why = f"{serving} wait for Redis; others serve the files"
    return f"{why}. {_took(waits)}"


def _took(waits: Waits) -> str:
    page = f"In the last {RECENT_SECONDS:.0f} s a guestbook took up to {_time(waits.page)}"
    return f"{page}, a file up to {_time(waits.file)}."


def _time(seconds: float) -> str:
    """Return a time in words, rounded up to 10 ms (from 1 s: to 0.1 s), so it seldom changes."""
    rounded = math.ceil(seconds * 100) / 100
    return f"{rounded * 1000:.0f} ms" if rounded < 1 else f"{math.ceil(seconds * 10) / 10:.1f} s"
