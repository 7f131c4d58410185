# SPDX-License-Identifier: MIT
"""A slice of a core for a server: a control group with a quota of CPU time.

With the same slice for each, one that is small beside what the load generator has, it is the
server that limits a run, however few CPUs there are. The quota is for a short period: a server that
has used it up stands still until the next one begins. And it comes first (its group has the highest
weight), so that it gets its slice where others use that CPU, too.

Three ways, the first that works:

- `systemd-run --user --scope`, where systemd lets users limit what is theirs: no privilege is
  needed.
- A group of version 2, where the controller `cpu` is handed down to groups like ours.
- A group of version 1's hierarchy `cpu`, beside the one of version 2 that CPU time is read from.
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
"""Within which systemd answers, on a slow machine too: it took 14 s on one that was emulated."""
_SHOW_MAX = 'cat "$0$(sed -n s/^0:://p /proc/self/cgroup)/cpu.max"'
"""For sh: the quota that it runs under; $0: where version 2 is mounted."""

_numbers = itertools.count(1)


class Periods(NamedTuple):
    """Of a quota, so far: in how many anybody ran, in how many all was used up."""

    all: int
    throttled: int

    def __sub__(self, other: "Periods") -> "Periods":
        return Periods(self.all - other.all, self.throttled - other.throttled)


class Slice(Group):
    """A control group with a quota, for one server. Close it when the server is gone."""

    def __init__(self, parent: Path, quotas: Path, share: float) -> None:
        """`share`: of one core; `quotas`: where the group with the quota is made, which is
        `parent` itself in version 2. May raise OSError."""
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
        """What the quota has done so far."""
        stat = parse_stat((self._limited / "cpu.stat").read_text())
        return Periods(stat["nr_periods"], stat["nr_throttled"])

    def close(self) -> None:
        """See `Group`."""
        super().close()
        remove_group(self._limited)


class Scope(Slice):
    """The same, made by systemd when the program starts; it goes with its last process."""

    def __init__(self, mount: Path, share: float) -> None:
        """`mount`: of version 2."""
        self._mount, self._share = mount, share
        self._unit = f"zerohttpd-measure-{os.getpid()}-{next(_numbers)}.scope"
        self._found: Path | None = None

    @property
    def _folder(self) -> Path:  # type: ignore[override]  # known from the program's start on
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
        """See `Group`. One that systemd does not know was never made, or has gone by itself."""
        with contextlib.suppress(OSError):
            super().close()


@dataclass(frozen=True)
class Slicing:
    """How this host can give slices."""

    how: str
    """In words."""
    parent: Path
    """Of groups for accounting; of Scopes: where version 2 is mounted."""
    quotas: Path | None
    """Of groups with a quota. None: systemd makes them."""

    def slice(self, share: float) -> Slice:
        """A new one; `share`: of one core. May raise OSError."""
        return Slice(self.parent, self.quotas, share) if self.quotas else Scope(self.parent, share)

    def works(self) -> bool:
        """Whether a program runs in one, and the kernel counts its periods."""
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
    """The first way that works here; None if there is none. What a killed run left of it is
    removed."""
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
    """Give a group so many microseconds of CPU time in each period. May raise OSError."""
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        (folder / "cpu.weight").write_text("10000")
    else:
        (folder / "cpu.shares").write_text("262144")
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
