# SPDX-License-Identifier: MIT
"""What there is of a lab on this machine, found by its name, and how it is taken away.

Every process of a lab is in a namespace of host names whose NIS domain is the lab's mark. That is
kept by the kernel: it is there from a process's first moment in the lab to its last, whatever
became of the lab's folder, and nobody else has it by accident.
"""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lab import kernel, limits, state
from lab.errors import LabError

KILL_SECONDS = 20.0


class Removed(NamedTuple):
    """What was there, and is no more."""

    processes: int
    groups: int
    folders: int


def clear(name: str) -> Removed:
    """Take away all that is there of a lab. What is not the lab's stays, and is a LabError."""
    killed = _kill_all(state.mark_of(name))
    groups = limits.left_over(name)
    for group in groups:
        _refuse_strangers(group)
    folders = state.left_over(name)
    for group in groups:
        limits.remove(group)
    limits.remove_empty_tops()
    for folder in folders:
        state.remove(folder)
    return Removed(killed, len(groups), len(folders))


def processes(mark: str) -> dict[int, int]:
    """All processes that bear a mark: their numbers, and those of their namespaces."""
    found = {}
    marked = {_namespace("self"): False}
    home = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for pid in (file.parent.name for file in Path("/proc").glob("[0-9]*/ns")):
            try:
                namespace = _namespace(pid)
                if namespace not in marked:
                    marked[namespace] = _domain(pid) == mark
            except OSError:
                continue  # it has ended meanwhile
            if marked[namespace]:
                found[int(pid)] = namespace
    finally:
        kernel.enter(home, kernel.NEW_HOST_NAME)
        os.close(home)
    return found


def inside_a_lab() -> bool:
    """Whether this process runs on a host of a lab."""
    return Path("/proc/sys/kernel/domainname").read_text().startswith(state.mark_of(""))


def _namespace(pid: str | int) -> int:
    return Path(f"/proc/{pid}/ns/uts").stat().st_ino


def _domain(pid: str) -> str:
    """The NIS domain where a process is. Stays in that process's namespace."""
    descriptor = os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.enter(descriptor, kernel.NEW_HOST_NAME)
    finally:
        os.close(descriptor)
    return Path("/proc/sys/kernel/domainname").read_text().rstrip("\n")


def _kill_all(mark: str) -> int:
    """Kill all processes that bear the mark, and wait until they are gone. How many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + KILL_SECONDS
    while found := processes(mark):
        if time.monotonic() > deadline:
            raise LabError(f"process {min(found)} of the lab does not end; try again later")
        for pid, namespace in found.items():
            _kill(pid, namespace, deadline)
        killed |= found.keys()
    return len(killed)


def _kill(pid: int, namespace: int, deadline: float) -> None:
    """Kill a process, if it still is in that namespace, and wait for its end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Unlike the number, the pidfd cannot come to mean another process.
        if _namespace(pid) == namespace:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            # The first process of a process namespace ends after all others in it.
            ended.poll(max(0.0, deadline - time.monotonic()) * 1000)
    except (FileNotFoundError, ProcessLookupError):
        pass
    finally:
        os.close(descriptor)


def _refuse_strangers(group: Path) -> None:
    """Processes in the lab's group that do not bear its mark have been put there by somebody."""
    deadline = time.monotonic() + KILL_SECONDS
    while pids := limits.processes_in(group):
        for pid in pids:
            with suppress(OSError):  # one that is ending has no namespaces any more
                _namespace(pid)
                raise LabError(f"process {pid} in {group} is not the lab's: both left alone")
        if time.monotonic() > deadline:
            raise LabError(f"process {pids[0]} of the lab does not end; try again later")
        time.sleep(0.02)
