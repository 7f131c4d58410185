# SPDX-License-Identifier: MIT
"""A CPU quota for a server: a control group that limits the CPU time of its processes.

If each server has the same small quota and the load generator has more CPU time, the server is the
limit of a run, even with few CPUs. The quota has a short period: a server that has used it up is
stopped until the next period begins. Its group has the highest weight, so that it gets its quota
even if other processes use the same CPU.

There are three methods; the first that works is used:

- `systemd-run --user --scope`, if systemd allows users to set limits: it needs no privilege.
- A group of version 2, if the controller `cpu` is enabled for child groups of our group.
- A group in version 1's hierarchy `cpu`, and a group of version 2 from which CPU time is read.
"""

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.host.accounting import (
    Group,
    candidates,
    parent_of_groups,
    remove_group,
    remove_stale_groups,
)
from bench.host.kernel import text_of
from bench.host.programs import output_of
from bench.host.quota import V1, V2, own_folders, parse_mounts, parse_stat, read_own

PERIOD_US = 10_000
SCOPES = "systemd-run --user --scope"
TRY_SECONDS = 60.0
"""Time limit for systemd: it took 14 s on an emulated machine."""
_SHOW_MAX = 'cat "$0$(sed -n s/^0:://p /proc/self/cgroup)/cpu.max"'
"""For sh: print its own quota; $0: the mount point of version 2."""

_numbers = itertools.count(1)


class Periods(NamedTuple):
    """Counts of a quota's periods so far: those in which a process ran, and throttled ones."""

    all: int
    throttled: int

    def __sub__(self, other: "Periods") -> "Periods":
        return Periods(self.all - other.all, self.throttled - other.throttled)


class Slice(Group):
    """A control group with a quota for one server. Close it when the server has ended."""

    def __init__(self, parent: Path, quotas: Path, share: float) -> None:
        """Create the group. `share`: of one core; `quotas`: folder for the group with the quota, in
        version 2 the same as `parent`. May raise OSError."""
        super().__init__(parent)
        self._limited = quotas / self._folder.name
        try:
            self._limited.mkdir(exist_ok=True)
            _limit(self._limited, round(share * PERIOD_US))
        except OSError:
            self.close()
            raise

    def wrap(self, command: Sequence[str]) -> list[str]:
        """See `Group`."""
        inner = super().wrap(command)
        return inner if self._limited == self._folder else self._enter(self._limited, inner)

    def periods(self) -> Periods:
        """Return the counts of the quota's periods so far."""
        stat = parse_stat((self._limited / "cpu.stat").read_text())
        return Periods(stat["nr_periods"], stat["nr_throttled"])

    def close(self) -> None:
        """See `Group`."""
        super().close()
        remove_group(self._limited)


class Scope(Slice):
    """A group that systemd creates when the program starts and removes after its last process."""

    def __init__(self, mount: Path, share: float) -> None:
        """`mount`: the mount point of version 2; `share`: of one core."""
        self._mount, self._share = mount, share
        self._unit = f"zerohttpd-measure-{os.getpid()}-{next(_numbers)}.scope"
        self._found: Path | None = None

    @property
    def _folder(self) -> Path:  # type: ignore[override]  # known after the program's start
        if self._found is None:
            show = ["systemctl", "--user", "show", "--value", "-p", "ControlGroup", self._unit]
            said = output_of(show).strip()
            if not said:
                raise OSError(f"systemd does not know {self._unit}")
            self._found = self._mount / said.lstrip("/")
        return self._found

    @property
    def _limited(self) -> Path:  # type: ignore[override]
        return self._folder

    def wrap(self, command: Sequence[str]) -> list[str]:
        """See `Group`."""
        period = f"CPUQuotaPeriodSec={PERIOD_US}us"
        wanted = [f"CPUQuota={self._share:.0%}", period, "CPUWeight=10000", "CPUAccounting=yes"]
        limits = [word for one in wanted for word in ("-p", one)]
        return [*SCOPES.split(), "--quiet", "--collect", "-u", self._unit, *limits, "--", *command]

    def close(self) -> None:
        """See `Group`. If systemd does not know it, it was never created or is removed already."""
        with contextlib.suppress(OSError):
            super().close()


@dataclass(frozen=True)
class Slicing:
    """The method by which this host can set CPU quotas."""

    how: str
    """The method's name for readers."""
    parent: Path
    """The folder for accounting groups; for Scopes the mount point of version 2."""
    quotas: Path | None
    """The folder for groups with a quota. None: systemd creates them."""

    def slice(self, share: float) -> Slice:
        """Return a new group; `share`: of one core. May raise OSError."""
        return Slice(self.parent, self.quotas, share) if self.quotas else Scope(self.parent, share)

    def works(self) -> bool:
        """Return whether a program runs with a quota and the kernel counts its periods."""
        try:
            found = self.slice(0.5)
        except OSError:
            return False
        try:
            show = ["sh", "-c", _SHOW_MAX, str(self.parent)] if self.quotas is None else ["true"]
            done = subprocess.run(
                found.wrap(show), capture_output=True, text=True, timeout=TRY_SECONDS
            )
            if self.quotas is None:
                return done.stdout.split() == [str(PERIOD_US // 2), str(PERIOD_US)]
            return done.returncode == 0 and found.periods().all >= 0
        except (OSError, KeyError, subprocess.TimeoutExpired):
            return False
        finally:
            if self.quotas:
                found.close()


def find_slicing() -> Slicing | None:
    """Return the first method that works here; None if none does. Groups that are left over from a
    killed run are removed."""
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
