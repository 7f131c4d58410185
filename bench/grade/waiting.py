# SPDX-License-Identifier: MIT
"""How the threads of a server wait, from /proc: in which system calls, how often they wake up."""

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
    """A line for each thread that waits for the same mutex now and after STUCK_SECONDS, without a
    timeout; an empty list if there is none."""
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
    """By thread: how often it has slept and woken up since its start."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                _, _, after = (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")
                found[int(task.name)] = int(after.split()[0]) if after else 0
    return found


def in_accept(pids: Sequence[int]) -> list[int]:
    """Those processes whose first thread waits in accept."""
    return [pid for pid in pids if (call := _call(pid, pid)) and call[0] in ACCEPTS]


def sleeping(pids: Sequence[int]) -> list[str]:
    """A line for each thread that sleeps: the thread, and the name of its system call."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                if call := _call(pid, int(task.name)):
                    found.append(f"{task.name} {call_name(call[0])}( <has not returned>")
    return found


@functools.cache
def call_name(number: int) -> str:
    """The name of a system call, from the headers of the C library."""
    said = output_of(["cc", "-dM", "-E", "-include", "sys/syscall.h", "-x", "c", "/dev/null"])
    found = re.search(rf"#define __NR_(\w+) {number}\n", said)
    return found[1] if found else "one that the C library's headers do not name"


def _waits_for_locks(pids: Sequence[int]) -> dict[int, str]:
    """By thread: the address of the mutex that it waits for. The C library waits so for a mutex
    only: its condition variables and semaphores use another operation."""
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
    """The number and the arguments of the call that it waits in; empty if it runs."""
    with contextlib.suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        return [int(word, 0) for word in words]
    return []
