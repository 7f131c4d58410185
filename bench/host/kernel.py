# SPDX-License-Identifier: MIT
"""Reads the kernel's counters of the machine and of tasks."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

Reading = TypeVar("Reading")


def difference(after: Reading, before: Reading) -> Reading:
    """Return the difference of two readings of counters. A reading is a number, or a tuple or list
    of readings. An item of the result is None if it is None in one of the two readings."""
    last: Any = after
    first: Any = before
    if last is None or first is None:
        return cast("Reading", None)
    if isinstance(last, (tuple, list)):
        items, kind = map(difference, last, first), type(last)
        return cast("Reading", kind(*items) if hasattr(last, "_fields") else kind(items))
    return cast("Reading", last - first)


class TcpCounters(NamedTuple):
    """TCP counters since the start of the machine or network namespace."""

    listen_overflows: int
    listen_drops: int
    retransmits: int
    time_wait_overflows: int


class CpuTicks(NamedTuple):
    """Clock ticks of one or several CPUs."""

    idle: int
    total: int

    @property
    def busy(self) -> int:
        """Return all ticks except idle ticks, including ticks that the hypervisor took."""
        return self.total - self.idle

    @property
    def busy_share(self) -> float | None:
        """Return the share of ticks that are not idle; None if there are no ticks."""
        return self.busy / self.total if self.total > 0 else None


def tcp_counters(proc: Path = Path("/proc")) -> TcpCounters | None:
    """Return the current TCP counters; None if the kernel does not have them."""
    try:
        extended = parse_table((proc / "net/netstat").read_text()).get("TcpExt", {})
        basic = parse_table((proc / "net/snmp").read_text()).get("Tcp", {})
        return TcpCounters(
            extended["ListenOverflows"],
            extended["ListenDrops"],
            basic["RetransSegs"],
            extended["TCPTimeWaitOverflow"],
        )
    except (OSError, KeyError, ValueError):
        return None


def parse_table(text: str) -> dict[str, dict[str, int]]:
    """Parse /proc/net/netstat or snmp: a line with names, then a line with their numbers."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {
        names[0].rstrip(":"): dict(zip(names[1:], map(int, values[1:]), strict=False))
        for names, values in zip(lines[::2], lines[1::2], strict=False)
    }


def cpu_ticks(cpus: Iterable[int], stat: Path = Path("/proc/stat")) -> CpuTicks:
    """Return the sum of the ticks of some CPUs. Waiting for a disk counts as idle."""
    wanted = {f"cpu{number}" for number in cpus}
    idle = total = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name in wanted:
            ticks = [int(field) for field in fields[:8]]
            idle += ticks[3] + ticks[4]
            total += sum(ticks)
    return CpuTicks(idle, total)


def text_of(path: Path, default: str = "") -> str:
    """Return the content of a kernel file, or `default` if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return default


def task_folders(pid: int) -> list[Path]:
    """Return /proc/PID/task/TID for each thread of a process; empty if the process has ended."""
    try:
        return list(Path("/proc", str(pid), "task").iterdir())
    except OSError:
        return []


def stat_fields(folder: Path) -> list[str]:
    """Return the fields of `stat` in the folder of a process or thread, beginning with `state`, see
    proc_pid_stat(5). The field before `state`, the program's name, may contain any character."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def demands(pid: int) -> dict[Path, float]:
    """Return for each task of a process the seconds for which it ran or waited for a CPU, by its
    folder. Between the end of the process and its reaping, only its first task is known."""
    found = {}
    for folder in task_folders(pid):
        with contextlib.suppress(OSError, ValueError):  # a thread that has just ended
            ran, waited, *_ = (folder / "schedstat").read_text().split()
            found[folder] = (int(ran) + int(waited)) / 1e9
    return found


def demand_seconds(pid: int) -> float | None:
    """Return the largest value of `demands`; None if unknown."""
    return max(demands(pid).values(), default=None)
