# SPDX-License-Identifier: MIT
"""What the kernel counts for the whole machine, what it allows, what it remembers."""

import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.host.signals import SignalWatch
from bench.records.environment import UNLIMITED, SystemLimits


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


# ---- The limits that a benchmark runs into, as they are now ----


def read_limits(ab_ceiling: int | None = None, proc: Path = Path("/proc")) -> SystemLimits:
    """Read the limits of this machine."""
    net = proc / "sys/net"
    tasks, name, cure = min(_task_limits(proc))
    return SystemLimits(
        descriptors=_unlimited(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        somaxconn=_setting(net / "core/somaxconn", 128),
        syn_backlog=_setting(net / "ipv4/tcp_max_syn_backlog", 128),
        syn_cookies=_setting(net / "ipv4/tcp_syncookies", 1),
        ports=usable_ports(
            text_of(net / "ipv4/ip_local_port_range", "32768 60999"),
            text_of(net / "ipv4/ip_local_reserved_ports"),
        ),
        time_wait_reuse=_setting(net / "ipv4/tcp_tw_reuse", 0),
        time_wait_memory=_setting(net / "ipv4/tcp_max_tw_buckets", UNLIMITED),
        tasks=tasks,
        tasks_name=name,
        tasks_cure=cure,
        ab_ceiling=ab_ceiling,
    )


def raise_descriptors() -> None:
    """Let this process and its children have as many descriptors as the hard limit allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usable_ports(port_range: str, reserved: str) -> int:
    """How many ports `ip_local_port_range` leaves without `ip_local_reserved_ports`."""
    low, high = (int(word) for word in port_range.split())
    taken: set[int] = set()
    for part in filter(None, reserved.strip().split(",")):
        first, _, last = part.partition("-")
        taken.update(range(int(first), int(last or first) + 1))
    return high - low + 1 - sum(low <= port <= high for port in taken)


def _task_limits(proc: Path) -> list[tuple[int, str, str]]:
    """Every limit on processes and threads: its value, its name, and what raises it."""
    # The user's limit does not count for root.
    user = _unlimited(resource.getrlimit(resource.RLIMIT_NPROC)[1]) if os.geteuid() else UNLIMITED
    found = [
        (user, "ulimit -u", "sudo prlimit --pid $$ --nproc=unlimited:unlimited"),
        *(
            (_setting(proc / "sys/kernel" / name, UNLIMITED), f"kernel.{name}", cure)
            for name, cure in (
                ("threads-max", "sudo sysctl -w kernel.threads-max=100000"),
                ("pid_max", "sudo sysctl -w kernel.pid_max=4194304"),
            )
        ),
    ]
    for folder in cgroup_folders(text_of(proc / "self/cgroup")):
        value = _setting(folder / "pids.max", UNLIMITED)
        found.append((value, f"{folder}/pids.max", f"echo max | sudo tee {folder}/pids.max"))
    return found


def cgroup_folders(own_cgroups: str, mount: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """The folders, innermost first, whose `pids.max` counts for a process with these
    `/proc/self/cgroup` lines: cgroup v2, or the pids hierarchy of v1."""
    folders = []
    for line in own_cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            base = mount / controllers
            inner = base / path.lstrip("/")
            folders += [inner, *(p for p in inner.parents if p.is_relative_to(base))]
    return folders


def _unlimited(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value


def text_of(path: Path, default: str = "") -> str:
    """A file of the kernel's, or what stands for one that is not there."""
    try:
        return path.read_text()
    except OSError:
        return default


def _setting(path: Path, default: int) -> int:
    text = text_of(path).strip()
    return int(text) if text.isdigit() else default


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
