# SPDX-License-Identifier: MIT
"""What the machine's limits allow, judged before the run. Pure; `system_limits` reads the machine.

Each finding says what is, what is needed, and the command that cures it. Levels that cannot be
held at all are skipped; for the others a warning stands before the run.
"""

from collections.abc import Iterator, Sequence

from bench.records.environment import Finding, Limit, SystemLimits
from bench.records.figures import Role
from bench.records.plan import RunSpec

SPARE_DESCRIPTORS = 64
"""What ab and the servers open beside one descriptor for each connection: standard input and
output, the listening socket, the template, Redis, and (servers) files kept open."""

DROPPED = "connections beyond it are dropped; a second or more later they are tried again, or reset"
SYN_COOKIES_OFF = 0
REUSE_NEVER = 0
ACCEPT_QUEUE_CURE = "sudo sysctl -w net.core.somaxconn=65535"
TIME_WAIT_AMPLE = 600_000
"""For 10,000 connections a second, each of which is remembered for a minute."""
TIME_WAIT_CURE = f"sudo sysctl -w net.ipv4.tcp_max_tw_buckets={TIME_WAIT_AMPLE}"


def assess(
    runs: Sequence[RunSpec], limits: SystemLimits, role: Role | None = None
) -> list[Finding]:
    """All limits that are in the way of the planned runs, the impossible ones first. `role`: of the
    host that has them; None: all is on one machine."""
    levels = sorted({run.connections for run in runs})
    found = [
        *_ab_ceiling(sorted({run.concurrency for run in runs}), limits),
        *_descriptors(levels, limits),
        *_ports_at_once(levels, limits),
        *_accept_queue(levels, limits),
        *_syn_backlog(levels, limits),
        *_ports_in_time_wait(runs, limits),
        *_time_wait_memory(runs, limits, role),
        *_tasks(levels, limits),
    ]
    return sorted(found, key=lambda finding: not finding.impossible)


def impossible_levels(findings: Sequence[Finding]) -> dict[int, Finding]:
    """For each level that cannot be run the first finding that says why."""
    reasons: dict[int, Finding] = {}
    for finding in findings:
        if finding.impossible:
            for level in finding.levels:
                reasons.setdefault(level, finding)
    return reasons


def _ab_ceiling(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    ceiling = limits.ab_ceiling
    above = [level for level in levels if ceiling is not None and level > ceiling]
    if above:
        yield Finding(
            about=Limit.AB,
            limit="concurrency of ab",
            have=f"{ceiling:,} at most",
            need=f"{above[-1]:,}",
            levels=above,
            impossible=True,
            consequence="ab refuses more",
            cure=f"choose levels up to {ceiling:,}: --levels",
        )


def _descriptors(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    above = [level for level in levels if level + SPARE_DESCRIPTORS > limits.descriptors]
    if above:
        need = above[-1] + SPARE_DESCRIPTORS
        yield Finding(
            about=Limit.DESCRIPTORS,
            limit="open descriptors of a process (hard limit)",
            have=f"{limits.descriptors:,}",
            need=f"{need:,}",
            levels=above,
            impossible=True,
            consequence="neither ab nor an event server can hold that many connections",
            cure=f"sudo prlimit --pid $$ --nofile={need}:{need}   (in this shell, then again)",
        )


def _ports_at_once(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    ports = limits.ports
    none_left = [level for level in levels if level > ports]
    # For connect() the kernel tries every second port first; when those are taken it searches long.
    slow = [level for level in levels if ports // 2 < level <= ports]
    cannot = "ab cannot open that many connections to one address"
    searches = "with over half of them in use ab loses time to the search for free ones"
    for above, need, consequence in (
        (none_left, "{0:,} at once", cannot),
        (slow, "more than {1:,}", searches),
    ):
        if above:
            yield Finding(
                about=Limit.PORTS,
                limit="ports for outgoing connections (ip_local_port_range)",
                have=f"{ports:,}",
                need=need.format(above[-1], 2 * above[-1]),
                levels=above,
                impossible=above is none_left,
                consequence=consequence,
                cure='sudo sysctl -w net.ipv4.ip_local_port_range="1024 65535"',
            )


def _accept_queue(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    above = [level for level in levels if level > limits.somaxconn]
    if above:
        yield Finding(
            about=Limit.ACCEPT_QUEUE,
            limit="queue of connections to be accepted (somaxconn)",
            have=f"{limits.somaxconn:,}",
            need=f"{above[-1]:,}",
            levels=above,
            impossible=False,
            consequence=DROPPED,
            cure=ACCEPT_QUEUE_CURE,
        )


def _syn_backlog(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    # Without SYN cookies the kernel keeps a quarter of this queue for peers that it knows. With
    # them the queue's length is that of the accept queue and this setting does not count.
    usable = limits.syn_backlog - limits.syn_backlog // 4
    above = [level for level in levels if level > usable]
    if above and limits.syn_cookies == SYN_COOKIES_OFF:
        yield Finding(
            about=Limit.HALF_OPEN,
            limit="queue of half-open connections (tcp_max_syn_backlog, SYN cookies are off)",
            have=f"{limits.syn_backlog:,}, three quarters of it for strangers",
            need=f"{above[-1] * 4 // 3 + 1:,}",
            levels=above,
            impossible=False,
            consequence=DROPPED,
            cure="sudo sysctl -w net.ipv4.tcp_max_syn_backlog=65535",
        )


def _ports_in_time_wait(runs: Sequence[RunSpec], limits: SystemLimits) -> Iterator[Finding]:
    # A connection for each request, and ab's port of each may rest for a minute. With reuse on (2:
    # on the loopback interface only, which is where we measure) it is free again after a second.
    many = [run for run in runs if run.requests > limits.ports and not run.conditions.keep_alive]
    if many and limits.time_wait_reuse == REUSE_NEVER:
        yield Finding(
            about=Limit.RESTING_PORTS,
            limit="ports that may rest in TIME_WAIT for 60 s (tcp_tw_reuse is 0)",
            have=f"{limits.ports:,} ports",
            need=f"{max(run.requests for run in many):,}, one for each request of a run",
            levels=sorted({run.connections for run in many}),
            impossible=False,
            consequence="ab may run out of ports within a run",
            cure="sudo sysctl -w net.ipv4.tcp_tw_reuse=1",
        )


def _time_wait_memory(
    runs: Sequence[RunSpec], limits: SystemLimits, role: Role | None
) -> Iterator[Finding]:
    above = [run for run in runs if run.ended_connections(role) > limits.time_wait_memory]
    if above:
        yield Finding(
            about=Limit.TIME_WAIT,
            limit="ended connections that the kernel remembers (tcp_max_tw_buckets)",
            have=f"{limits.time_wait_memory:,}",
            need=f"{max(run.ended_connections(role) for run in above):,}, all those of a run",
            levels=sorted({run.connections for run in above}),
            impossible=False,
            consequence="one forgotten too early can reset its client while it still reads",
            cure=TIME_WAIT_CURE,
        )


def _tasks(levels: Sequence[int], limits: SystemLimits) -> Iterator[Finding]:
    above = [level for level in levels if level > limits.tasks]
    if above:
        yield Finding(
            about=Limit.TASKS,
            limit=f"processes and threads ({limits.tasks_name})",
            have=f"{limits.tasks:,}",
            need=f"{above[-1]:,} for a server with one for each connection",
            levels=above,
            impossible=False,
            consequence="such a server cannot start all of them",
            cure=limits.tasks_cure,
        )
