# SPDX-License-Identifier: MIT
"""Inspect the threads of processes: their system calls, and how often they wake up."""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from bench.host.kernel import task_folders
from bench.live.tasks import call_in
from bench.stations.footprint import tasks_of

FUTEX_PRIVATE_FLAG, FUTEX_WAIT, CONTENDED = 0x80, 0, 2
STUCK_SECONDS = 0.8
ASLEEP = "/proc/PID/task/TID/syscall: thread, the call in which it sleeps"
"""The origin of the lines that the functions return."""
_WAITS = re.compile(r"accept|p?poll|epoll_p?wait|p?select")


def kept_lock(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread that has waited for the same mutex for STUCK_SECONDS without
    waking up. Only the mutex with the most waiting threads counts. While the number of waiting
    threads falls, the mutexes are only busy, and the function waits longer."""
    after = _waits_for_locks(pids)
    while before := after:
        time.sleep(STUCK_SECONDS)
        after = _waits_for_locks(pids)
        if len(after) >= len(before):
            break
    lines: dict[int, list[str]] = defaultdict(list)
    for thread, (mutex, sleeps) in before.items():
        # If the thread woke up, another thread had released the mutex.
        if after.get(thread) == (mutex, sleeps):
            call = f"futex({mutex:#x}, FUTEX_WAIT, 2, NULL)"
            lines[mutex].append(f"{thread} {call} <has not returned>")
    return max(lines.values(), key=len, default=[])


def wake_ups(pids: Sequence[int]) -> dict[int, int]:
    """Return the voluntary context switches of each thread since its start, by thread."""
    return {thread: use.switches.voluntary for thread, use in tasks_of(pids).items()}


def wait_for_clients(pids: Sequence[int]) -> list[str]:
    """Return a line for each process whose first thread sleeps in accept, poll or the like."""
    first = [Path(f"/proc/{pid}/task/{pid}") for pid in pids]
    return [_line(thread, name) for thread, name, _ in _calls(first) if _WAITS.match(name)]


def sleeping(pids: Sequence[int]) -> list[str]:
    """Return a line for each sleeping thread: its number and the name of its system call."""
    return [_line(thread, name) for thread, name, _ in _calls(_tasks(pids))]


def _line(thread: int, call: str) -> str:
    return f"{thread} {call}( <has not returned>"


def _waits_for_locks(pids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the address of the mutex for which each thread waits, and how often the thread has
    slept, by thread."""
    sleeps = wake_ups(pids)
    return {
        thread: (arguments[0], sleeps.get(thread, 0))
        for thread, name, arguments in _calls(_tasks(pids))
        if name == "futex" and _is_for_lock(arguments)
    }


def _is_for_lock(arguments: tuple[int, ...]) -> bool:
    """Return whether a futex call waits for a mutex. The C library uses FUTEX_WAIT with CONTENDED
    only for locks, not for condition variables or semaphores."""
    _, operation, value, timeout, *_ = arguments
    return (operation & ~FUTEX_PRIVATE_FLAG, value, timeout) == (FUTEX_WAIT, CONTENDED, 0)


def idle_threads(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread, except the first of each process, that sleeps until another
    thread signals a condition variable or a semaphore."""
    return [
        _line(thread, name)
        for thread, name, arguments in _calls(_tasks(pids))
        if name == "futex" and thread not in pids and not _is_for_lock(arguments)
    ]


def _tasks(pids: Sequence[int]) -> Iterator[Path]:
    """Return /proc/PID/task/TID for each thread."""
    return chain.from_iterable(map(task_folders, pids))


def _calls(tasks: Iterable[Path]) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """Yield the number of each sleeping thread, and the name and arguments of its system call."""
    for task in tasks:
        with suppress(OSError, IndexError):
            name, arguments = call_in((task / "syscall").read_text())
            if name:
                yield int(task.name), name, arguments
