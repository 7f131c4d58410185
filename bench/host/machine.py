# SPDX-License-Identifier: MIT
"""Describes this machine for the results, and assigns its CPUs to server and load."""

import os
import platform
import re
import resource
from collections.abc import Iterable
from pathlib import Path

import psutil

from bench.host.kernel import text_of
from bench.host.programs import output_of
from bench.host.quota import Host
from bench.records.environment import HostInfo, Machine, Placement

SETTINGS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
)
"""Settings of the kernel that decide how many connections a host can take."""


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


def describe_host(host: Host) -> HostInfo:
    """Return this host as one of several. The caller sets its role, name and address."""
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
    """Return the name of the processor or board. On ARM most kernels print numbers only, but lscpu
    has many names. Without a name (virtual machines hide it) return the architecture."""
    named = re.search(r"^(?:model name|Hardware|Model)\s*:\s*(.+)$", cpuinfo, re.M)
    said = "" if named else output_of(["env", "LC_ALL=C", "lscpu"])
    found = named or re.search(r"^\s*Model name:\s*(\w.*)$", said, re.M)
    return found[1] if found else platform.machine()


# CPU placement: the server has one CPU alone; ab, Redis and nginx share the others. Each instance
# of the server gets its own CPU, as long as one is left for the others.


def place(available: Iterable[int], instances: int = 1) -> Placement:
    """Divide the CPUs that this process may use between up to `instances` servers and the load."""
    cpus = sorted(available)
    if len(cpus) < 2:
        return Placement(
            server=[],
            load=[],
            note="one CPU only: server, ab and Redis share it, which slows every server down",
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
