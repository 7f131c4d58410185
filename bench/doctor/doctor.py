"""The doctor: what this machine is, what the chosen runs need, and the command that cures it.

It looks and says; it changes nothing. Before every sweep it speaks by itself, of what is not well.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from bench.doctor.limits import TIME_WAIT_AMPLE, TIME_WAIT_CURE, assess
from bench.host import time_wait
from bench.host.accounting import parent_of_groups
from bench.host.system_limits import text_of
from bench.load import ab, open_loop
from bench.records.environment import UNLIMITED, Finding, Line, State, SystemLimits
from bench.records.plan import RunSpec

BUSY_LIMIT = 0.05
"""More than this share of the CPUs used by others disturbs a measurement."""
BUSY_SECONDS = 0.5
REDIS_SPARE = 64
SETUP = "scripts/setup.sh bench"


@dataclass(frozen=True)
class Facts:
    """What was found on the machine, beside its limits. None: could not be found out."""

    cpus: int
    governors: tuple[str, ...] = ()
    """The frequency governors in force, each once; empty where the kernel shows none."""
    busy: float | None = None
    """The share of all CPUs that others use."""
    busiest: str = ""
    """Who uses most: `1234 (name)`."""
    time_wait: int | None = None
    conntrack: tuple[int, int] | None = None
    """Tracked connections: now, at most. None: not tracked."""
    ab: str | None = None
    redis_server: str | None = None
    redis: Mapping[str, Any] | None = None
    """Settings of a Redis that is there; None: a private one will be started."""
    redis_url: str = ""
    oha: str | None = None
    groups: Path | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def examine(runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts) -> list[Line]:
    """All lines. Pure."""
    findings = assess(runs, limits)
    return [
        *_limit_lines(runs, limits, facts, findings),
        *_machine_lines(facts),
        *_tool_lines(runs, facts),
        *_redis_lines(runs, limits, facts),
    ]


def _limit_lines(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, findings: Sequence[Finding]
) -> Iterator[Line]:
    most = max(run.connections for run in runs)
    requests = max(run.requests for run in runs)
    line = _matcher(findings)
    yield line(
        "open descriptors of a process",
        _number(limits.descriptors),
        f"{most + 64:,}",
        "open descriptors",
    )
    yield line(
        "concurrency of ab",
        _number(limits.ab_ceiling),
        f"{max(run.concurrency for run in runs):,}",
        "concurrency of ab",
    )
    yield line("accept queue (somaxconn)", _number(limits.somaxconn), f"{most:,}", "queue of conn")
    cookies = "off" if limits.syn_cookies == 0 else "on"
    yield line(
        "half-open connections (tcp_max_syn_backlog)",
        f"{limits.syn_backlog:,}, SYN cookies {cookies}",
        f"{most * 4 // 3 + 1:,}, or SYN cookies",
        "queue of half",
    )
    yield line(
        "ports for outgoing connections",
        _number(limits.ports),
        f"{2 * most:,}, so that half are free",
        "ports for outgoing",
    )
    reuse = {0: "never", 1: "always", 2: "on loopback"}.get(limits.time_wait_reuse, "?")
    yield line(
        "ports in TIME_WAIT",
        f"reused: {reuse}",
        f"reuse, or {requests:,} ports",
        "ports that may rest",
    )
    yield _time_wait_memory(runs, limits, facts, line)
    yield line(
        f"processes and threads ({limits.tasks_name})",
        _number(limits.tasks),
        f"{most:,}",
        "processes and",
    )
    if facts.conntrack:
        now, at_most = facts.conntrack
        yield Line(
            topic="tracked connections (nf_conntrack_max)",
            have=f"{now:,} of {at_most:,}",
            need=f"{requests + most:,} for a run",
            state="warning" if now + requests + most > at_most else "well",
            cure=f"sudo sysctl -w net.netfilter.nf_conntrack_max={2 * (now + requests + most)}"
            if now + requests + most > at_most
            else "",
        )


def _time_wait_memory(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, line: Callable[..., Line]
) -> Line:
    now = "?" if facts.time_wait is None else f"{facts.time_wait:,}"
    run, whole = (f(run.ended_connections() for run in runs) for f in (max, sum))
    have = f"{now} of {_number(limits.time_wait_memory)}"
    need = f"{run:,} for a run; with {min(whole, TIME_WAIT_AMPLE):,} large ones never wait"
    found: Line = line("connections in TIME_WAIT (tcp_max_tw_buckets)", have, need, "ended conn")
    if found.state == "well" and limits.time_wait_memory < min(whole, TIME_WAIT_AMPLE):
        return found.model_copy(update={"state": "note", "cure": TIME_WAIT_CURE})
    return found


def _machine_lines(facts: Facts) -> Iterator[Line]:
    yield Line(
        topic="CPUs for this program",
        have=str(facts.cpus),
        need="2: one for the server alone",
        state="well" if facts.cpus > 1 else "warning",
        cure="" if facts.cpus > 1 else "a machine with two CPUs (results will say that it was one)",
    )
    slow = [name for name in facts.governors if name != "performance"]
    governor = " and ".join(facts.governors) or "not shown (a virtual machine has none)"
    every = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    yield Line(
        topic="CPU frequency governor",
        have=governor,
        need="performance",
        state="warning" if slow else ("well" if facts.governors else "note"),
        cure=f"echo performance | sudo tee {every}" if slow else "",
    )
    if facts.busy is not None:
        loud = facts.busy > BUSY_LIMIT
        who = facts.busiest.split()[0] if facts.busiest else ""
        by = f", most by {facts.busiest}" if loud and who else ""
        have = f"{facts.busy:.0%} of all CPUs{by}"
        show_it = f"ps -o pid,user,etime,args -p {who}   (and end it, if you may)"
        yield Line(
            topic="other load on the machine",
            have=have,
            need=f"below {BUSY_LIMIT:.0%}",
            state="warning" if loud else "well",
            cure=(show_it if who else "wait, then again") if loud else "",
        )
    where = str(facts.groups) if facts.groups else "none: CPU time is taken from the server's end"
    yield Line(
        topic="control groups (CPU accounting)",
        have=where,
        need="cgroup v2, writable",
        state="well" if facts.groups else "note",
        cure="" if facts.groups else "sudo systemd-run --scope --uid=$USER -p Delegate=yes -- bash",
    )


def _tool_lines(runs: Sequence[RunSpec], facts: Facts) -> Iterator[Line]:
    yield _tool("ab (Apache Bench)", facts.ab, "any", SETUP)
    yield _tool("redis-server", facts.redis_server, "6 or newer", SETUP)
    if any(run.conditions.mode == "open" for run in runs):
        yield _tool("oha (open loop)", facts.oha, "1.4 or newer", open_loop.SETUP)


def _redis_lines(runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts) -> Iterator[Line]:
    need = max(run.connections for run in runs) + REDIS_SPARE
    if facts.redis is None:
        yield Line(topic="Redis persistence", have="private Redis: off", need="off")
        clients = max(0, limits.descriptors - 32)
        yield _clients(clients, need, limits, private=True)
        return
    saves = str(facts.redis.get("save") or "")
    appends = facts.redis.get("appendonly") == "yes"
    client = f"redis-cli -u {facts.redis_url}"
    cures = [f"{client} config set save ''"] if saves else []
    cures += [f"{client} config set appendonly no"] if appends else []
    have = "; ".join([f"snapshots {saves}"] * bool(saves) + ["append-only file"] * appends)
    yield Line(
        topic="Redis persistence",
        have=have or "off",
        need="off: it forks and writes in the middle of a run",
        state="warning" if cures else "well",
        cure=" && ".join(cures),
    )
    maximum = facts.redis.get("maxclients")
    if maximum is not None:
        yield _clients(int(maximum), need, limits, private=False, client=client)


def _clients(have: int, need: int, limits: SystemLimits, private: bool, client: str = "") -> Line:
    low = have < need
    cure = (
        f"sudo prlimit --pid $$ --nofile={need + 32}:{need + 32}   (in this shell, then again)"
        if private
        else f"{client} config set maxclients {need}"
    )
    return Line(
        topic="Redis maxclients",
        have=f"{have:,}" + (" (what the descriptors leave)" if private else ""),
        need=f"{need:,}, a connection for each client at most",
        state="warning" if low else "well",
        cure=cure if low else "",
    )


def _tool(topic: str, have: str | None, need: str, cure: str) -> Line:
    if have:
        return Line(topic=topic, have=have, need=need)
    return Line(topic=topic, have="not installed", need=need, state="impossible", cure=cure)


def _matcher(findings: Sequence[Finding]) -> Callable[[str, str, str, str], Line]:
    """Makes lines whose state and cure are those of the finding that begins with some words."""

    def line(topic: str, have: str, need: str, begin: str) -> Line:
        found = next((f for f in findings if f.limit.startswith(begin)), None)
        if found is None:
            return Line(topic=topic, have=have, need=need)
        state: State = "impossible" if found.impossible else "warning"
        return Line(topic=topic, have=have, need=need, state=state, cure=found.cure)

    return line


def _number(value: int | None) -> str:
    if value is None:
        return "not known"
    return "unlimited" if value >= UNLIMITED else f"{value:,}"


# ---- Looking at this machine ----


def look(redis: Mapping[str, Any] | None = None, redis_url: str = "") -> Facts:
    """The facts of this machine. Takes half a second: other load is watched for so long."""
    busy, busiest = other_load()
    has_ab = shutil.which("ab") is not None
    return Facts(
        cpus=len(os.sched_getaffinity(0)),
        governors=governors(),
        busy=busy,
        busiest=busiest,
        time_wait=resting.now if (resting := time_wait.memory()) else None,
        conntrack=conntrack(),
        ab=ab.version() if has_ab else None,
        redis_server=redis_server_version(),
        redis=redis,
        redis_url=redis_url,
        oha=open_loop.version(),
        groups=parent_of_groups(),
    )


def governors(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """The frequency governors in force, each once."""
    found = {text_of(file).strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return tuple(sorted(found - {""}))


def other_load(seconds: float = BUSY_SECONDS) -> tuple[float, str]:
    """The share of all CPUs that is busy now, and the process that uses most: `1234 (name)`."""
    before = _process_times()
    busy = psutil.cpu_percent(seconds) / 100
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
    """Tracked connections now and at most; None where the kernel tracks none."""
    now = text_of(folder / "nf_conntrack_count").strip()
    most = text_of(folder / "nf_conntrack_max").strip()
    return (int(now), int(most)) if now.isdigit() and most.isdigit() else None


def redis_server_version() -> str | None:
    """The version of the installed redis-server; None if there is none."""
    program = shutil.which("redis-server")
    if program is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"v=(\S+)", said)
    return f"redis-server {match[1]}" if match else "redis-server"


# ---- Saying it ----

SIGNS: dict[State, tuple[str, str]] = {
    "well": ("ok", "green"),
    "note": ("note", "cyan"),
    "warning": ("WARN", "yellow"),
    "impossible": ("STOP", "red"),
}


def show(lines: Sequence[Line], out: Console) -> None:
    """All lines as a table, the cures below it, ready to be copied."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("", "what", "is", "the chosen runs need"):
        table.add_column(head)
    for line in lines:
        sign, style = SIGNS[line.state]
        table.add_row(f"[{style}]{sign}[/]", line.topic, line.have, line.need)
    out.print(table)
    show_cures(lines, out)


def show_cures(lines: Sequence[Line], out: Console) -> None:
    """For each line that is not well: what it is and what cures it."""
    for line in lines:
        if line.state in ("warning", "impossible"):
            sign, style = SIGNS[line.state]
            text = f"{sign}  {line.topic}: {line.have}; needed: {line.need}"
            out.print(text, style=style, markup=False, soft_wrap=True)
        if line.cure and line.state != "well":
            out.print(f"      {line.topic}, cure: {line.cure}", markup=False, soft_wrap=True)
