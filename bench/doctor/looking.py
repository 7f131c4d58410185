# SPDX-License-Identifier: MIT
"""Reads the facts about this machine that the doctor checks."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.host import kernel
from bench.host.accounting import parent_of_groups
from bench.host.kernel import text_of
from bench.host.programs import output_of
from bench.host.quota import read_limits
from bench.load import ab, wrk
from bench.load import open_loop as oha
from bench.records.environment import SystemLimits

BUSY_SECONDS = 0.5


@dataclass(frozen=True)
class Facts:
    """The facts about the machine, without its limits. None: unknown."""

    cpus: int
    governors: tuple[str, ...] = ()
    """The frequency governors in use, each once; empty if the kernel shows none."""
    busy: float | None = None
    """The share of all CPUs that other programs use."""
    busiest: str = ""
    """The process that uses most: `1234 (name)`."""
    time_wait: int | None = None
    conntrack: tuple[int, int] | None = None
    """Tracked connections: now, at most. None: not tracked."""
    ab: str | None = None
    redis_server: str | None = None
    redis: Mapping[str, str | int | None] | None = None
    """Settings of an existing Redis; None: a private one will be started."""
    redis_url: str = ""
    oha: str | None = None
    groups: Path | None = None


def limits_here() -> SystemLimits:
    """Return this machine's limits, with that of ab if it is installed."""
    return read_limits(ab.concurrency_ceiling() if shutil.which("ab") else None)


def require_tools(open_loop: bool, by_wrk: bool) -> None:
    """Raise UserError if a load generator is not installed; `open_loop`: oha is needed."""
    ab.require_ab()
    if by_wrk:
        wrk.require_wrk()
    if open_loop:
        oha.require_oha()


def look() -> Facts:
    """Return the facts about this machine. Measures the load of other programs for 0.5 s."""
    busy, busiest = other_load()
    return Facts(
        cpus=len(os.sched_getaffinity(0)),
        governors=governors(),
        busy=busy,
        busiest=busiest,
        time_wait=resting.now if (resting := kernel.memory()) else None,
        conntrack=conntrack(),
        ab=ab.version(),
        redis_server=redis_server_version(),
        oha=oha.version(),
        groups=parent_of_groups(),
    )


def governors(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """Return the frequency governors in use, each once."""
    found = {text_of(file).strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return tuple(sorted(found - {""}))


def other_load() -> tuple[float, str]:
    """Return the busy share of all CPUs, and the process that uses most: `1234 (name)`."""
    before = _process_times()
    busy = psutil.cpu_percent(BUSY_SECONDS) / 100
    after = _process_times()
    used = {pid: after[pid][1] - before[pid][1] for pid in before.keys() & after.keys()}
    used.pop(os.getpid(), None)
    most = max(used, key=lambda pid: used[pid], default=None)
    return busy, f"{most} ({after[most][0]})" if most and used[most] > 0 else ""


def _process_times() -> dict[int, tuple[str, float]]:
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times:
            found[process.pid] = (process.info["name"], times.user + times.system)
    return found


def conntrack(folder: Path = Path("/proc/sys/net/netfilter")) -> tuple[int, int] | None:
    """Return the tracked connections now and their maximum; None if the kernel tracks none."""
    now = text_of(folder / "nf_conntrack_count").strip()
    most = text_of(folder / "nf_conntrack_max").strip()
    return (int(now), int(most)) if now.isdigit() and most.isdigit() else None


def redis_server_version() -> str | None:
    """Return the version of the installed redis-server; None if there is none."""
    match = re.search(r"v=(\S+)", output_of(["redis-server", "--version"]))
    return f"redis-server {match[1]}" if match else None
