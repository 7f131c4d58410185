"""What a result must say about where it came from."""

import hashlib
import os
import platform
import re
import resource
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from bench import ab, open_loop
from bench.declared import find_program
from bench.measurement import HostInfo
from bench.quota import Host
from bench.servers import ROOT
from bench.subjects import Subject

SETTINGS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
)
"""Settings of the kernel that decide how many connections a host can take."""


def describe_machine() -> dict[str, Any]:
    """Hardware, kernel and load of this machine."""
    return {
        "system": _system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(Path("/proc/cpuinfo").read_text()),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average_at_start": [round(value, 2) for value in os.getloadavg()],
    }


def describe_host(host: Host) -> HostInfo:
    """This host as one of several. What it is there for, and its name, others know."""
    quota = host.quota
    return HostInfo(
        role="server",
        name="",
        address="",
        kernel=platform.release(),
        cpu_model=_cpu_model(Path("/proc/cpuinfo").read_text()),
        cpus=len(host.cpus),
        cpu_limit=round(quota.cpus, 4) if quota else None,
        limited_by=quota.version if quota else "",
        memory_mb=round(psutil.virtual_memory().total / 1e6),
        settings={
            **{name: _kernel_setting(name) for name in SETTINGS},
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        },
    )


def versions(redis_version: str) -> dict[str, Any]:
    """Versions of the tools and of this project, as each of them states it."""
    return {
        "ab": ab.version(),
        "oha": open_loop.version(),
        "redis": redis_version,
        "python": platform.python_version(),
        "git": git_state(),
    }


def versions_of(subjects: Iterable[Subject]) -> dict[str, dict[str, str | None]]:
    """Versions of the subjects and their compilers."""
    subjects = list(subjects)
    servers = [(s.name, s.executable) for s in subjects if s.kind == "server" and s.executable]
    return {
        "servers": {name: _first_line([str(path), "--version"]) for name, path in servers},
        "strangers": {s.name: stranger_version(s.name) for s in subjects if s.kind == "stranger"},
        "compilers": {name: compiler_of(path) for name, path in servers},
    }


def source_digest() -> str:
    """A short number that differs where the sources of the sweep or of the servers do."""
    digest = hashlib.sha256()
    for pattern in (
        "bench/*.py",
        "bench/floor/*",
        "lib/*/*.[ch]",
        "lib/*.h",
        "[0-9][0-9]_*/main.c",
    ):
        for file in sorted(ROOT.glob(pattern)):
            digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def git_state() -> dict[str, Any] | None:
    """The commit that is checked out, and whether files differ from it; None outside of git."""
    commit = _first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "HEAD"])
    if not commit:
        return None
    changed = _output(["git", "-C", str(ROOT), "status", "--porcelain"])
    return {"commit": commit, "changed_files": len(changed.splitlines())}


def compiler_of(executable: Path) -> str | None:
    """The compiler that a program was built with, from its own .comment section."""
    said = _output(["readelf", "--string-dump=.comment", str(executable)])
    names = re.findall(r"^\s+\[\s*[0-9a-f]+\]\s+(.+)$", said, re.MULTILINE)
    # A program built by clang also carries the gcc of the C library's start-up files.
    return next((name for name in names if "clang" in name), names[0] if names else None)


def stranger_version(name: str) -> str | None:
    """What `NAME -v` says, as nginx does, on standard error; None where it says nothing."""
    program = find_program(name)
    if program is None:
        return None
    try:
        done = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stderr or done.stdout).splitlines()
    return lines[0] if lines and done.returncode == 0 else None


def _kernel_setting(name: str) -> str | int | None:
    try:
        text = Path("/proc/sys", *name.split(".")).read_text().split()
    except OSError:
        return None
    return int(text[0]) if len(text) == 1 and text[0].isdigit() else " ".join(text)


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_model(cpuinfo: str) -> str:
    match = re.search(r"^(?:model name|Hardware|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1] if match else platform.processor() or "unknown"


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _first_line(command: list[str]) -> str | None:
    lines = _output(command).splitlines()
    return lines[0].strip() if lines else None
