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
_WAITS = re.compile(r"accept|p?poll|epoll_p?wait|p?select")


def kept_lock(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread that still waits for the same mutex after STUCK_SECONDS. Only
    the mutex with the most waiting threads counts. While the number of waiting threads falls, the
    mutexes are only busy, and the function waits longer."""
    after = _waits_for_locks(pids)
    while before := after:
        time.sleep(STUCK_SECONDS)
        after = _waits_for_locks(pids)
        if len(after) >= len(before):
            break
    lines: dict[int, list[str]] = defaultdict(list)
    for thread, mutex in before.items():
        if after.get(thread) == mutex:
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


def _waits_for_locks(pids: Sequence[int]) -> dict[int, int]:
    """Return the address of the mutex for which each thread waits, by thread. The C library uses
    FUTEX_WAIT with CONTENDED only for locks, not for condition variables or semaphores."""
    found = {}
    for thread, name, (address, operation, value, timeout, *_) in _calls(_tasks(pids)):
        kind = operation & ~FUTEX_PRIVATE_FLAG
        if name == "futex" and (kind, value, timeout) == (FUTEX_WAIT, CONTENDED, 0):
            found[thread] = address
    return found


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
