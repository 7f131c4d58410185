# SPDX-License-Identifier: MIT
"""Reads the system limits that a benchmark can reach."""

import os
import resource
from pathlib import Path

from bench.host.kernel import text_of
from bench.host.quota import own_folders, read_own
from bench.records.environment import UNLIMITED, SystemLimits


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
    for _, folder in own_folders("pids", *read_own(proc)):
        value = _setting(folder / "pids.max", UNLIMITED)
        found.append((value, f"{folder}/pids.max", f"echo max | sudo tee {folder}/pids.max"))
    return found


def _unlimited(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value


def _setting(path: Path, default: int) -> int:
    text = text_of(path).strip()
    return int(text) if text.isdigit() else default
