# SPDX-License-Identifier: MIT
"""The doctor checks this machine and the limits of all hosts for the chosen runs, and prints fixes.

The doctor changes nothing. Every sweep runs the doctor first and prints the failed checks. A
finding is a limit that is too low: its value, the needed value, and a command or advice. A sweep
skips impossible runs; for other findings it prints a warning before the first run.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from bench.host.accounting import parent_of_groups
from bench.host.kernel import text_of
from bench.host.machine import read_limits
from bench.host.project import output_of
from bench.host.sockets import memory
from bench.load.generators import AB, OHA, concurrency_ceiling
from bench.readers.console import Table, say
from bench.records.conditions import Role, RunSpec
from bench.records.environment import UNLIMITED, DoctorLine, Finding, Limit, State, SystemLimits
from bench.records.values import tables_of
from bench.services.redis_server import RunRedis

# ---- Limits ----

SPARE_DESCRIPTORS = 64
"""The descriptors that ab and the servers need in addition to connections: standard input and
output, the listening socket, public/, templates/, Redis, and files that servers keep open."""
REUSED = {0: "never", 1: "always", 2: "on loopback"}
"""When ports in TIME_WAIT are reused, by the value of tcp_tw_reuse."""


class LimitWords(BaseModel):
    """The texts of a finding in limits.toml, see `Finding`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str  # The value of a `Limit`, or HALF_OF_PORTS.
    limit: str
    have: str
    need: str
    impossible: bool = False
    consequence: str
    fix: str
    roles: tuple[Role, ...]


LIMITS = tables_of(LimitWords, Path(__file__).with_name("limits.toml"))
HALF_OF_PORTS = "half of the ports"
ACCEPT_QUEUE_FIX = LIMITS[Limit.ACCEPT_QUEUE.value].fix
TIME_WAIT_FIX = LIMITS[Limit.TIME_WAIT.value].fix
TIME_WAIT_AMPLE = int(TIME_WAIT_FIX.rpartition("=")[2])
"""This number of entries suffices if 10,000 connections per second end and stay in TIME_WAIT for
60 s each."""

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
    """Yield a finding for each limit that matters for a role (None: everything runs on one
    machine). If the limit suffices, the finding has no `levels`."""
    levels = sorted({run.connections for run in runs})
    of_ab = sorted({run.of_ab for run in runs})
    ended = [run.ended_connections(role) for run in runs]

    def above(limit: int | None, known: Sequence[int] = levels) -> list[int]:
        return [level for level in known if limit is not None and level > limit]

    # Without keep-alive, each request leaves a port of ab in TIME_WAIT for up to 60 s. With
    # tcp_tw_reuse (2: on loopback only), a new connection can use the port after 1 s.
    rests = limits.time_wait_reuse == 0 or (limits.time_wait_reuse == 2 and role is not None)
    many = [run for run in runs if run.requests > limits.ports and not run.conditions.keep_alive]
    # Without SYN cookies, the kernel reserves a quarter of this queue for known clients. With SYN
    # cookies, this setting has no effect, because the length of the accept queue is the limit.
    usable = None if limits.syn_cookies else limits.syn_backlog - limits.syn_backlog // 4
    scarce = above(limits.ports)
    dropped = zip(runs, ended, strict=True)
    found = {
        Limit.AB: above(limits.ab_ceiling, of_ab),
        Limit.DESCRIPTORS: above(limits.descriptors - SPARE_DESCRIPTORS),
        Limit.PORTS: scarce or above(limits.ports // 2),
        Limit.RESTING_PORTS: sorted({run.connections for run in many if rests}),
        Limit.ACCEPT_QUEUE: above(limits.somaxconn),
        Limit.HALF_OPEN: above(usable),
        Limit.TIME_WAIT: sorted({r.connections for r, n in dropped if n > limits.time_wait_memory}),
        Limit.TASKS: above(limits.tasks),
    }
    values = {
        **{name: value if isinstance(value, str) else number(value) for name, value in limits},
        "most": levels[-1],
        "of_ab": of_ab[-1],
        "files": levels[-1] + SPARE_DESCRIPTORS,
        "twice": 2 * levels[-1],
        "reuse": REUSED.get(limits.time_wait_reuse, "?"),
        "requests": max(run.requests for run in runs),
        "cookies": "on" if limits.syn_cookies else "off",
        "backlog": levels[-1] * 4 // 3 + 1,
        "ended": max(ended),
        "ample": min(sum(ended), TIME_WAIT_AMPLE),
    }
    for about, too_high in found.items():
        half = about is Limit.PORTS and not scarce
        words = LIMITS[HALF_OF_PORTS if half else about.value]
        if role is None or role in words.roles:
            texts = words.model_dump(include={"limit", "have", "need", "consequence", "fix"})
            filled = {name: text.format_map(values) for name, text in texts.items()}
            yield Finding(about=about, levels=too_high, impossible=words.impossible, **filled)


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
    busy: float | None = None  # The share of all CPUs that other programs use.
    busiest: str = ""  # The process that uses the most CPU time: `1234 (name)`.
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


def look() -> Facts:
    """Measure the load of other programs for 0.5 s. Return all facts except `redis` and its URL."""
    busy, busiest = other_load()
    redis = re.search(r"v=(\S+)", output_of(["redis-server", "--version"]))
    return Facts(
        cpus=len(os.sched_getaffinity(0)),
        governors=governors(),
        busy=busy,
        busiest=busiest,
        time_wait=resting.now if (resting := memory()) else None,
        conntrack=conntrack(),
        ab=AB.version(),
        redis_server=f"redis-server {redis[1]}" if redis else None,
        oha=OHA.version(),
        groups=parent_of_groups(),
    )


def governors(cpus: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """Return the frequency governors in use, each once."""
    found = {text_of(file).strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return tuple(sorted(found - {""}))


def other_load() -> tuple[float, str]:
    """Return the busy share of all CPUs, and the busiest process: `1234 (name)`."""

    def used() -> dict[str, float]:
        return {
            f"{one.pid} ({one.info['name']})": one.info["cpu_percent"] or 0.0
            for one in psutil.process_iter(["name", "cpu_percent"])
            if one.pid != os.getpid()
        }

    used()  # `psutil` measures the CPU time of each process since the previous call
    busy = psutil.cpu_percent(BUSY_SECONDS) / 100
    found = used()
    busiest = max(found, key=lambda name: found[name], default="")
    return busy, busiest if found.get(busiest) else ""


def conntrack(folder: Path = Path("/proc/sys/net/netfilter")) -> tuple[int, int] | None:
    """Return the current and the maximum number of tracked connections; None if not tracked."""
    now = text_of(folder / "nf_conntrack_count").strip()
    most = text_of(folder / "nf_conntrack_max").strip()
    return (int(now), int(most)) if now.isdigit() and most.isdigit() else None


# ---- All checks ----

BUSY_LIMIT = 0.05
"""The doctor warns if other programs use more than this share of the CPUs."""
REDIS_SPARE = 64
GROUPS_FIX = "systemd-run --user --scope -p Delegate=yes -- bash   (then try again in that shell)"
SIGNS: dict[State, tuple[str, str]] = {
    "well": ("ok", "green"),
    "note": ("note", "cyan"),
    "warning": ("WARN", "yellow"),
    "impossible": ("STOP", "red"),
}


@dataclass(frozen=True)
class Diagnosis:
    """The result of the checks before a sweep."""

    limits: SystemLimits  # The limits of this machine.
    lines: list[DoctorLine]
    findings: list[Finding]  # All hosts' limits that are too low.

    def why_not(self, run: RunSpec) -> Finding | None:
        """Return the reason why a run is impossible; None if the run is possible."""
        return why_impossible(run, self.findings)


def diagnose(
    runs: Sequence[RunSpec], facts: Facts, redis: RunRedis | None, hosts: Sequence[HostLimits] = ()
) -> Diagnosis:
    """Check all hosts for some runs. `redis`: the sweep's Redis; None: a private Redis will be
    started. `hosts`: empty if everything runs on this machine."""
    limits = read_limits(concurrency_ceiling())
    if redis and not redis.private:
        facts = replace(facts, redis=redis.describe(), redis_url=redis.shown)
    lines = examine(runs, limits, facts, load_only=bool(hosts))
    return Diagnosis(limits, lines, assess(runs, limits, hosts))


def examine(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, load_only: bool = False
) -> list[DoctorLine]:
    """Return the results of all checks. `load_only`: servers and Redis run on other hosts."""
    found = judged(runs, limits, "load" if load_only else None)
    lines = [_limit(one, runs, limits, facts) for one in found]
    lines += _machine_lines(runs, facts)
    if not load_only:
        lines += _server_lines(facts)
    lines.append(_tool("ab (Apache Bench)", facts.ab, "any"))
    if any(run.conditions.mode == "open" for run in runs):
        lines.append(_tool("oha (open loop)", facts.oha, "1.4 or newer", "openloop"))
    if not load_only:
        lines.append(_tool("redis-server", facts.redis_server, "6 or newer"))
        lines += _redis_lines(runs, limits, facts)
    return lines


def _limit(
    found: Finding, runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts
) -> DoctorLine:
    """Return the report line for a limit."""
    line = DoctorLine(topic=found.limit, have=found.have, need=found.need)
    if found.about is Limit.TIME_WAIT and facts.time_wait is not None:
        line.have = f"{facts.time_wait:,} of {found.have}"
    if found.levels:
        line.state, line.fix = "impossible" if found.impossible else "warning", found.fix
    elif found.about is Limit.TIME_WAIT:
        ended = sum(run.ended_connections() for run in runs)
        if limits.time_wait_memory < min(ended, TIME_WAIT_AMPLE):
            line.state, line.fix = "note", found.fix
    return line


def _server_lines(facts: Facts) -> Iterator[DoctorLine]:
    """Yield the checks of a host that runs servers."""
    cpus, need = str(facts.cpus), "2: one for the server alone"
    fix = "use a machine with two CPUs (the results record the number of CPUs)"
    yield _line("CPUs for this program", cpus, need, facts.cpus > 1, fix)
    where = str(facts.groups) if facts.groups else "none: CPU time is read when the server ends"
    topic, need = "control groups (CPU accounting)", "cgroup v2, writable"
    yield _line(topic, where, need, bool(facts.groups), GROUPS_FIX, "note")


def _machine_lines(runs: Sequence[RunSpec], facts: Facts) -> Iterator[DoctorLine]:
    if facts.conntrack:
        now, most = facts.conntrack
        wanted = max(run.requests for run in runs) + max(run.connections for run in runs)
        fix = f"sudo sysctl -w net.netfilter.nf_conntrack_max={2 * (now + wanted)}"
        topic, have = "tracked connections (nf_conntrack_max)", f"{now:,} of {most:,}"
        yield _line(topic, have, f"{wanted:,} for a run", now + wanted <= most, fix)
    topic, need = "CPU frequency governor", "performance"
    if facts.governors:
        fix = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
        yield _line(topic, " and ".join(facts.governors), need, {*facts.governors} == {need}, fix)
    else:
        yield _line(topic, "unknown (a virtual machine has none)", need, False, "", "note")
    if facts.busy is not None:
        loud = facts.busy > BUSY_LIMIT
        who = facts.busiest.split()[0] if facts.busiest else ""
        by = f", most by {facts.busiest}" if loud and who else ""
        have, need = f"{facts.busy:.0%} of all CPUs{by}", f"below {BUSY_LIMIT:.0%}"
        show_it = f"ps -o pid,user,etime,args -p {who}   (then end the process, if it is yours)"
        fix = show_it if who else "wait, then try again"
        yield _line("other load on the machine", have, need, not loud, fix)


def _redis_lines(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts
) -> Iterator[DoctorLine]:
    need = max(run.connections for run in runs) + REDIS_SPARE
    if facts.redis is None:
        yield DoctorLine(topic="Redis persistence", have="private Redis: off", need="off")
        have, whose = max(0, limits.descriptors - 32), " (limited by descriptors)"
        nofile = f"--nofile={need + 32}:{need + 32}"
        fix = f"sudo prlimit --pid $$ {nofile}   (in this shell; then try again)"
    else:
        saves = str(facts.redis.get("save") or "")
        appends = facts.redis.get("appendonly") == "yes"
        client = f"redis-cli -u {facts.redis_url}"
        fixes = [f"{client} config set save ''"] if saves else []
        fixes += [f"{client} config set appendonly no"] if appends else []
        now = "; ".join([f"snapshots {saves}"] * bool(saves) + ["append-only file"] * appends)
        need_off = "off: otherwise Redis forks and writes during a run"
        yield _line("Redis persistence", now or "off", need_off, not fixes, " && ".join(fixes))
        if facts.redis.get("maxclients") is None:
            return
        have, whose = int(facts.redis["maxclients"] or 0), ""
        fix = f"{client} config set maxclients {need}"
    needed = f"{need:,}: up to one connection for each client"
    yield _line("Redis maxclients", f"{have:,}{whose}", needed, have >= need, fix)


def _tool(topic: str, have: str | None, need: str, group: str = "bench") -> DoctorLine:
    fix = f"scripts/setup.sh {group}"
    return _line(topic, have or "not installed", need, bool(have), fix, "impossible")


def _line(
    topic: str, have: str, need: str, well: bool, fix: str, otherwise: State = "warning"
) -> DoctorLine:
    """Return a line; if `well` is false, add the state `otherwise` and the fix."""
    line = DoctorLine(topic=topic, have=have, need=need)
    return line if well else line.model_copy(update={"state": otherwise, "fix": fix})


def show(lines: Sequence[DoctorLine], out: Console) -> None:
    """Print all lines as a table, and below the table the fixes."""
    table = Table("<", "<check", "<found", "<needed by the chosen runs")
    for line in lines:
        sign, style = SIGNS[line.state]
        table.add_row(f"[{style}]{sign}[/]", line.topic, line.have, line.need)
    out.print(table)
    show_fixes(lines, out)


def show_fixes(lines: Sequence[DoctorLine], out: Console) -> None:
    """Print each check that has failed, its fix, and the fix of each note."""
    for line in lines:
        if line.state in ("warning", "impossible"):
            sign, style = SIGNS[line.state]
            text = f"{sign}  {line.topic}: {line.have}; needed: {line.need}"
            say(out, text, style)
        if line.fix and line.state != "well":
            say(out, f"      {line.topic}, fix: {line.fix}")
