# SPDX-License-Identifier: MIT
"""The doctor compares this machine with the needs of the chosen runs, and prints fixes.

The doctor changes nothing. Every sweep runs the doctor first and prints the failed checks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from bench.doctor.limits import TIME_WAIT_AMPLE, Facts, HostLimits, assess, judged, why_impossible
from bench.host.machine import read_limits
from bench.load.generators import concurrency_ceiling
from bench.readers.console import Table, say
from bench.records.conditions import RunSpec
from bench.records.environment import DoctorLine, Finding, Limit, State, SystemLimits
from bench.services.redis_server import RunRedis

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

    limits: SystemLimits
    """The limits of this machine."""
    lines: list[DoctorLine]
    findings: list[Finding]
    """The limits that are too low, of all hosts."""

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
    lines += [*_tracked(runs, facts), *_machine_lines(facts)]
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


def _tracked(runs: Sequence[RunSpec], facts: Facts) -> Iterator[DoctorLine]:
    if facts.conntrack:
        now, at_most = facts.conntrack
        need = max(run.requests for run in runs) + max(run.connections for run in runs)
        fix = f"sudo sysctl -w net.netfilter.nf_conntrack_max={2 * (now + need)}"
        topic, have = "tracked connections (nf_conntrack_max)", f"{now:,} of {at_most:,}"
        yield _line(topic, have, f"{need:,} for a run", now + need <= at_most, fix)


def _server_lines(facts: Facts) -> Iterator[DoctorLine]:
    """Yield the checks of a host that runs servers."""
    cpus, need = str(facts.cpus), "2: one for the server alone"
    fix = "use a machine with two CPUs (the results record the number of CPUs)"
    yield _line("CPUs for this program", cpus, need, facts.cpus > 1, fix)
    where = str(facts.groups) if facts.groups else "none: CPU time is read when the server ends"
    topic, need = "control groups (CPU accounting)", "cgroup v2, writable"
    yield _line(topic, where, need, bool(facts.groups), GROUPS_FIX, "note")


def _machine_lines(facts: Facts) -> Iterator[DoctorLine]:
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
        have = max(0, limits.descriptors - 32)
        nofile = f"--nofile={need + 32}:{need + 32}"
        fix = f"sudo prlimit --pid $$ {nofile}   (in this shell; then try again)"
        yield _clients(have, " (limited by descriptors)", need, fix)
        return
    saves = str(facts.redis.get("save") or "")
    appends = facts.redis.get("appendonly") == "yes"
    client = f"redis-cli -u {facts.redis_url}"
    fixes = [f"{client} config set save ''"] if saves else []
    fixes += [f"{client} config set appendonly no"] if appends else []
    now = "; ".join([f"snapshots {saves}"] * bool(saves) + ["append-only file"] * appends)
    need_off = "off: otherwise Redis forks and writes during a run"
    yield _line("Redis persistence", now or "off", need_off, not fixes, " && ".join(fixes))
    maximum = facts.redis.get("maxclients")
    if maximum is not None:
        yield _clients(int(maximum), "", need, f"{client} config set maxclients {need}")


def _clients(have: int, whose: str, need: int, fix: str) -> DoctorLine:
    needed = f"{need:,}: up to one connection for each client"
    return _line("Redis maxclients", f"{have:,}{whose}", needed, have >= need, fix)


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
