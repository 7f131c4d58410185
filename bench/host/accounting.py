# SPDX-License-Identifier: MIT
"""The CPU time of a server: of all its processes and threads, ended children included.

Two ways, both exact in the total, since the kernel adds up nanoseconds:

- A control group (cgroup v2) of the server's own. It can be read at any moment, so that start-up
  and warm-up are left out, and it also knows children that nobody has waited for. No controller
  is needed: every group has cpu.stat.
- Where no group can be made (not root): getrusage(RUSAGE_CHILDREN) before and after the server is
  buried, which holds all that it and its children used in their lives, their start and their end
  included; also those that it has not waited for (`adopt_orphans`).

How the total splits into user and system time is sampled by the timer's tick on most kernels.
A process that ends before its first tick has no sample, and the kernel then books all of it as
*user* time: that is what rusage says of a server that forks for each connection. The group adds up
the samples of all processes before it divides, and is right there too.
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
"""For sh: become a member of group $0, then the program. So no instruction of it goes missing."""

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
        """Of all together; None unless all are known."""
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        return cls(sum(time.user for time in known), sum(time.system for time in known))


class Group:
    """A control group for one server. Close it when the server is gone."""

    def __init__(self, parent: Path) -> None:
        """May raise OSError."""
        owner = f"{_process_namespace()}-{os.getpid()}"
        self._folder = parent / f"{_PREFIX}-{owner}-{next(_numbers)}"
        self._folder.mkdir()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command line of a program that runs in this group."""
        return self._enter(self._folder, command)

    @staticmethod
    def _enter(folder: Path, command: Sequence[str]) -> list[str]:
        return ["sh", "-c", _ENTER, str(folder), *command]

    def read(self) -> CpuTime:
        """What the members have used since the group was made."""
        fields = parse_stat((self._folder / "cpu.stat").read_text())
        return CpuTime(float(fields["user_usec"]), float(fields["system_usec"]))

    def starved_us(self) -> float | None:
        """Microseconds in which members wanted to run and none of them did (PSI); None where the
        kernel does not say."""
        text = text_of(self._folder / "cpu.pressure")
        match = re.search(r"^full .*total=(\d+)", text, re.MULTILINE)
        return float(match[1]) if match else None

    def pids(self) -> list[int]:
        """The processes that are in it now."""
        return [int(line) for line in (self._folder / "cgroup.procs").read_text().split()]

    def close(self) -> None:
        """Kill what is left in it, and remove it."""
        with contextlib.suppress(OSError):  # Linux < 5.14 has no such file
            (self._folder / "cgroup.kill").write_text("1")
        remove_group(self._folder)


def remove_group(folder: Path) -> None:
    """Remove a group, as soon as its last members have ended; it may have gone by itself."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            folder.rmdir()
        if not folder.exists():
            return
        time.sleep(0.02)


def parent_of_groups() -> Path | None:
    """Where control groups can be made, filled and read by us; None if nowhere."""
    return next((folder for folder in candidates() if _works(folder)), None)


def rusage_of_buried() -> CpuTime:
    """What all children that were waited for, and those that they waited for, have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuTime(used.ru_utime * 1e6, used.ru_stime * 1e6)


def adopt_orphans() -> None:
    """From now on the children of a server that ends before them (lighttpd and `go run` do) are
    ours, and not those of init: `bench.host.process.Child` buries them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def remove_stale_groups(parent: Path) -> None:
    """Remove control groups that a killed run left behind, and end what is still in them. Those of
    other hosts that are namespaces of this machine stay: which processes are theirs cannot be seen
    from here."""
    for folder in parent.glob(f"{_PREFIX}-{_process_namespace()}-*-*"):
        owner = folder.name.split("-")[3]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(FileNotFoundError):  # removed by somebody else meanwhile
                for pid in (folder / "cgroup.procs").read_text().split():
                    if int(pid) > 0:  # 0: one that is in another namespace
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
            remove_group(folder)


def _process_namespace() -> int:
    """Process numbers are unique in one namespace only; several may share the control groups."""
    return Path("/proc/self/ns/pid").stat().st_ino


def candidates() -> list[Path]:
    """Where groups of version 2 may be made: below us, then beside us (where a user's own session
    may be), then higher up; but never outside of a group with a quota, or what is measured would be
    free of it."""
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
