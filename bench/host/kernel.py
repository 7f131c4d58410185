# SPDX-License-Identifier: MIT
"""Reads the kernel's counters of the machine, of tasks, and of connections in TIME_WAIT."""

import contextlib
import re
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from bench.host.signals import SignalWatch

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
    found: dict[str, dict[str, int]] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found[names[0].rstrip(":")] = dict(
            zip(names[1:], (int(value) for value in values[1:]), strict=False)
        )
    return found


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


def raise_descriptors() -> None:
    """Raise the limit of descriptors of this process and its children to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ---- The kernel's memory of connections that have ended ----
#
# The side that closes a connection first keeps it in TIME_WAIT (RFC 9293 section 3.6.1), so that it
# can answer segments that the other side repeats. Linux keeps a connection for 60 s, and at most
# `tcp_max_tw_buckets` connections (ip-sysctl.rst); it drops further connections at once. A client
# that still reads then gets a reset when its kernel sends another acknowledgement. ab counts
# a reset as an "exception", discards the response, and waits until its timeout. On a busy machine
# with a limit of 1,000, 13 of 40 runs for an 80 KB file failed for this reason (500 connections,
# 5,000 requests). None of 40 runs for the redirect failed, because its response is one segment.

REST_SECONDS = 60
"""The time of TIME_WAIT on Linux: the constant TCP_TIMEWAIT_LEN."""
LOOK_SECONDS = 0.5


class Memory(NamedTuple):
    """The current and the maximum number of connections in TIME_WAIT."""

    now: int
    at_most: int


def memory(proc: Path = Path("/proc")) -> Memory | None:
    """Return the `Memory` of this network namespace; None if one of its numbers is unknown."""
    now = re.search(r"^TCP:.* tw (\d+)", text_of(proc / "net/sockstat"), re.MULTILINE)
    at_most = text_of(proc / "sys/net/ipv4/tcp_max_tw_buckets").strip()
    return Memory(int(now[1]), int(at_most)) if now and at_most.isdigit() else None


def wait_for_room(connections: int, watch: SignalWatch, proc: Path = Path("/proc")) -> None:
    """Wait, at most 60 s, until the kernel can keep `connections` more connections in TIME_WAIT. Do
    not wait if `connections` exceeds the kernel's limit or the limit is unknown. May raise
    Interrupted."""
    for _ in range(int(REST_SECONDS / LOOK_SECONDS)):
        found = memory(proc)
        if not found or connections > found.at_most or found.now + connections <= found.at_most:
            return
        watch.sleep(LOOK_SECONDS)
