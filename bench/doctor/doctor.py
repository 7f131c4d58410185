# SPDX-License-Identifier: MIT
"""The doctor: what this machine is, what the chosen runs need, and the command that cures it.

It looks and says; it changes nothing. Before every sweep it speaks by itself, of what is not well.
"""

from collections.abc import Callable, Iterator, Sequence

from bench.doctor.limits import TIME_WAIT_AMPLE, TIME_WAIT_CURE, assess
from bench.doctor.looking import Facts
from bench.load import open_loop
from bench.records.environment import UNLIMITED, Finding, Limit, Line, State, SystemLimits
from bench.records.plan import RunSpec

BUSY_LIMIT = 0.05
"""More than this share of the CPUs used by others disturbs a measurement."""
REDIS_SPARE = 64
SETUP = "scripts/setup.sh bench"


def examine(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, load_only: bool = False
) -> list[Line]:
    """All lines. `load_only`: of a host that makes the load, and runs neither server nor Redis.
    Pure."""
    findings = assess(runs, limits)
    lines = [*_connection_lines(runs, limits, facts, findings), *_machine_lines(facts)]
    if not load_only:
        lines += _server_lines(runs, limits, facts, findings)
    lines += _tool_lines(runs, facts)
    if not load_only:
        lines.append(_tool("redis-server", facts.redis_server, "6 or newer", SETUP))
        lines += _redis_lines(runs, limits, facts)
    return lines


def _connection_lines(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, findings: Sequence[Finding]
) -> Iterator[Line]:
    """What whoever opens the connections needs."""
    most = max(run.connections for run in runs)
    requests = max(run.requests for run in runs)
    line = _matcher(findings)
    have, need = _number(limits.descriptors), f"{most + 64:,}"
    yield line(Limit.DESCRIPTORS, "open descriptors of a process", have, need)
    have, need = _number(limits.ab_ceiling), f"{max(run.concurrency for run in runs):,}"
    yield line(Limit.AB, "concurrency of ab", have, need)
    have, need = _number(limits.ports), f"{2 * most:,}, so that half are free"
    yield line(Limit.PORTS, "ports for outgoing connections", have, need)
    reuse = {0: "never", 1: "always", 2: "on loopback"}.get(limits.time_wait_reuse, "?")
    have, need = f"reused: {reuse}", f"reuse, or {requests:,} ports"
    yield line(Limit.RESTING_PORTS, "ports in TIME_WAIT", have, need)
    yield _time_wait_memory(runs, limits, facts, line)
    if facts.conntrack:
        now, at_most = facts.conntrack
        low = now + requests + most > at_most
        raised = 2 * (now + requests + most)
        yield Line(
            topic="tracked connections (nf_conntrack_max)",
            have=f"{now:,} of {at_most:,}",
            need=f"{requests + most:,} for a run",
            state="warning" if low else "well",
            cure=f"sudo sysctl -w net.netfilter.nf_conntrack_max={raised}" if low else "",
        )


def _server_lines(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, findings: Sequence[Finding]
) -> Iterator[Line]:
    """What a server needs beside."""
    most = max(run.connections for run in runs)
    line = _matcher(findings)
    have = _number(limits.somaxconn)
    yield line(Limit.ACCEPT_QUEUE, "accept queue (somaxconn)", have, f"{most:,}")
    cookies = "off" if limits.syn_cookies == 0 else "on"
    have, need = f"{limits.syn_backlog:,}, SYN cookies {cookies}", f"{most * 4 // 3 + 1:,}"
    topic = "half-open connections (tcp_max_syn_backlog)"
    yield line(Limit.HALF_OPEN, topic, have, f"{need}, or SYN cookies")
    topic = f"processes and threads ({limits.tasks_name})"
    yield line(Limit.TASKS, topic, _number(limits.tasks), f"{most:,}")
    yield Line(
        topic="CPUs for this program",
        have=str(facts.cpus),
        need="2: one for the server alone",
        state="well" if facts.cpus > 1 else "warning",
        cure="" if facts.cpus > 1 else "a machine with two CPUs (results will say that it was one)",
    )
    where = str(facts.groups) if facts.groups else "none: CPU time is taken from the server's end"
    yield Line(
        topic="control groups (CPU accounting)",
        have=where,
        need="cgroup v2, writable",
        state="well" if facts.groups else "note",
        cure="" if facts.groups else "sudo systemd-run --scope --uid=$USER -p Delegate=yes -- bash",
    )


def _time_wait_memory(
    runs: Sequence[RunSpec], limits: SystemLimits, facts: Facts, line: Callable[..., Line]
) -> Line:
    now = "?" if facts.time_wait is None else f"{facts.time_wait:,}"
    run, whole = (f(run.ended_connections() for run in runs) for f in (max, sum))
    have = f"{now} of {_number(limits.time_wait_memory)}"
    need = f"{run:,} for a run; with {min(whole, TIME_WAIT_AMPLE):,} large ones never wait"
    found: Line = line(Limit.TIME_WAIT, "connections in TIME_WAIT (tcp_max_tw_buckets)", have, need)
    if found.state == "well" and limits.time_wait_memory < min(whole, TIME_WAIT_AMPLE):
        return found.model_copy(update={"state": "note", "cure": TIME_WAIT_CURE})
    return found


def _machine_lines(facts: Facts) -> Iterator[Line]:
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


def _tool_lines(runs: Sequence[RunSpec], facts: Facts) -> Iterator[Line]:
    yield _tool("ab (Apache Bench)", facts.ab, "any", SETUP)
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


def _matcher(findings: Sequence[Finding]) -> Callable[[Limit, str, str, str], Line]:
    """Makes lines whose state and cure are those of the finding about the same limit."""

    def line(about: Limit, topic: str, have: str, need: str) -> Line:
        found = next((finding for finding in findings if finding.about is about), None)
        if found is None:
            return Line(topic=topic, have=have, need=need)
        state: State = "impossible" if found.impossible else "warning"
        return Line(topic=topic, have=have, need=need, state=state, cure=found.cure)

    return line


def _number(value: int | None) -> str:
    if value is None:
        return "not known"
    return "unlimited" if value >= UNLIMITED else f"{value:,}"
