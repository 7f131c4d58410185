# SPDX-License-Identifier: MIT
"""Read from /proc in which system calls a server's threads wait, and how often they wake up."""

import contextlib
import functools
import platform
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.host.programs import output_of

_NUMBERS = {"x86_64": (202, {43, 288}), "aarch64": (98, {202, 242})}
FUTEX, ACCEPTS = _NUMBERS.get(platform.machine(), (-1, set()))
"""Numbers of futex(2), and of accept(2) and accept4(2)."""
FUTEX_PRIVATE_FLAG, FUTEX_WAIT, CONTENDED = 0x80, 0, 2
STUCK_SECONDS = 0.4


def kept_lock(pids: Sequence[int]) -> list[str]:
    """Return a line for each thread that waits without a timeout for the same mutex, now and after
    STUCK_SECONDS. Of several mutexes only the one with the most threads counts."""
    before = _waits_for_locks(pids)
    if not before:
        return []
    time.sleep(STUCK_SECONDS)
    after = _waits_for_locks(pids)
    lines: dict[str, list[str]] = defaultdict(list)
    for thread, mutex in before.items():
        if after.get(thread) == mutex:
            lines[mutex].append(f"{thread} futex({mutex}, FUTEX_WAIT, 2, NULL) <has not returned>")
    return max(lines.values(), key=len, default=[])


def wake_ups(pids: Sequence[int]) -> dict[int, int]:
    """Return the number of each thread's voluntary context switches since its start."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                _, _, after = (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")
                found[int(task.name)] = int(after.split()[0]) if after else 0
    return found


def in_accept(pids: Sequence[int]) -> list[int]:
    """Return the processes whose first thread waits in accept."""
    return [pid for pid in pids if (call := _call(pid, pid)) and call[0] in ACCEPTS]


def sleeping(pids: Sequence[int]) -> list[str]:
    """Return a line for each sleeping thread: its number and the name of its system call."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                if call := _call(pid, int(task.name)):
                    found.append(f"{task.name} {call_name(call[0])}( <has not returned>")
    return found


@functools.cache
def call_name(number: int) -> str:
    """Return the name of a system call, from the headers of the C library."""
    said = output_of(["cc", "-dM", "-E", "-include", "sys/syscall.h", "-x", "c", "/dev/null"])
    found = re.search(rf"#define __NR_(\w+) {number}\n", said)
    return found[1] if found else f"number {number}"


def _waits_for_locks(pids: Sequence[int]) -> dict[int, str]:
    """Return by thread the address of the mutex that it waits for. The C library uses this futex
    operation for mutexes only, not for condition variables or semaphores."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                call = _call(pid, int(task.name))
                if not call or call[0] != FUTEX or len(call) < 5:
                    continue
                address, operation, value, timeout = call[1:5]
                if (operation & ~FUTEX_PRIVATE_FLAG, value, timeout) == (FUTEX_WAIT, CONTENDED, 0):
                    found[int(task.name)] = f"{address:#x}"
    return found


def _call(pid: int, thread: int) -> list[int]:
    """Return number and arguments of the call that a thread waits in; empty if it runs."""
    with contextlib.suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        return [int(word, 0) for word in words]
    return []
