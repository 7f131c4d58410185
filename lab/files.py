# SPDX-License-Identifier: MIT
"""Mount the machine's files on a host: a read-only view with a private layer for changes.

The view and the layer are an overlay: a host reads the machine's files, and its first write to a
file makes a copy in memory that only this host sees. An overlay covers one file system without its
submounts, so each file system that hosts need has its own overlay.
"""

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from lab import kernel
from lab.limits import hierarchies
from lab.plan import LabPlan

LAYER_SIZE = "2g"
"""The limit of a host's changes to the machine's files. Only written data use memory."""
TEMPORARY_SIZE = "1g"

MACHINE = Path("/run/machine")
"""The mount point of the machine's root while a host is being set up."""

SYSTEM_FOLDERS = (
    *("/etc", "/home", "/opt", "/root", "/srv", "/usr", "/usr/local"),
    *("/var", "/var/cache", "/var/lib", "/var/log"),
)

OWN = ("/dev", "/proc", "/run", "/sys", "/tmp")
"""Each host has its own instance of these folders."""

FILE_SYSTEMS = ("btrfs", "exfat", "ext", "f2fs", "fuseblk", "nfs", "ntfs", "vfat", "xfs", "zfs")
"""The types of file systems that store files on a disk or a server begin with these words. `status`
lists mounts of these types that are missing on hosts."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class View(NamedTuple):
    """The mounts that a host gets in addition to `/`, and the mounts that are not visible there."""

    carried: list[str]
    unseen: list[str]


def view(plan: LabPlan) -> View:
    """Return this machine's mounts that a host gets, and those that are not visible there."""
    needed = {
        *SYSTEM_FOLDERS,
        plan.project,
        plan.home,
        *(os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)),
    }
    found = ((str(path), kind) for path, kind, _ in kernel.mounts())
    mounts = {path: kind for path, kind in found if path != "/" and _is_plain(path)}
    carried = {path for path in mounts if any(_within(folder, path) for folder in needed)}
    if not _is_plain(plan.project):
        # A host has its own folders OWN, so a project in one of them, e.g. /tmp, must be added.
        carried.add(plan.project)
    stored = {path for path, kind in mounts.items() if kind.startswith(FILE_SYSTEMS)}
    return View(sorted(carried), sorted(filter(os.path.isdir, stored - carried)))


def make_root(stage: str) -> Path:
    """Mount the overlay of `/`, with a new /run. Return the overlay's path."""
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("tmpfs", stage, "tmpfs", options=f"size={LAYER_SIZE},mode=755")
    root = Path(stage, "root")
    root.mkdir()
    _overlay("/", root, Path(stage))
    _tmpfs(root / "run", "size=64m,mode=755")
    (root / MACHINE.relative_to("/")).mkdir()
    return root


def fill_root(stage: str, groups: list[str], carried: list[str]) -> list[str]:
    """After the change of root, make all other mounts. Return the read-only folders."""
    kernel.mount("proc", "/proc", "proc", kernel.NO_SET_UID | kernel.NO_DEVICES | kernel.NO_EXEC)
    _protect_settings()
    kernel.mount("sysfs", "/sys", "sysfs", kernel.READ_ONLY | kernel.NO_SET_UID | kernel.NO_EXEC)
    _show_groups(groups)
    _make_devices()
    _tmpfs("/tmp", f"size={TEMPORARY_SIZE},mode=1777")
    read_only = []
    for folder in carried:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lower = MACHINE / folder.lstrip("/")
        try:
            _overlay(str(lower), folder, MACHINE / stage.lstrip("/"))
        except OSError:
            # Some file systems, such as vfat, cannot be the lower layer.
            kernel.mount(str(lower), folder, flags=kernel.BIND)
            _remount(folder, kernel.READ_ONLY)
            read_only.append(folder)
    return read_only


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _is_plain(path: str) -> bool:
    return not any(_within(path, own) for own in OWN)


def _overlay(lower: str, target: str | Path, stage: Path) -> None:
    """Mount an overlay of the folder `lower` on `target`. Changes are stored in `stage`."""
    number = len(list(stage.glob("changes*")))
    changes, work = stage / f"changes{number}", stage / f"work{number}"
    changes.mkdir()
    work.mkdir()
    escaped = re.sub(r"([\\:,])", r"\\\1", lower)
    options = f"lowerdir={escaped},upperdir={changes},workdir={work}"
    kernel.mount("overlay", target, "overlay", options=options)


def _tmpfs(target: str | Path, options: str) -> None:
    kernel.mount("tmpfs", target, "tmpfs", kernel.NO_SET_UID | kernel.NO_DEVICES, options)


def _remount(target: str | Path, flags: int) -> None:
    kernel.mount("none", target, flags=kernel.REMOUNT | kernel.BIND | flags)


def _protect_settings() -> None:
    """Make /proc/sys read-only, except /proc/sys/net, which belongs to the host."""
    kernel.mount("/proc/sys", "/proc/sys", flags=kernel.BIND)
    _remount("/proc/sys", kernel.READ_ONLY)
    kernel.mount("/proc/sys/net", "/proc/sys/net", flags=kernel.BIND)
    _remount("/proc/sys/net", 0)


def _show_groups(groups: list[str]) -> None:
    """Mount the machine's control groups read-only, and the host's groups writable."""
    top = Path("/sys/fs/cgroup")
    if not (MACHINE / "sys/fs/cgroup").is_dir():
        return
    kernel.mount(f"{MACHINE}/sys/fs/cgroup", top, flags=kernel.BIND | kernel.RECURSIVE)
    for hierarchy in hierarchies():
        if hierarchy.mounted_on.is_relative_to(top):
            _remount(hierarchy.mounted_on, kernel.READ_ONLY)
    for group in groups:
        if Path(group).is_relative_to(top):
            kernel.mount(group, group, flags=kernel.BIND)
            _remount(group, 0)


def _make_devices() -> None:
    _tmpfs("/dev", "size=1m,mode=755")
    for name in DEVICES:
        Path("/dev", name).touch()
        kernel.mount(f"{MACHINE}/dev/{name}", f"/dev/{name}", flags=kernel.BIND)
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir()
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.NO_SET_UID | kernel.NO_EXEC, options)
    _tmpfs("/dev/shm", "size=256m,mode=1777")
    for link, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        Path("/dev", link).symlink_to(target)
