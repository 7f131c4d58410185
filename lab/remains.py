# SPDX-License-Identifier: MIT
"""Find and remove everything of a lab on this machine, by the lab's name.

Each process of a lab is in a UTS namespace whose NIS domain is the lab's mark. The mark exists
until the process ends, even if the lab's folder is lost. No other process has this mark by
accident.
"""

import os
import select
import shutil
import signal
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path

from lab import kernel, limits, state
from lab.plan import LabError

KILL_SECONDS = 20.0


def clear(name: str) -> int | None:
    """Remove everything of a lab. Return the number of killed processes; None if there was nothing
    to remove. Raise LabError if its folder, or a process in its groups, lacks the lab's mark."""
    killed = _kill_all(state.mark_of(name))
    groups = limits.left_over(name)
    for group in groups:
        _refuse_strangers(group)
    folders = state.left_over(name)
    for group in groups:
        limits.remove(group)
    limits.remove_empty_tops()
    for folder in folders:
        shutil.rmtree(folder)
    return killed if killed or groups or folders else None


def processes(mark: str) -> dict[int, int]:
    """Return the PIDs of all processes with this mark, and their UTS namespaces' inodes."""
    found = {}
    marked = {_namespace("self"): False}
    with _opened("self") as home:
        try:
            for pid in (folder.name for folder in Path("/proc").glob("[0-9]*")):
                with suppress(OSError):  # the process has ended
                    namespace = _namespace(pid)
                    if namespace not in marked:
                        marked[namespace] = _domain(pid) == mark
                    if marked[namespace]:
                        found[int(pid)] = namespace
        finally:
            kernel.enter(home.fileno(), kernel.NEW_HOST_NAME)
    return found


def inside_a_lab() -> bool:
    """Return whether this process runs on a host of a lab."""
    return kernel.domain().startswith(state.mark_of(""))


def _opened(pid: str) -> FileIO:
    return Path(f"/proc/{pid}/ns/uts").open("rb", buffering=0)


def _namespace(pid: str | int) -> int:
    return Path(f"/proc/{pid}/ns/uts").stat().st_ino


def _domain(pid: str) -> str:
    """Enter the UTS namespace of a process and return its NIS domain."""
    with _opened(pid) as namespace:
        kernel.enter(namespace.fileno(), kernel.NEW_HOST_NAME)
    return kernel.domain()


def _kill_all(mark: str) -> int:
    """Kill all processes with this mark and wait until they have ended. Return their number."""
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
    """Kill a process if it is still in the UTS namespace, and wait until the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Unlike a PID, a pidfd cannot refer to another process later.
        if _namespace(pid) == namespace:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            # The first process of a PID namespace ends after the other processes in it.
            ended.poll(max(0.0, deadline - time.monotonic()) * 1000)
    except (FileNotFoundError, ProcessLookupError):
        pass
    finally:
        os.close(descriptor)


def _refuse_strangers(group: Path) -> None:
    """Raise LabError if the lab's group contains a process without the lab's mark."""
    deadline = time.monotonic() + KILL_SECONDS
    while pids := limits.processes_in(group):
        for pid in pids:
            with suppress(OSError):  # an ending process has no namespaces
                _namespace(pid)
                raise LabError(f"process {pid} in {group} is not of the lab; the group remains")
        if time.monotonic() > deadline:
            raise LabError(f"process {pids[0]} of the lab does not end; try again later")
        time.sleep(0.02)
