# SPDX-License-Identifier: MIT
"""Measures the CPU time of a server: of all its processes and threads, ended children included.

There are two methods. The total of both is exact, because the kernel counts nanoseconds:

- A control group (cgroup v2) for the server. It can be read at any time, so start-up and warm-up
  are not counted, and it includes children that have not been reaped. It needs no controller: every
  group has cpu.stat.
- If no group can be created (not root): getrusage(RUSAGE_CHILDREN) before and after the server is
  reaped. It counts the whole life of the server and its children, start and end included, and
  also children that the server has not reaped (`adopt_orphans`).

On most kernels the split of the total into user and system time is sampled by the timer tick.
If a process ends before its first tick, the kernel counts all its time as *user* time. So rusage
reports too much user time for a server that forks for each connection. The group adds up the
samples of all processes before it divides; its split is correct there, too.
"""

import contextlib
import ctypes
import itertools
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.host.kernel import text_of
from bench.host.quota import own_folders, parse_stat, read_own

_ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
"""For sh: enter group $0, then execute the program, so that all its instructions are counted."""

_PR_SET_CHILD_SUBREAPER = 36
_numbers = itertools.count(1)
_PREFIX = "zerohttpd-measure"


class CpuTime(NamedTuple):
    """Microseconds."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, other: "CpuTime") -> "CpuTime":
        return CpuTime(self.user - other.user, self.system - other.system)

    @classmethod
    def of_all(cls, times: Sequence["CpuTime | None"]) -> "CpuTime | None":
        """Return the sum of several times; None unless all are known."""
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        return cls(sum(time.user for time in known), sum(time.system for time in known))


class Group:
    """A control group for one server. Close it when the server has ended."""

    def __init__(self, parent: Path) -> None:
        """Create the group in the folder `parent`. May raise OSError."""
        owner = f"{_process_namespace()}-{os.getpid()}"
        self._folder = parent / f"{_PREFIX}-{owner}-{next(_numbers)}"
        self._folder.mkdir()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in this group."""
        return self._enter(self._folder, command)

    @staticmethod
    def _enter(folder: Path, command: Sequence[str]) -> list[str]:
        return ["sh", "-c", _ENTER, str(folder), *command]

    def read(self) -> CpuTime:
        """Return the CPU time of all members since the group was created."""
        fields = parse_stat((self._folder / "cpu.stat").read_text())
        return CpuTime(float(fields["user_usec"]), float(fields["system_usec"]))

    def starved_us(self) -> float | None:
        """Return the microseconds in which members were runnable and none of them ran (PSI); None
        if the kernel does not report it."""
        text = text_of(self._folder / "cpu.pressure")
        match = re.search(r"^full .*total=(\d+)", text, re.MULTILINE)
        return float(match[1]) if match else None

    def pids(self) -> list[int]:
        """Return the PIDs of the members."""
        return [int(line) for line in (self._folder / "cgroup.procs").read_text().split()]

    def close(self) -> None:
        """Kill all members and remove the group."""
        with contextlib.suppress(OSError):  # Linux < 5.14 has no such file
            (self._folder / "cgroup.kill").write_text("1")
        remove_group(self._folder)


def remove_group(folder: Path) -> None:
    """Remove a group as soon as its last members have ended; it may be removed already."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            folder.rmdir()
        if not folder.exists():
            return
        time.sleep(0.02)


def parent_of_groups() -> Path | None:
    """Return a folder in which we can create, fill and read control groups; None if there is no
    such folder."""
    return next((folder for folder in candidates() if _works(folder)), None)


def rusage_of_buried() -> CpuTime:
    """Return the CPU time of all reaped children, and of the children that they have reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuTime(used.ru_utime * 1e6, used.ru_stime * 1e6)


def adopt_orphans() -> None:
    """Become the subreaper of all descendants. If a server ends before its children, as lighttpd
    and `go run` do, we and not init reap them, see `bench.host.process.Child`."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def remove_stale_groups(parent: Path) -> None:
    """Kill and remove control groups that are left over from a killed run. Groups of hosts that are
    other PID namespaces of this machine stay: their owners cannot be checked from here."""
    for folder in parent.glob(f"{_PREFIX}-{_process_namespace()}-*-*"):
        owner = folder.name.split("-")[3]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                for pid in (folder / "cgroup.procs").read_text().split():
                    if int(pid) > 0:  # 0: a process of another namespace
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
            remove_group(folder)


def _process_namespace() -> int:
    """Return the inode of our PID namespace: several namespaces may share the control groups."""
    return Path("/proc/self/ns/pid").stat().st_ino


def candidates() -> list[Path]:
    """Return folders in which version 2 groups may be created: our own group, then its parents (a
    user's session may allow it). A group with a quota is the last: servers must stay in its quota.
    """
    found = []
    for _, folder in own_folders("", *read_own()):
        found.append(folder)
        if _has_quota(folder):
            break
    return found


def _has_quota(folder: Path) -> bool:
    return not text_of(folder / "cpu.max", "max").startswith("max")


def _works(folder: Path) -> bool:
    try:
        group = Group(folder)
    except OSError:
        return False
    try:
        done = subprocess.run(group.wrap(["true"]), capture_output=True)
        return done.returncode == 0 and group.read().total > 0
    except (OSError, KeyError, ValueError):
        return False
    finally:
        group.close()
