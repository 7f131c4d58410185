# SPDX-License-Identifier: MIT
"""Inspect the threads of processes: the system calls in which they wait, and how often they wake
up."""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from bench.host.kernel import task_folders
from bench.host.programs import call_name

FUTEX_PRIVATE_FLAG, FUTEX_WAIT, CONTENDED = 0x80, 0, 2
STUCK_SECONDS = 0.8
_WAITS = re.compile(r"accept|p?poll|epoll_p?wait|p?select")


def kept_lock(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread that waits without a timeout for the same mutex, now and after
    STUCK_SECONDS. If there are several mutexes, only the mutex with most waiting threads counts.
    While their number falls, the mutex is only busy, and the function waits longer."""
    after = _waits_for_locks(pids)
    while before := after:
        time.sleep(STUCK_SECONDS)
        after = _waits_for_locks(pids)
        if len(after) >= len(before):
            break
    lines: dict[str, list[str]] = defaultdict(list)
    for thread, mutex in before.items():
        if after.get(thread) == mutex:
            lines[mutex].append(f"{thread} futex({mutex}, FUTEX_WAIT, 2, NULL) <has not returned>")
    return max(lines.values(), key=len, default=[])


def wake_ups(pids: Sequence[int]) -> dict[int, int]:
    """Return the number of voluntary context switches of each thread since its start, by thread."""
    found = {}
    for task in _tasks(pids):
        with suppress(OSError):
            _, _, after = (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")
            found[int(task.name)] = int(after.split()[0]) if after else 0
    return found


def wait_for_clients(pids: Sequence[int]) -> list[str]:
    """Return a line for each process whose first thread sleeps in accept or poll, or in a
    similar call."""
    first = [Path(f"/proc/{pid}/task/{pid}") for pid in pids]
    return [line for call, line in _calls(first) if _WAITS.match(call)]


def sleeping(pids: Sequence[int]) -> list[str]:
    """Return a line for each sleeping thread: its number and the name of its system call."""
    return [line for _, line in _calls(_tasks(pids))]


def _calls(tasks: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield for each sleeping thread the name of its system call, and a line with this name."""
    for task in tasks:
        if call := _call(task):
            name = call_name(call[0])
            yield name, f"{task.name} {name}( <has not returned>"


def _waits_for_locks(pids: Sequence[int]) -> dict[int, str]:
    """Return the address of the mutex for which each thread waits, by thread. The C library uses
    FUTEX_WAIT with CONTENDED for mutexes only, not for condition variables or semaphores."""
    found = {}
    for task in _tasks(pids):
        call = _call(task)
        if len(call) < 5 or call_name(call[0]) != "futex":
            continue
        address, operation, value, timeout = call[1:5]
        if (operation & ~FUTEX_PRIVATE_FLAG, value, timeout) == (FUTEX_WAIT, CONTENDED, 0):
            found[int(task.name)] = f"{address:#x}"
    return found


def _tasks(pids: Sequence[int]) -> Iterator[Path]:
    """Return /proc/PID/task/TID for each thread."""
    return chain.from_iterable(map(task_folders, pids))


def _call(task: Path) -> list[int]:
    """Return the number and arguments of the call in which a thread waits; empty if it runs."""
    with suppress(OSError, ValueError):
        return [int(word, 0) for word in (task / "syscall").read_text().split()]
    return []
