# SPDX-License-Identifier: MIT
"""Limit a host to a share of one CPU with control groups (version 2 or 1), or only to one CPU with
affinity.

A host's group is zerohttpd-lab/LAB/HOST in the machine's hierarchy. With version 1, the group is in
the hierarchies cpu, cpuacct and cpuset, and in a mounted hierarchy of version 2. Only groups with
this path are removed.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from lab import kernel
from lab.plan import LabError, LabHost

TOP = "zerohttpd-lab"

PERIOD_US = 10_000
"""The period of a quota. A host that has used its share must wait until the period ends."""
LONG_PERIOD_US = 100_000
"""The period for shares below 10 %, because the smallest quota is 1 ms per period."""

REMOVE_SECONDS = 20.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of control groups."""

    mounted_on: Path
    version: int
    controllers: frozenset[str]


def limit(lab: str, hosts: list[LabHost]) -> tuple[str, str, dict[str, list[str]]]:
    """Make the groups of a lab's hosts. Return the method, the reason if no control group can limit
    hosts, and the groups' folders for each host. If the lab's own groups cannot be made, the hosts
    are limited by affinity alone."""
    by, used, reason = _choose(hierarchies())
    try:
        for hierarchy in used:
            _prepare(hierarchy, lab)
    except OSError as error:
        by, used = "affinity only", []
        reason = f"control groups failed: {error.strerror} ({error.filename})"
    return by, reason, {host.name: [_limit(one, lab, host) for one in used] for host in hosts}


def join(groups: list[str], cpu: int) -> None:
    """Apply the limits of a host to this process and its later children."""
    for group in groups:
        _write(Path(group, "cgroup.procs"), "0")
    os.sched_setaffinity(0, {cpu})


def hierarchies() -> list[Hierarchy]:
    """Return the hierarchies of control groups that are mounted here."""
    found = {}
    for path, kind, options in kernel.mounts():
        if kind == "cgroup2":
            names = (path / "cgroup.controllers").read_text().split()
            found[path] = Hierarchy(path, 2, frozenset(names))
        elif kind == "cgroup":
            found[path] = Hierarchy(path, 1, frozenset(options.split(",")))
    return list(found.values())


def left_over(lab: str) -> list[Path]:
    """Return the existing groups of a lab in all hierarchies."""
    paths = [hierarchy.mounted_on / TOP / lab for hierarchy in hierarchies()]
    return [path for path in paths if path.is_dir()]


def processes_in(group: Path) -> list[int]:
    """Return the PIDs in a group and in the groups below it."""
    return [
        int(pid)
        for folder, _, _ in os.walk(group)
        for pid in Path(folder, "cgroup.procs").read_text().split()
    ]


def remove(group: Path) -> None:
    """Remove a lab's group and all groups below it, including groups that a host has made."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while group.is_dir():
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()
        except OSError as error:
            # A process that has just ended stays in its group for a short time.
            if time.monotonic() > deadline:
                raise LabError(f"cannot remove {error.filename}: {error.strerror}") from error
            time.sleep(0.02)


def remove_empty_tops() -> None:
    """Remove the parent group of all labs from each hierarchy in which it is empty."""
    for hierarchy in hierarchies():
        top = hierarchy.mounted_on / TOP
        if top.is_dir() and not any(entry.is_dir() for entry in top.iterdir()):
            top.rmdir()


def _choose(found: list[Hierarchy]) -> tuple[str, list[Hierarchy], str]:
    """Return the name of the method, its hierarchies, and the reason if no control group can limit
    hosts."""
    writable = [one for one in found if os.access(one.mounted_on, os.W_OK)]
    for one in writable:
        if one.version == 2 and "cpu" in one.controllers:
            return "cgroup v2", [one], ""
    wanted = {"cpu", "cpuacct", "cpuset"}
    used = [one for one in writable if one.version == 1 and one.controllers & wanted]
    if any("cpu" in one.controllers for one in used):
        # Version 2 without controllers limits nothing, but counts CPU time: the benchmark on a host
        # measures servers with groups below the host's group.
        return "cgroup v1", used + [one for one in writable if one.version == 2][:1], ""
    reason = "no writable control groups with the cpu controller here"
    return "affinity only", [], reason


def _prepare(hierarchy: Hierarchy, lab: str) -> None:
    """Make the lab's group, in which groups of hosts can be made."""
    top = hierarchy.mounted_on / TOP
    for group in (hierarchy.mounted_on, top, top / lab):
        group.mkdir(exist_ok=True)
        if hierarchy.version == 2:
            switch = group / "cgroup.subtree_control"
            enabled = switch.read_text().split()
            missing = sorted(({"cpu", "cpuset"} & hierarchy.controllers).difference(enabled))
            if missing:
                _write(switch, " ".join(f"+{name}" for name in missing))
        elif "cpuset" in hierarchy.controllers and group != hierarchy.mounted_on:
            # A new group has no CPUs and no memory nodes, so no process can enter it.
            for name in ("cpuset.cpus", "cpuset.mems"):
                _write(group / name, (group.parent / name).read_text())


def _write(file: Path, text: str) -> None:
    """Write into a kernel file. Raises OSError with the path, which `write_text` omits."""
    try:
        file.write_text(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _limit(hierarchy: Hierarchy, lab: str, host: LabHost) -> str:
    """Make the group of a host in the lab's group, set its limits, and return its folder."""
    group = hierarchy.mounted_on / TOP / lab / host.name
    group.mkdir()
    if (group / "cpuset.cpus").exists():
        _write(group / "cpuset.cpus", str(host.cpu))
        if hierarchy.version == 1:
            _write(group / "cpuset.mems", (group.parent / "cpuset.mems").read_text())
            # Groups below this group must inherit its CPUs to be usable.
            _write(group / "cgroup.clone_children", "1")
    if host.share is not None:
        period = PERIOD_US if host.share >= 10 else LONG_PERIOD_US
        quota = period * host.share // 100
        if (group / "cpu.max").exists():
            _write(group / "cpu.max", f"{quota} {period}")
        elif (group / "cpu.cfs_quota_us").exists():
            _write(group / "cpu.cfs_period_us", str(period))
            _write(group / "cpu.cfs_quota_us", str(quota))
    return str(group)
