# SPDX-License-Identifier: MIT
"""Describes this machine for the results, assigns its CPUs to server and load, and reads the limits
that a benchmark can reach, such as the CPU time that this host may use.

Two limits apply to CPU time: the quota of this process's control group, and the number of CPUs on
which the process may run. A quota is CPU time per period, e.g. 15 ms in each 100 ms. If a group has
used its quota, the kernel stops (throttles) its processes until the next period. The kernel counts
the throttled periods; this count shows most reliably that a host was at its limit.
"""

import os
import platform
import re
import resource
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

from bench.host.kernel import TcpCounters, cpu_ticks, tcp_counters, text_of
from bench.host.project import output_of
from bench.records.environment import UNLIMITED, HostInfo, Machine, Placement, SystemLimits

SETTINGS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
)
"""Settings of the kernel that limit the number of connections of a host."""


def describe_machine() -> Machine:
    """Return hardware, kernel and load of this machine."""
    return Machine(
        system=_system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu_model=cpu_model(Path("/proc/cpuinfo").read_text()),
        cpus=os.cpu_count(),
        memory_bytes=psutil.virtual_memory().total,
        load_average_at_start=[round(value, 2) for value in os.getloadavg()],
    )


def describe_host(host: "Host") -> HostInfo:
    """Return the description of this host. The caller sets its role, name and address."""
    quota = host.quota
    return HostInfo(
        role="server",
        name="",
        address="",
        kernel=platform.release(),
        cpu_model=cpu_model(Path("/proc/cpuinfo").read_text()),
        cpus=len(host.cpus),
        cpu_limit=round(quota.cpus, 4) if quota else None,
        limited_by=quota.version if quota else "",
        memory_mb=round(psutil.virtual_memory().total / 1e6),
        settings={
            **{name: _kernel_setting(name) for name in SETTINGS},
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        },
    )


def _kernel_setting(name: str) -> str | int | None:
    text = text_of(Path("/proc/sys", *name.split("."))).split()
    if len(text) == 1 and text[0].isdigit():
        return int(text[0])
    return " ".join(text) or None


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def cpu_model(cpuinfo: str) -> str:
    """Return the name of the processor or board. On ARM, most kernels print only numbers, but lscpu
    has many names. Without a name (virtual machines may hide it), return the architecture."""
    named = re.search(r"^(?:model name|Hardware|Model)\s*:\s*(.+)$", cpuinfo, re.M)
    said = "" if named else output_of(["env", "LC_ALL=C", "lscpu"])
    found = named or re.search(r"^\s*Model name:\s*(\w.*)$", said, re.M)
    return found[1] if found else platform.machine()


# CPU placement: each instance of the server has its own CPU, if at least one CPU remains for ab,
# Redis and nginx, which share the other CPUs.


def place(available: Iterable[int], instances: int = 1) -> Placement:
    """Divide the `available` CPUs: up to `instances` for servers, all others for the load. With one
    CPU, both lists are empty."""
    cpus = sorted(available)
    if len(cpus) < 2:
        return Placement(
            server=[],
            load=[],
            note="one CPU only: server, ab and Redis share it, which slows down every server",
        )
    split = min(instances, len(cpus) - 1)
    server, load = cpus[:split], cpus[split:]
    return Placement(
        server=server,
        load=load,
        note=f"server on CPU {_list(server)}; ab and Redis on CPU {_list(load)}",
    )


def place_here(instances: int = 1) -> Placement:
    """Return the placement on this machine, and move this process to the CPUs of the load."""
    placement = place(os.sched_getaffinity(0), instances)
    if placement.load:
        os.sched_setaffinity(0, placement.load)
    return placement


def _list(cpus: Iterable[int]) -> str:
    return ", ".join(map(str, cpus))


# ---- Limits ----


def read_limits(ab_ceiling: int | None = None, proc: Path = Path("/proc")) -> SystemLimits:
    """Read the limits of this machine."""
    net = proc / "sys/net"
    tasks, name, fix = min(_task_limits(proc))
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
        tasks_fix=fix,
        ab_ceiling=ab_ceiling,
    )


def usable_ports(port_range: str, reserved: str) -> int:
    """Return the number of ports in `ip_local_port_range` without `ip_local_reserved_ports`."""
    low, high = (int(word) for word in port_range.split())
    taken: set[int] = set()
    for part in filter(None, reserved.strip().split(",")):
        first, _, last = part.partition("-")
        taken.update(range(int(first), int(last or first) + 1))
    return high - low + 1 - sum(low <= port <= high for port in taken)


def _task_limits(proc: Path) -> list[tuple[int, str, str]]:
    """Return each limit of processes and threads: value, name, and the command that raises it."""
    # RLIMIT_NPROC does not apply to root.
    user = _unlimited(resource.getrlimit(resource.RLIMIT_NPROC)[1]) if os.geteuid() else UNLIMITED
    found = [(user, "ulimit -u", "sudo prlimit --pid $$ --nproc=unlimited:unlimited")]
    for name, enough in (("threads-max", 100_000), ("pid_max", 4_194_304)):
        value = _setting(proc / "sys/kernel" / name, UNLIMITED)
        found.append((value, f"kernel.{name}", f"sudo sysctl -w kernel.{name}={enough}"))
    for _, folder in own_folders("pids", *read_own(proc)):
        value = _setting(folder / "pids.max", UNLIMITED)
        found.append((value, f"{folder}/pids.max", f"echo max | sudo tee {folder}/pids.max"))
    return found


def _unlimited(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value


def _setting(path: Path, default: int) -> int:
    text = text_of(path).strip()
    return int(text) if text.isdigit() else default


# ---- CPU time ----

V1, V2 = "cgroup v1", "cgroup v2"


@dataclass(frozen=True)
class Quota:
    """A control group with a quota."""

    version: str
    folder: Path
    usage: Path  # The file with the used CPU time: cpu.stat; in version 1 cpuacct.usage.
    cpus: float  # CPU time divided by real time: 0.15 is 15 % of one CPU.


class Mount(NamedTuple):
    """A mount of a hierarchy of control groups."""

    point: Path
    root: str  # The group that is mounted at `point`; "/": the top of the hierarchy.
    version: str
    controllers: frozenset[str]


class HostCount(NamedTuple):
    """The current counters of a host; None: unknown, or no quota."""

    cpu_s: float
    periods: int | None  # The number of the quota's periods in which a process ran.
    throttled: int | None
    tcp: TcpCounters | None


class Host:
    """The host on which this process runs."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self.cpus = sorted(os.sched_getaffinity(0))
        self.quota = find_quota(*read_own(proc))

    @property
    def allowed(self) -> float:
        """Return the CPU time that this host may use, in CPUs: 1.0 is one CPU."""
        return min(len(self.cpus), self.quota.cpus) if self.quota else float(len(self.cpus))

    def count(self) -> HostCount:
        """Return the current counters."""
        tcp = tcp_counters(self._proc)
        used = seconds_used(text_of(self.quota.usage)) if self.quota else None
        if self.quota is None or used is None:
            ticks = cpu_ticks(self.cpus, self._proc / "stat").busy
            return HostCount(ticks / os.sysconf("SC_CLK_TCK"), None, None, tcp)
        stat = parse_stat(text_of(self.quota.folder / "cpu.stat"))
        return HostCount(used, stat.get("nr_periods"), stat.get("nr_throttled"), tcp)


def read_own(proc: Path = Path("/proc")) -> tuple[str, str]:
    """Return the texts of /proc/self/cgroup and mountinfo: this process's groups and mounts."""
    return text_of(proc / "self/cgroup"), text_of(proc / "self/mountinfo")


def find_quota(cgroup: str, mountinfo: str) -> Quota | None:
    """Return the innermost quota of a process with this /proc/self/cgroup and mountinfo."""
    for version, folder in own_folders("cpu", cgroup, mountinfo):
        if version == V1:
            cpus = _cpus(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")
            usage = _usage_next_to(parse_mounts(mountinfo), folder)
        else:
            cpus, usage = _cpus(folder, "cpu.max"), folder / "cpu.stat"
        if cpus is not None and usage.exists():
            return Quota(version, folder, usage, cpus)
    return None


def parse_cgroup(text: str) -> list[tuple[frozenset[str], str]]:
    """Parse /proc/self/cgroup: the controllers (none: version 2) and the path of each group."""
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    return [(frozenset(filter(None, names.split(","))), path) for _, names, path in lines]


def parse_mounts(text: str) -> list[Mount]:
    """Return the hierarchies in /proc/self/mountinfo."""
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
    """Yield the version and folder of each control group in these texts, the innermost first. In
    version 1, use only the hierarchy with `controller` ("": no hierarchy)."""
    mounts = parse_mounts(mountinfo)
    for controllers, path in parse_cgroup(cgroup):
        if controllers and controller not in controllers:
            continue
        version, group = V1 if controllers else V2, PurePosixPath(path)
        for mount in mounts:
            is_of_it = version == V2 or controller in mount.controllers
            # A mount with a different root may show a different part of the hierarchy.
            if mount.version == version and is_of_it and group.is_relative_to(mount.root):
                below = group.relative_to(mount.root)
                yield from ((version, mount.point / part) for part in (below, *below.parents))


def parse_stat(text: str) -> dict[str, int]:
    """Parse cpu.stat into names and numbers."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def seconds_used(text: str) -> float | None:
    """Return the seconds in cpu.stat (version 2) or cpuacct.usage (version 1); None: no number."""
    if text.strip().isdigit():
        return int(text) / 1e9
    used = parse_stat(text).get("usage_usec")
    return None if used is None else used / 1e6


def _cpus(folder: Path, *files: str) -> float | None:
    """Return the quota in CPUs, or None. `files`: the files with the CPU time and the period."""
    words = " ".join(text_of(folder / name) for name in files).split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else None


def _usage_next_to(mounts: list[Mount], folder: Path) -> Path:
    """Return the path of a group's cpuacct.usage, in the hierarchy `cpuacct`."""
    own = next(m for m in mounts if m.version == V1 and folder.is_relative_to(m.point))
    other = next((m for m in mounts if m.version == V1 and "cpuacct" in m.controllers), own)
    return other.point / folder.relative_to(own.point) / "cpuacct.usage"
