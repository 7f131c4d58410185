# SPDX-License-Identifier: MIT
"""What the kernel counts for the whole machine, and what it remembers."""

import re
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.host.signals import SignalWatch


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


def text_of(path: Path, default: str = "") -> str:
    """A file of the kernel's, or what stands for one that is not there."""
    try:
        return path.read_text()
    except OSError:
        return default


def raise_descriptors() -> None:
    """Let this process and its children have as many descriptors as the hard limit allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ---- Room in the kernel's memory for connections that have ended ----
#
# Whoever closes a connection first keeps it in TIME_WAIT (RFC 9293 section 3.6.1), on Linux for
# 60 s, so that a segment that the other side repeats is met by somebody who knows the connection.
# Linux keeps `tcp_max_tw_buckets` of them (ip-sysctl.rst) and forgets all further ones at once. A
# client that is still reading and whose kernel then acknowledges something twice is reset. That
# is how ab comes to "exceptions": it throws the response away, and waits for it until its time is
# over. With room for 1,000 on a busy machine 13 of 40 runs for an 80 KB file failed so (500
# connections, 5,000 requests), and none of 40 for the redirect, whose answer is one segment.

REST_SECONDS = 60
"""TIME_WAIT on Linux: TCP_TIMEWAIT_LEN, which nothing changes."""
LOOK_SECONDS = 0.5


class Memory(NamedTuple):
    """Of ended connections, in numbers of them."""

    now: int
    at_most: int


def memory(proc: Path = Path("/proc")) -> Memory | None:
    """Of this network namespace; None where the kernel does not say."""
    now = re.search(r"^TCP:.* tw (\d+)", text_of(proc / "net/sockstat"), re.MULTILINE)
    at_most = text_of(proc / "sys/net/ipv4/tcp_max_tw_buckets").strip()
    return Memory(int(now[1]), int(at_most)) if now and at_most.isdigit() else None


def wait_for_room(connections: int, watch: SignalWatch, proc: Path = Path("/proc")) -> None:
    """Wait until the kernel can remember the end of so many more connections, for as long as it
    remembers one at most. Where it could not even with an empty memory: not at all. May raise
    Interrupted."""
    left = float(REST_SECONDS)
    while left > 0:
        found = memory(proc)
        if not found or connections > found.at_most or found.now + connections <= found.at_most:
            return
        watch.sleep(LOOK_SECONDS)
        left -= LOOK_SECONDS
