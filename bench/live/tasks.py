# SPDX-License-Identifier: MIT
"""The processes and threads of a server, with the system calls in which they sleep.

This module reads /proc, e.g. `stat` for the state, `syscall` for the call and its arguments, `fd`
for the socket of a descriptor; see proc(5).

`Counters` reads the number of answered requests from memory that all processes of a server share
(lib/ops.h). A user who may trace a process may read its memory; reading does not stop the process.
`Counters` finds each `struct counters` by its content: `requests` is the sum of `responses`.
"""

import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.host.kernel import stat_fields, task_folders, text_of
from bench.host.project import call_name

COUNTER = struct.Struct("<Q6QQ")
"""The fields: requests, responses by the first digit of the status (none, 1xx, ..., 5xx), bytes."""
_SHARED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .* /dev/zero \(deleted\)$", re.MULTILINE)
LONGEST = 10_000 * COUNTER.size
"""The largest size of all counters together: WORKERS_LIMIT workers have one each (lib/config.h)."""


class Counters:
    """The counters of one server."""

    def __init__(self, pid: int) -> None:
        """`pid`: the first process of the server."""
        self._folder = Path("/proc", str(pid))
        self._place: tuple[int, int] | None = None

    def requests(self) -> int | None:
        """Return the number of requests so far; None if there are no counters, if all are 0, or if
        the memory cannot be read."""
        with suppress(OSError), (self._folder / "mem").open("rb", buffering=0) as memory:
            for begin, end in [self._place] if self._place else self._places():
                cells = [*COUNTER.iter_unpack(os.pread(memory.fileno(), end - begin, begin))]
                if self._place or are_counters(cells):
                    self._place = (begin, end)
                    return int(sum(cell[0] for cell in cells))
        return None

    def _places(self) -> list[tuple[int, int]]:
        """Return the bounds of each memory area that the server shares with its children."""
        found = _SHARED.findall((self._folder / "maps").read_text())
        areas = ((int(begin, 16), int(end, 16)) for begin, end in found)
        return [(begin, end) for begin, end in areas if end - begin <= LONGEST + 4096]


def are_counters(cells: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the numbers are counters, and at least one counter is above 0."""
    sums_agree = all(
        requests == sum(responses) and not none for requests, none, _, *responses, _bytes in cells
    )
    return sums_agree and any(cell[0] for cell in cells)


PROC = Path("/proc")
_POLLFD = struct.Struct("<ihh")


@dataclass(frozen=True)
class Task:
    """A process or a thread at one moment."""

    process: int
    number: int
    runs: bool  # True: the task uses a processor or waits for a processor; False: it sleeps.
    call: str = ""
    """The system call in which the task sleeps; empty: it runs, or the call may not be read."""
    arguments: tuple[int, ...] = ()
    channel: str = ""  # The kernel function in which the task sleeps, if the call may not be read.
    ran_ns: int = 0
    """The total CPU time of a sleeping task; 0: it runs, or no permission to read the time."""


def look(first: int) -> list[Task]:
    """Return all tasks of a server: the tasks of the session that the process `first` leads. The
    tasks of `first` come first."""
    found = []
    for name in os.listdir(PROC):  # noqa: PTH208  a Path for each process takes twice as long
        with suppress(OSError, ValueError):  # no process, or it has just ended
            if os.getsid(process := int(name)) == first:
                found += [_task(process, folder) for folder in task_folders(process)]
    tasks = [task for task in found if task]
    return sorted(tasks, key=lambda task: (task.process != first, task.process, task.number))


def _task(process: int, folder: Path) -> Task | None:
    """Return the task with this folder in /proc; None if it has ended."""
    number = int(folder.name)
    with suppress(OSError, IndexError):  # it has just ended
        state = stat_fields(folder)[0]
        if state == "R":
            return Task(process, number, runs=True)
        if state not in "ZX":
            try:
                call, arguments = call_in((folder / "syscall").read_text())
                ran = int((folder / "schedstat").read_text().split()[0])
                return Task(process, number, False, call, arguments, ran_ns=ran)
            except OSError:  # no permission, e.g. not the parent of the task
                channel = text_of(folder / "wchan").removeprefix("0")  # 0: in no function
                return Task(process, number, False, channel=channel)
    return None


def call_in(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the call's name and arguments from the text of /proc/PID/syscall; the name is empty if
    the task is in no call."""
    words = text.split()
    if words[0] in ("running", "-1"):
        return "", ()
    return call_name(int(words[0])), tuple(int(word, 16) for word in words[1:7])


def inode_of(task: Task, descriptor: int) -> int:
    """Return the inode of a descriptor's socket; 0 if there is no socket or no permission."""
    with suppress(OSError, ValueError):
        link = (PROC / str(task.process) / "fd" / str(descriptor)).readlink()
        return int(str(link).removeprefix("socket:[").removesuffix("]"))
    return 0


def watched(task: Task) -> int | None:
    """Return the only descriptor for which a task sleeps in poll or ppoll. Return None if there is
    not exactly one, or if the task's memory cannot be read."""
    place, count, *_ = task.arguments
    if count != 1:
        return None
    file = PROC / str(task.process) / "mem"
    with suppress(OSError, struct.error), file.open("rb", buffering=0) as memory:
        return int(_POLLFD.unpack(os.pread(memory.fileno(), _POLLFD.size, place))[0])
    return None
