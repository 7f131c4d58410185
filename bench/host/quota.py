# SPDX-License-Identifier: MIT
"""How much CPU time this host may use, and how much of it was used: of the control group with a
quota that we are in, or of the CPUs that we may run on.

A quota is CPU time per period (15 ms in each 100 ms): when it is used up, everybody in the group
stands still until the next period. The kernel counts the periods in which that happened, and that
count says more surely than any other figure that a host was at its limit.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from bench.host.kernel import TcpCounters, cpu_ticks, tcp_counters, text_of

V1, V2 = "cgroup v1", "cgroup v2"


@dataclass(frozen=True)
class Quota:
    """A control group with a quota."""

    version: str
    folder: Path
    """With cpu.stat."""
    usage: Path
    """The file that says how much has been used: cpu.stat itself, or version 1's cpuacct.usage."""
    cpus: float
    """CPU time per time: 0.15 is 15 % of one CPU."""


class Mount(NamedTuple):
    """Where a hierarchy of control groups can be seen."""

    point: Path
    root: str
    """Which of its groups is seen there: "/" for all."""
    version: str
    controllers: frozenset[str]


class HostCount(NamedTuple):
    """What a host has used and met so far. None: not known here."""

    cpu_s: float
    periods: int | None
    """Of the quota, in which anybody ran."""
    throttled: int | None
    tcp: TcpCounters | None

    def __sub__(self, other: "HostCount") -> "HostCount":
        return HostCount(
            self.cpu_s - other.cpu_s,
            _difference(self.periods, other.periods),
            _difference(self.throttled, other.throttled),
            self.tcp - other.tcp if self.tcp and other.tcp else None,
        )


class Host:
    """The host as seen by a process in it."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self.cpus = sorted(os.sched_getaffinity(0))
        """Which it may use."""
        self.quota = find_quota(*read_own(proc))

    @property
    def allowed(self) -> float:
        """How many CPUs' time it may use."""
        return min(len(self.cpus), self.quota.cpus) if self.quota else float(len(self.cpus))

    def count(self) -> HostCount:
        """What it has used so far."""
        tcp = tcp_counters(self._proc)
        used = self._of_quota()
        if used is None:
            ticks = cpu_ticks(self.cpus, self._proc / "stat").busy
            return HostCount(ticks / os.sysconf("SC_CLK_TCK"), None, None, tcp)
        return used._replace(tcp=tcp)

    def _of_quota(self) -> HostCount | None:
        if self.quota is None:
            return None
        stat = parse_stat(text_of(self.quota.folder / "cpu.stat"))
        used = seconds_used(text_of(self.quota.usage))
        if used is None:
            return None
        return HostCount(used, stat.get("nr_periods"), stat.get("nr_throttled"), None)


def read_own(proc: Path = Path("/proc")) -> tuple[str, str]:
    """This process' cgroup and mountinfo: which groups it is in, and where they can be seen."""
    return text_of(proc / "self/cgroup"), text_of(proc / "self/mountinfo")


def find_quota(cgroup: str, mountinfo: str) -> Quota | None:
    """The innermost quota that counts for a process with this /proc/self/cgroup and mountinfo."""
    for version, folder in own_folders("cpu", cgroup, mountinfo):
        cpus = _v1_cpus(folder) if version == V1 else _v2_cpus(folder)
        usage = folder / "cpu.stat"
        if version == V1:
            usage = _usage_beside(parse_mounts(mountinfo), folder)
        if cpus is not None and usage.exists():
            return Quota(version, folder, usage, cpus)
    return None


def parse_cgroup(text: str) -> list[tuple[frozenset[str], str]]:
    """/proc/self/cgroup: which group we are in, for each hierarchy: its controllers (none: version
    2), the path of the group."""
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    return [(frozenset(filter(None, names.split(","))), path) for _, names, path in lines]


def parse_mounts(text: str) -> list[Mount]:
    """The hierarchies in /proc/self/mountinfo."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and kind and kind[0] in ("cgroup", "cgroup2"):
            version = V2 if kind[0] == "cgroup2" else V1
            point = fields[4].replace("\\040", " ")
            controllers = frozenset(kind[-1].split(","))
            found.append(Mount(Path(point), fields[3], version, controllers))
    return found


def own_folders(controller: str, cgroup: str, mountinfo: str) -> Iterator[tuple[str, Path]]:
    """The groups that a process with this /proc/self/cgroup and mountinfo is in: version and
    folder, innermost first. Those of version 2, and of the hierarchy of version 1 that has this
    controller; "": none of version 1."""
    mounts = parse_mounts(mountinfo)
    for controllers, path in parse_cgroup(cgroup):
        version = V1 if controllers else V2
        if not controllers or controller in controllers:
            yield from ((version, folder) for folder in _folders(mounts, version, controller, path))


def _folders(mounts: list[Mount], version: str, controller: str, path: str) -> Iterator[Path]:
    """The folders of a group and of all above it, as far as they can be seen, innermost first."""
    for mount in mounts:
        if mount.version != version or (version == V1 and controller not in mount.controllers):
            continue
        try:
            below = PurePosixPath(path).relative_to(mount.root)
        except ValueError:
            continue  # another part of the hierarchy is mounted there
        for part in (below, *below.parents):
            yield mount.point / part


def parse_stat(text: str) -> dict[str, int]:
    """cpu.stat: names and numbers."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def seconds_used(text: str) -> float | None:
    """CPU time in version 2's cpu.stat (microseconds) or in cpuacct.usage (nanoseconds)."""
    if text.strip().isdigit():
        return int(text) / 1e9
    used = parse_stat(text).get("usage_usec")
    return None if used is None else used / 1e6


def _v1_cpus(folder: Path) -> float | None:
    quota = text_of(folder / "cpu.cfs_quota_us").strip()
    period = text_of(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _v2_cpus(folder: Path) -> float | None:
    words = text_of(folder / "cpu.max").split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else None


def _usage_beside(mounts: list[Mount], folder: Path) -> Path:
    """The same group's cpuacct.usage: in the same folder where the two are mounted together."""
    together = folder / "cpuacct.usage"
    if together.exists():
        return together
    own = next(m for m in mounts if m.version == V1 and folder.is_relative_to(m.point))
    other = next((m for m in mounts if m.version == V1 and "cpuacct" in m.controllers), own)
    return other.point / folder.relative_to(own.point) / "cpuacct.usage"


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
