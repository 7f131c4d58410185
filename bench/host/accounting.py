# SPDX-License-Identifier: MIT
"""Measure and limit the CPU time of a server, with all its processes, threads and ended children.

Each of the two methods returns an exact total, because the kernel counts nanoseconds:

- A control group (cgroup v2) for the server. Its counters can be read at any time, so start-up and
  warm-up can be subtracted. Children that have not been reaped are included. The group needs no
  controller, because every group has cpu.stat.
- If no group can be created (not root): getrusage(RUSAGE_CHILDREN) before and after the server is
  reaped. The difference is the CPU time of the server and its children from start to end, including
  children that the server has not reaped (`adopt_orphans`).

On most kernels the split of the total into user and system time is sampled by the timer tick.
If a process ends before its first tick, the kernel counts all its time as *user* time. So rusage
reports too much user time for a server that forks for each connection. For a group, the kernel adds
the samples of all processes before it splits the total, so the split is correct.

A sweep can give each server the same small quota, so that the load generator has more CPU time.
Then the server is the limit of a run, even with few CPUs. A server that has used its quota
is stopped until the next (short) period begins. The server's group has the highest weight, so the
server gets its quota even if other processes use the same CPU. The quota is set by the first of the
following methods that works:

- `systemd-run --user --scope`, if systemd allows users to set limits. No privilege is needed.
- A group of version 2 in this process's group or a parent group that enables `cpu` for children.
- A group of version 1 (hierarchy `cpu`) for the quota, and a group of version 2 for the CPU time.
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from bench.host.kernel import text_of
from bench.host.machine import V1, V2, own_folders, parse_mounts, parse_stat, read_own
from bench.host.process import StartError
from bench.host.project import completed, output_of

_ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
"""A script for sh: enter group $0, then execute the program, to count all the program's time."""
_PR_SET_CHILD_SUBREAPER = 36
_numbers = itertools.count(1)
_PREFIX = "zerohttpd-measure"
PERIOD_US = 10_000
SCOPES = "systemd-run --user --scope"
TRY_SECONDS = 60.0
"""The time limit to try a method. systemd took 14 s on an emulated machine."""
_SHOW_MAX = 'cat "$0$(sed -n s/^0:://p /proc/self/cgroup)/cpu.max"'
"""A script for sh that prints the quota of its own group. $0: the mount point of version 2."""


class CpuTime(NamedTuple):
    """CPU time in microseconds."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    @classmethod
    def of_all(cls, times: Sequence["CpuTime | None"]) -> "CpuTime | None":
        """Return the sum of several times; None if one is unknown."""
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        return cls(sum(time.user for time in known), sum(time.system for time in known))


class Periods(NamedTuple):
    """The number of a quota's periods in which a process ran, and of its throttled periods."""

    all: int
    throttled: int


class Usage(NamedTuple):
    """The usage of all processes of a server so far."""

    cpu: CpuTime
    starved_us: float | None
    """The microseconds in which a process of the server waited for a CPU while no process of the
    server ran (PSI). None: the kernel does not report this time."""
    periods: Periods | None  # None if there is no quota.

    @property
    def wanted_us(self) -> float | None:
        """Return the microseconds in which a process ran or waited for a CPU; None if unknown."""
        return None if self.starved_us is None else self.cpu.total + self.starved_us

    @property
    def throttled(self) -> float | None:
        """Return the share of the quota's periods with throttling; None if there is no quota."""
        return self.periods.throttled / max(self.periods.all, 1) if self.periods else None


class Group:
    """A control group for one server. Close it when the server has ended."""

    def __init__(self, parent: Path, quotas: Path | None = None, share: float = 0.0) -> None:
        """Create the group in the folder `parent`. With `quotas`, limit its processes to a `share`
        of one core by a group in the folder `quotas` (in version 2, the same group). May raise
        OSError."""
        self._share = share
        name = f"{_PREFIX}-{_process_namespace()}-{os.getpid()}-{next(_numbers)}"
        self.folders = list(dict.fromkeys([parent / name, (quotas or parent) / name]))
        """The group's folder for accounting, and the folder for the quota if it differs."""
        try:
            for folder in self.folders:
                folder.mkdir()
            if quotas:
                _limit(self.folders[-1], round(share * PERIOD_US))
        except OSError:
            self.close()
            raise

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in this group."""
        for folder in self.folders:
            command = ["sh", "-c", _ENTER, str(folder), *command]
        return list(command)

    def read(self) -> Usage:
        """Return the usage of all processes of the group since its creation."""
        own, limited = self.folders[0], parse_stat((self.folders[-1] / "cpu.stat").read_text())
        counted = parse_stat((own / "cpu.stat").read_text())
        cpu = CpuTime(float(counted["user_usec"]), float(counted["system_usec"]))
        pressure = text_of(own / "cpu.pressure")
        starved = re.search(r"^full .*total=(\d+)", pressure, re.MULTILINE)
        periods = Periods(limited["nr_periods"], limited["nr_throttled"]) if self._share else None
        return Usage(cpu, float(starved[1]) if starved else None, periods)

    def pids(self) -> list[int]:
        """Return the PIDs of the group's processes."""
        return [int(line) for line in (self.folders[0] / "cgroup.procs").read_text().split()]

    def close(self) -> None:
        """Kill all processes of the group and remove the group."""
        for folder in self.folders:
            remove_group(folder)


class Scope(Group):
    """A group that systemd creates for a program and removes after its last process has ended."""

    def __init__(self, mount: Path, share: float) -> None:
        """`mount`: the mount point of version 2; `share`: the quota as a share of one core."""
        self._mount, self._share = mount, share
        self._unit = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}.scope"

    @cached_property
    def folders(self) -> list[Path]:  # type: ignore[override]  # known after the program's start
        """Return the folder of the scope. Raises OSError if systemd does not know the scope."""
        show = ["systemctl", "--user", "show", "--value", "-p", "ControlGroup", self._unit]
        if said := output_of(show).strip():
            return [self._mount / said.lstrip("/")]
        raise OSError(f"systemd does not know {self._unit}")

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in this scope."""
        period = f"CPUQuotaPeriodSec={PERIOD_US}us"
        wanted = [f"CPUQuota={self._share:.0%}", period, "CPUWeight=10000", "CPUAccounting=yes"]
        limits = [word for one in wanted for word in ("-p", one)]
        return [*SCOPES.split(), "--quiet", "--collect", "-u", self._unit, *limits, "--", *command]

    def close(self) -> None:
        """Kill all processes of the scope. Do nothing if systemd does not know the scope."""
        with contextlib.suppress(OSError):
            super().close()


def remove_group(folder: Path) -> None:
    """Kill the processes of a group and remove it, if it exists. Wait at most 1 second until its
    last process has ended."""
    for _ in range(50):
        for pid in map(int, text_of(folder / "cgroup.procs").split()):
            if pid > 0:  # 0: a process of another namespace
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            folder.rmdir()
        if not folder.exists():
            return
        time.sleep(0.02)


def parent_of_groups() -> Path | None:
    """Return a folder in which this process can create, fill and read control groups; None if no
    such folder exists."""

    def can_count(folder: Path) -> bool:
        return _works(partial(Group, folder), lambda group, _: group.read().cpu.total > 0)

    return next(filter(can_count, candidates()), None)


def rusage_of_reaped() -> CpuTime:
    """Return the CPU time of all reaped children, including their own reaped children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuTime(used.ru_utime * 1e6, used.ru_stime * 1e6)


def adopt_orphans() -> None:
    """Become the subreaper of all descendants. If a server (e.g. lighttpd or `go run`) ends before
    its children, this process reaps the children (see `bench.host.process.Child`)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def remove_stale_groups(parent: Path) -> None:
    """Kill and remove the control groups of a killed run. Keep groups of other PID namespaces of
    this machine, because this process cannot check whether their owners run."""
    for folder in parent.glob(f"{_PREFIX}-{_process_namespace()}-*-*"):
        owner = folder.name.split("-")[3]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove_group(folder)


def _process_namespace() -> int:
    """Return the inode of this PID namespace. Several namespaces may share the control groups."""
    return Path("/proc/self/ns/pid").stat().st_ino


def candidates() -> list[Path]:
    """Return the folders to try for new groups of version 2: this process's group, then the
    parents. Stop at a group with a quota, because servers must stay within that quota."""
    found = []
    for _, folder in own_folders("", *read_own()):
        found.append(folder)
        if not text_of(folder / "cpu.max", "max").startswith("max"):
            break
    return found


def _works(
    make: Callable[[], Group],
    is_good: Callable[[Group, str], bool],
    command: Sequence[str] = ("true",),
) -> bool:
    """Return whether a command succeeds in a new group, and `is_good` accepts group and output."""
    try:
        group = make()
    except OSError:
        return False
    try:
        done = completed(group.wrap(command), TRY_SECONDS)
        return done.returncode == 0 and is_good(group, done.stdout)
    except (OSError, KeyError, ValueError, subprocess.TimeoutExpired):
        return False
    finally:
        group.close()


@dataclass(frozen=True)
class Slicing:
    """The method by which this host can set CPU quotas."""

    how: str  # The method's name for readers.
    parent: Path  # The folder for accounting groups; for a `Scope`, the mount point of version 2.
    quotas: Path | None  # The folder for groups with a quota. None: systemd creates these groups.

    def slice(self, share: float) -> Group:
        """Return a new group with a quota of `share` of one core. May raise OSError."""
        return Group(self.parent, self.quotas, share) if self.quotas else Scope(self.parent, share)

    def works(self) -> bool:
        """Return whether a program runs with a quota: a group counts the quota's periods, or the
        cpu.max of a scope has the right quota."""
        make, quota = partial(self.slice, 0.5), [str(PERIOD_US // 2), str(PERIOD_US)]
        if self.quotas:
            return _works(make, lambda group, _: bool(group.read()))
        show = ["sh", "-c", _SHOW_MAX, str(self.parent)]
        return _works(make, lambda _, said: said.split() == quota, show)


def new_group(parent: Path | None, slicing: Slicing | None, quota: float) -> Group | None:
    """Return a new group with `quota`, by the method `slicing`. If `quota` is 0, return a group in
    the folder `parent`; None if `parent` is None. Raises StartError or OSError."""
    if not quota:
        return Group(parent) if parent else None
    if slicing is None:
        raise StartError("this host cannot give a server a quota of CPU time")
    return slicing.slice(quota)


def find_slicing() -> Slicing | None:
    """Return the first method that works, or None. Remove a killed run's groups with quotas."""
    found = next((way for way in _ways() if way.works()), None)
    if found and found.quotas:
        remove_stale_groups(found.quotas)
    return found


def _ways() -> Iterable[Slicing]:
    mounts = parse_mounts(read_own()[1])
    v2 = next((mount.point for mount in mounts if mount.version == V2), None)
    if v2 is None:
        return
    yield Slicing(f"{V2}, {SCOPES}", v2, None)
    for folder in candidates():
        if "cpu" in text_of(folder / "cgroup.subtree_control").split():
            yield Slicing(V2, folder, folder)
    parent = parent_of_groups()
    for version, own in own_folders("cpu", *read_own()):
        if parent and version == V1:
            yield Slicing(V1, parent, own)


def _limit(folder: Path, quota_us: int) -> None:
    """Limit a group to `quota_us` microseconds of CPU time in each period. May raise OSError."""
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        (folder / "cpu.weight").write_text("10000")
    else:
        (folder / "cpu.shares").write_text("262144")
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
