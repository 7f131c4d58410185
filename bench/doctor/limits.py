# SPDX-License-Identifier: MIT
"""Reads the facts about this machine, and compares its limits with what the runs need.

Each finding has the limit, its value, the needed value, and a command or advice. A sweep skips
impossible runs; for other findings it prints a warning before the first run.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.host import sockets
from bench.host.accounting import parent_of_groups
from bench.host.kernel import text_of
from bench.host.project import output_of
from bench.load.generators import AB, OHA, WRK
from bench.records.conditions import Role, RunSpec
from bench.records.environment import UNLIMITED, Finding, Limit, SystemLimits

SPARE_DESCRIPTORS = 64
"""The descriptors that ab and the servers need in addition to connections: standard input and
output, the listening socket, public/, templates/, Redis, and files that servers keep open."""

DROPPED = "excess connections are dropped; the client tries again after 1 s or more, or is reset"
SYN_COOKIES_OFF = 0
REUSE_NEVER, REUSE_ON_LOOPBACK = 0, 2
ACCEPT_QUEUE_FIX = "sudo sysctl -w net.core.somaxconn=65535"
TIME_WAIT_AMPLE = 600_000
"""Enough for 10,000 connections per second that stay in TIME_WAIT for 60 s each."""
TIME_WAIT_FIX = f"sudo sysctl -w net.ipv4.tcp_max_tw_buckets={TIME_WAIT_AMPLE}"

MATTER: dict[Role | None, set[Limit]] = {
    None: set(Limit),
    "load": {Limit.AB, Limit.DESCRIPTORS, Limit.PORTS, Limit.RESTING_PORTS},
    "nginx": set(Limit) - {Limit.AB, Limit.DESCRIPTORS, Limit.TASKS},
    "server": set(Limit) - {Limit.AB, Limit.PORTS, Limit.RESTING_PORTS},
    "redis": set(),
}
"""The relevant limits of a host, by its role. A host needs ports only if it opens connections for
the load, and an accept queue and TIME_WAIT entries only if it accepts them. The descriptor limit
does not matter for nginx, which gets more workers instead. None: everything runs on one machine."""


HostLimits = tuple[str, Role | None, SystemLimits]
"""The name, the role and the limits of a host."""


def assess(
    runs: Sequence[RunSpec], here: SystemLimits, hosts: Sequence[HostLimits] = ()
) -> list[Finding]:
    """Return the limits that are too low for the planned runs, first those that make runs
    impossible. `here`: the limits of this machine, which is the load host of `hosts`."""
    found = []
    every = [(f"{name}: ", role, here if role == "load" else of) for name, role, of in hosts]
    for name, role, limits in every or [("", None, here)]:
        of_role = [run for run in runs if role != "nginx" or run.conditions.balancer != "none"]
        for finding in judged(of_role, limits, role) if of_role else ():
            if finding.levels:
                found.append(finding.model_copy(update={"limit": f"{name}{finding.limit}"}))
    return sorted(found, key=lambda finding: not finding.impossible)


def why_impossible(run: RunSpec, findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding that makes a run impossible; None if the run is possible."""
    for finding in findings:
        held = run.of_ab if finding.about is Limit.AB else run.connections
        if finding.impossible and held in finding.levels:
            return finding
    return None


def judged(runs: Sequence[RunSpec], limits: SystemLimits, role: Role | None) -> Iterator[Finding]:
    """Yield a finding for each limit that matters for a role; no `levels`: the limit suffices."""
    for finding in (*_of_clients(runs, limits, role), *_of_servers(runs, limits, role)):
        if finding.about in MATTER[role]:
            yield finding


def _of_clients(
    runs: Sequence[RunSpec], limits: SystemLimits, role: Role | None
) -> Iterator[Finding]:
    """Yield a finding for each limit of the host that opens the connections."""
    levels = sorted({run.connections for run in runs})
    most, ports, ceiling = levels[-1], limits.ports, limits.ab_ceiling
    of_ab = sorted({run.of_ab for run in runs})
    yield Finding(
        about=Limit.AB,
        limit="concurrency of ab",
        have=number(ceiling),
        need=f"{of_ab[-1]:,}",
        levels=[level for level in of_ab if ceiling is not None and level > ceiling],
        impossible=True,
        consequence="ab rejects a higher concurrency",
        fix=f"choose levels up to {number(ceiling)} with --levels",
    )
    need = most + SPARE_DESCRIPTORS
    yield Finding(
        about=Limit.DESCRIPTORS,
        limit="open descriptors of a process",
        have=number(limits.descriptors),
        need=f"{need:,}",
        levels=[level for level in levels if level + SPARE_DESCRIPTORS > limits.descriptors],
        impossible=True,
        consequence="neither ab nor an event server can hold that many connections",
        fix=f"sudo prlimit --pid $$ --nofile={need}:{need}   (in this shell; then try again)",
    )
    none_left = [level for level in levels if level > ports]
    yield Finding(
        about=Limit.PORTS,
        limit="ports for outgoing connections (ip_local_port_range)",
        have=number(ports),
        need=f"{2 * most:,}, so that half are free",
        # connect() first tries every second port; if all these are in use, the search is slow.
        levels=none_left or [level for level in levels if level > ports // 2],
        impossible=bool(none_left),
        consequence="ab cannot open that many connections to one address"
        if none_left
        else "if over half of the ports are in use, the search for a free port slows down ab",
        fix='sudo sysctl -w net.ipv4.ip_local_port_range="1024 65535"',
    )
    # Without keep-alive, each request leaves a port of ab in TIME_WAIT for up to 60 s. With
    # tcp_tw_reuse (2: on loopback only), a new connection can use the port after 1 s.
    many = [run for run in runs if run.requests > ports and not run.conditions.keep_alive]
    no_use = {REUSE_NEVER} if role is None else {REUSE_NEVER, REUSE_ON_LOOPBACK}
    names = {REUSE_NEVER: "never", 1: "always", REUSE_ON_LOOPBACK: "on loopback"}
    reuse = names.get(limits.time_wait_reuse, "?")
    yield Finding(
        about=Limit.RESTING_PORTS,
        limit="ports that may stay in TIME_WAIT for 60 s (tcp_tw_reuse)",
        have=f"reused: {reuse}",
        need=f"reuse, or {max(run.requests for run in runs):,} ports",
        levels=sorted({run.connections for run in many if limits.time_wait_reuse in no_use}),
        consequence="ab may run out of ports within a run",
        fix="sudo sysctl -w net.ipv4.tcp_tw_reuse=1",
    )


def _of_servers(
    runs: Sequence[RunSpec], limits: SystemLimits, role: Role | None
) -> Iterator[Finding]:
    """Yield a finding for each limit of the host that accepts the connections."""
    levels = sorted({run.connections for run in runs})
    most = levels[-1]
    yield Finding(
        about=Limit.ACCEPT_QUEUE,
        limit="accept queue (somaxconn)",
        have=number(limits.somaxconn),
        need=f"{most:,}",
        levels=[level for level in levels if level > limits.somaxconn],
        consequence=DROPPED,
        fix=ACCEPT_QUEUE_FIX,
    )
    # Without SYN cookies, the kernel reserves a quarter of this queue for known peers. With SYN
    # cookies, this setting has no effect, because the length of the accept queue is the limit.
    off = limits.syn_cookies == SYN_COOKIES_OFF
    usable = limits.syn_backlog - limits.syn_backlog // 4
    yield Finding(
        about=Limit.HALF_OPEN,
        limit="half-open connections (tcp_max_syn_backlog)",
        have=f"{limits.syn_backlog:,}, SYN cookies {'off' if off else 'on'}",
        need=f"{most * 4 // 3 + 1:,}, or SYN cookies",
        levels=[level for level in levels if level > usable and off],
        consequence=DROPPED,
        fix="sudo sysctl -w net.ipv4.tcp_max_syn_backlog=65535",
    )
    ended = [run.ended_connections(role) for run in runs]
    ample = min(sum(ended), TIME_WAIT_AMPLE)
    memory = limits.time_wait_memory
    yield Finding(
        about=Limit.TIME_WAIT,
        limit="connections in TIME_WAIT (tcp_max_tw_buckets)",
        have=number(memory),
        need=f"{max(ended):,} for a run; with {ample:,} no run has to wait",
        levels=sorted({r.connections for r, n in zip(runs, ended, strict=True) if n > memory}),
        consequence="the kernel drops excess entries, so a client may get a reset too early",
        fix=TIME_WAIT_FIX,
    )
    yield Finding(
        about=Limit.TASKS,
        limit=f"processes and threads ({limits.tasks_name})",
        have=number(limits.tasks),
        need=f"{most:,} for a process or thread per connection",
        levels=[level for level in levels if level > limits.tasks],
        consequence="a server with one process or thread per connection cannot start all of them",
        fix=limits.tasks_fix,
    )


def number(value: int | None) -> str:
    """Return a limit as text."""
    if value is None:
        return "not known"
    return "unlimited" if value >= UNLIMITED else f"{value:,}"


# ---- Facts ----

BUSY_SECONDS = 0.5


@dataclass(frozen=True)
class Facts:
    """The facts about the machine, without its limits. None: unknown or missing."""

    cpus: int
    governors: tuple[str, ...] = ()
    """The frequency governors in use, each once; empty if the kernel shows no governor."""
    busy: float | None = None
    """The share of all CPUs that other programs use."""
    busiest: str = ""
    """The process that uses the most CPU time: `1234 (name)`."""
    time_wait: int | None = None
    conntrack: tuple[int, int] | None = None
    """The current and the maximum number of tracked connections; None: not tracked."""
    ab: str | None = None
    redis_server: str | None = None
    redis: Mapping[str, str | int | None] | None = None
    """The settings of an existing Redis; None: the sweep will start a private Redis."""
    redis_url: str = ""
    oha: str | None = None
    groups: Path | None = None


def require_tools(by_oha: bool, by_wrk: bool) -> None:
    """Raise UserError if a needed load generator is not installed."""
    for tool, needed in ((AB, True), (WRK, by_wrk), (OHA, by_oha)):
        if needed:
            tool.require()


def look() -> Facts:
    """Measure the load of other programs for 0.5 s. Return all facts except `redis` and its URL."""
    busy, busiest = other_load()
    return Facts(
        cpus=len(os.sched_getaffinity(0)),
        governors=governors(),
        busy=busy,
        busiest=busiest,
        time_wait=resting.now if (resting := sockets.memory()) else None,
        conntrack=conntrack(),
        ab=AB.version(),
        redis_server=redis_server_version(),
        oha=OHA.version(),
        groups=parent_of_groups(),
    )


def governors(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """Return the frequency governors in use, each once."""
    found = {text_of(file).strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return tuple(sorted(found - {""}))


def other_load() -> tuple[float, str]:
    """Return the busy share of all CPUs, and the busiest process: `1234 (name)`."""
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
        if times := process.info["cpu_times"]:
            found[process.pid] = (process.info["name"], times.user + times.system)
    return found


def conntrack(folder: Path = Path("/proc/sys/net/netfilter")) -> tuple[int, int] | None:
    """Return the current and the maximum number of tracked connections; None if not tracked."""
    now = text_of(folder / "nf_conntrack_count").strip()
    most = text_of(folder / "nf_conntrack_max").strip()
    return (int(now), int(most)) if now.isdigit() and most.isdigit() else None


def redis_server_version() -> str | None:
    """Return the version of redis-server; None if redis-server is not installed."""
    match = re.search(r"v=(\S+)", output_of(["redis-server", "--version"]))
    return f"redis-server {match[1]}" if match else None
