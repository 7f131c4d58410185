# SPDX-License-Identifier: MIT
"""What the kernel counts for the whole machine: TCP's troubles, and how busy each CPU was."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class TcpCounters(NamedTuple):
    """Since the machine's (or network namespace's) start."""

    listen_overflows: int
    listen_drops: int
    retransmits: int
    time_wait_overflows: int

    def __sub__(self, other: "TcpCounters") -> "TcpCounters":
        return TcpCounters(*(a - b for a, b in zip(self, other, strict=True)))


class CpuTicks(NamedTuple):
    """Clock ticks of one or several CPUs."""

    idle: int
    total: int

    @property
    def busy(self) -> int:
        """All but the idle ones; those that the machine below us gave to others are in them."""
        return self.total - self.idle

    def busy_since(self, earlier: "CpuTicks") -> float | None:
        """The share of the time since then that was not idle; None if no tick has passed."""
        passed = self.total - earlier.total
        return None if passed <= 0 else 1 - (self.idle - earlier.idle) / passed


def tcp_counters(proc: Path = Path("/proc")) -> TcpCounters | None:
    """The counters now; None where the kernel does not have them."""
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
    """/proc/net/netstat and snmp: pairs of lines with the same first word, names and numbers."""
    found: dict[str, dict[str, int]] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found[names[0].rstrip(":")] = dict(
            zip(names[1:], (int(value) for value in values[1:]), strict=False)
        )
    return found


def cpu_ticks(cpus: Iterable[int], stat: Path = Path("/proc/stat")) -> CpuTicks:
    """The ticks of some CPUs together. Waiting for a disk counts as idle."""
    wanted = {f"cpu{number}" for number in cpus}
    idle = total = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name in wanted:
            ticks = [int(field) for field in fields[:8]]
            idle += ticks[3] + ticks[4]
            total += sum(ticks)
    return CpuTicks(idle, total)
