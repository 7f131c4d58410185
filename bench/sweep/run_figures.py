# SPDX-License-Identifier: MIT
"""Compute the figures of a run from the data of the load generator and of all hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.host.accounting import CpuTime
from bench.host.kernel import TcpCounters
from bench.load.client import Response
from bench.load.running import IdleReport, Outcome
from bench.records import figures
from bench.records.conditions import RunSpec
from bench.records.figures import Run
from bench.services.balancer import BalancerUse
from bench.stations.footprint import Report, ServersUse, Stopped, Switches

PEAKS = ("processes_peak", "threads_peak", "descriptors_peak", "pss_peak_mb", "pss_mean_mb")
TCP = TcpCounters._fields
CLOCK_SECONDS = 0.1
"""The longest time, in seconds, that ab's start and its report add to a run's measured duration."""
TASKS = "its tasks during the load"
LIFE = "the server's life, over all its requests"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The data of a run, from which its figures and checks follow."""

    spec: RunSpec
    answer: Response  # The response to the first request.
    warmed_up: int  # Requests of the warm-up.
    outcome: Outcome
    wall: float  # The time of the load by our own clock, in seconds.
    counted: tuple[int, int]  # The increases of the counts of visits and remarks in Redis.
    redis: CpuTime
    idle: IdleReport | None
    hosts: list[Report]
    stopped: Mapping[str, Stopped]  # How the programs of each host ended.
    private: bool  # Whether only this sweep uses this Redis.

    @property
    def seconds(self) -> float:
        """Return the seconds of the load by the generator's clock; if unknown, by our clock."""
        figures = self.outcome.figures
        return figures.seconds if figures and figures.seconds else self.outcome.wall_seconds

    @property
    def uses(self) -> list[ServersUse]:
        """Return the usage of the servers, one entry for each server host."""
        return [seen.servers for seen in self.hosts if seen.servers]

    @property
    def nginx(self) -> BalancerUse | None:
        """Return the CPU usage of nginx; None if the run has no nginx."""
        return next((s.balancer for s in self.hosts if s.balancer), None)

    @property
    def during(self) -> int:
        """Return the number of requests during the load."""
        return self.spec.requests + (self.idle.requests_during if self.idle else 0)

    @property
    def all_requests(self) -> int:
        """Return the number of requests to the servers: first request, warm-up, load and idling."""
        idle = self.idle.requests if self.idle else 0
        return 1 + self.warmed_up + self.spec.requests + idle

    @property
    def quota_shares(self) -> list[tuple[float, float]]:
        """Return two shares for each instance: the used share of its quota, and the share of
        periods in which it was throttled. Empty without a quota."""
        known = [used for use in self.uses for used in use.used if used]
        allowed = 1e6 * self.spec.conditions.quota * self.seconds
        return [(x.cpu.total / allowed, x.throttled or 0.0) for x in known] if allowed else []


def enter(run: Run, seen: Evidence) -> None:
    """Store all figures in a run after its load."""
    outcome, report, conditions = seen.outcome, seen.outcome.figures, seen.spec.conditions
    run.ab_command, run.latency, run.memory = outcome.command, outcome.latency, outcome.memory
    run.ab = report if isinstance(report, figures.AbFigures) else None
    run.wrk = report if isinstance(report, figures.WrkFigures) else None
    run.open_loop = report if isinstance(report, figures.OpenLoopFigures) else None
    run.idle_reopened = seen.idle.reopened if seen.idle else None
    run.calls = calls_per_request(seen.hosts, seen.spec.requests)
    ended = [end.statistics for of in seen.stopped.values() for end in of.servers]
    run.server_statistics = all_statistics(ended)
    sampled = [host.stacks for host in seen.hosts]
    run.stacks = next(filter(None, [*sampled, *(of.stacks for of in seen.stopped.values())]), None)
    if report is None or seen.seconds <= 0 or not conditions.rated:
        return
    run.process = _servers(seen)
    run.hosts = [found for host in seen.hosts if (found := host_figures(host, seen.wall))]
    run.redis_process = _other(seen.redis, seen.wall)
    if seen.nginx:
        run.nginx_process = _other(seen.nginx.cpu, seen.wall)
    if outcome.cpu and outcome.wall_seconds:
        run.load_process = _other(outcome.cpu, outcome.wall_seconds)
    _enter_bottleneck(run, seen)
    if run.ab and conditions.mode == "closed" and outcome.latency:
        run.littles_law = littles_law(seen.spec, outcome.wall_seconds, outcome.latency.mean)


def calls_per_request(hosts: Sequence[Report], requests: int) -> figures.CallFigures | None:
    """Return the servers' system calls per request; None if no calls were counted."""
    found = [calls for seen in hosts if (calls := seen.calls)]
    counted = sum((Counter(calls.by_name) for calls in found), Counter[str]())
    each = {name: round(count / requests, 4) for name, count in counted.most_common()}
    writes = round(sum(calls.writes for calls in found) / requests, 4)
    return figures.CallFigures(per_request=each, writes=writes) if found else None


def host_figures(seen: Report, seconds: float) -> figures.HostFigures | None:
    """Return a host's figures; None if everything runs on one machine. `seconds`: the time between
    the two readings of the host's counters, by our clock."""
    if seen.role is None:
        return None
    used, tcp = seen.host, seen.host.tcp
    return figures.HostFigures(
        role=seen.role,
        name=seen.name,
        cpu_share=round(min(1.0, used.cpu_s / (seconds * seen.allowed)), 4),
        throttled_share=None
        if used.periods is None or used.throttled is None
        else round(used.throttled / max(used.periods, 1), 4),
        **(tcp._asdict() if tcp else {}),
    )


def littles_law(spec: RunSpec, wall: float, mean_ms: float) -> figures.LittlesLaw:
    """Return a run's values for Little's law: the rate by our own clock, the mean time of all
    requests, and their product."""
    rate = spec.requests / max(wall - CLOCK_SECONDS / 2, CLOCK_SECONDS / 2)
    product = rate * mean_ms / 1000
    return figures.LittlesLaw(
        concurrency=spec.concurrency,
        rate=round(rate, 3),
        mean_ms=mean_ms,
        product=round(product, 3),
        deviation=round(product / spec.concurrency - 1, 4),
    )


def _enter_bottleneck(run: Run, seen: Evidence) -> None:
    nginx = seen.nginx
    redis = [s.redis_wanted_s for s in seen.hosts if s.redis_wanted_s is not None]
    demands: dict[figures.Bottleneck, float | None] = {
        "server": _servers_demand(seen),
        "load": seen.outcome.demand,
        # The larger demand: of Redis, or of the slow Redis in front of it.
        "redis": max(redis, default=seen.redis.total / 1e6) / seen.wall,
        "nginx": nginx.wanted_s / seen.wall if nginx and nginx.wanted_s is not None else None,
    }
    by_role = {role: [host for host in run.hosts if host.role == role] for role in demands}
    found = {role: pressure(demand, by_role[role]) for role, demand in demands.items()}
    if run.conditions.balancer == "none":
        found["nginx"] = None  # nginx does not run, so its host has other work
    run.bottleneck, run.lower_bound = judge(found)
    hosts = by_role.get(run.bottleneck or "none", [])
    run.bottleneck_host = max(hosts, key=lambda host: of_host(host) or 0.0).name if hosts else None


def _servers_demand(seen: Evidence) -> float | None:
    """Return the largest CPU demand of an instance; if it is unknown, how busy the servers' CPUs
    were. With quotas: the demand of the instance that is nearest to its quota. If servers may use
    all cores without a quota: the used share of the cores."""
    if seen.spec.conditions.quota:
        return max((of_quota(*share) for share in seen.quota_shares), default=None)
    found = []
    for use in seen.uses:
        known = [used for used in use.used if used]
        wanted = [used.wanted_us for used in known if used.wanted_us is not None]
        if use.spread:
            # Other processes share these cores, so a wait for a core is no evidence of a limit.
            spent = sum(used.cpu.total for used in known)
            found.append(min(1.0, spent / 1e6 / seen.seconds / use.spread))
        elif len(wanted) == len(use.used):
            found.append(min(1.0, max(wanted) / 1e6 / seen.seconds))
        elif use.busy is not None:
            found.append(use.busy)
    return max(found, default=None)


def _servers(seen: Evidence) -> figures.ProcessFigures:
    """Return the figures of all instances together."""
    uses, quota = seen.uses, seen.quota_shares
    cpu, scope = _cpu(seen)
    switches, counted = _switches(seen)
    faults = figures.total([use.faults for use in uses])
    return figures.ProcessFigures(
        cpu_user_s=round(cpu.user / 1e6, 6),
        cpu_system_s=round(cpu.system / 1e6, 6),
        cpu_us_per_request=round(cpu.total / seen.during, 3),
        cpu_user_us_per_request=round(cpu.user / seen.during, 3),
        cpu_system_us_per_request=round(cpu.system / seen.during, 3),
        cpu_share=round(cpu.total / 1e6 / seen.seconds, 4),
        quota_used=max((round(used, 4) for used, _ in quota), default=None),
        throttled_share=max((round(throttled, 4) for _, throttled in quota), default=None),
        foreign_share=_foreign_share(uses, cpu),
        voluntary_switches_per_request=round(switches[0], 4),
        involuntary_switches_per_request=round(switches[1], 4),
        page_faults_per_request=None if faults is None else round(faults / seen.during, 4),
        samples=min(use.samples for use in uses),
        source=f"CPU: {scope}; switches: {counted}",
        **_sums(uses, PEAKS),
        **_sums([host.host.tcp for host in seen.hosts if host.servers], TCP),
    )


def _cpu(seen: Evidence) -> tuple[CpuTime, str]:
    """Return the CPU time of the servers, and the method that measured it."""
    cpu = CpuTime.of_all([use.cpu for use in seen.uses])
    if cpu is not None:
        return cpu, "control group during the load"
    lives = [of.life.cpu for of in seen.stopped.values() if of.life]
    user, system = sum(life.user for life in lives), sum(life.system for life in lives)
    serving = [host for host in seen.hosts if host.servers]
    if all(host.role == "server" for host in serving) and user + system > 0:
        # The time from start to end includes start and shutdown, which are slow with many workers.
        whole = sum(host.host.cpu_s for host in serving) * 1e6
        part, scope = whole / (user + system), "the whole host during the load"
    else:
        part, scope = seen.during / seen.all_requests, LIFE
    return CpuTime(user * part, system * part), scope


def _switches(seen: Evidence) -> tuple[tuple[float, float], str]:
    """Return the voluntary and involuntary switches per request, and the method."""
    found, over, text = [use.switches for use in seen.uses], seen.during, TASKS
    if None in found:
        found = [of.life.switches for of in seen.stopped.values() if of.life]
        over, text = seen.all_requests, LIFE
    sums = [sum(getattr(each, name) for each in found) / over for name in Switches._fields]
    return (sums[0], sums[1]), text


def _foreign_share(uses: Sequence[ServersUse], cpu: CpuTime) -> float | None:
    """Return the share of the servers' own CPUs that other processes used; None if unknown."""
    cpus = sum(use.cpus for use in uses)
    busy = [use.busy * use.cpus for use in uses if use.busy is not None and use.cpus]
    seconds = max(use.seconds for use in uses)  # all servers were observed for the same time
    if len(busy) < len(uses):
        return None
    return round(max(0.0, (sum(busy) - cpu.total / 1e6 / seconds) / cpus), 4)


def all_statistics(
    found: Sequence[figures.ServerStatistics | None],
) -> figures.ServerStatistics | None:
    """Return the instances' statistics as sums (peak memory: maximum); None if one is unknown."""
    known = [one for one in found if one is not None]
    if len(known) < len(found) or not known:
        return None
    if len(known) == 1:
        return known[0]
    classes = {name: None for one in known for name in one.responses}
    sums = _sums(known, ("requests", "bytes_sent", "cpu_user_s", "cpu_system_s"))
    requests, spent = sums["requests"], figures.total([sums["cpu_user_s"], sums["cpu_system_s"]])
    more = {
        "responses": {name: sum(one.responses.get(name, 0) for one in known) for name in classes},
        "cpu_us_per_request": round(spent / requests * 1e6, 1) if requests and spent else None,
        "peak_memory_mb": max(one.peak_memory_mb or 0.0 for one in known),
    }
    return figures.ServerStatistics.model_validate({**sums, **more})


def _sums(of: Sequence[object], names: Iterable[str]) -> dict[str, float | None]:
    """Return the sum of each attribute in `names`, by name; None if a value is unknown."""
    return {name: figures.total([getattr(one, name, None) for one in of]) for name in names}


def _other(cpu: CpuTime, seconds: float) -> figures.OtherProcess:
    return figures.OtherProcess(
        cpu_user_s=round(cpu.user / 1e6, 6),
        cpu_system_s=round(cpu.system / 1e6, 6),
        cpu_share=round(cpu.total / 1e6 / seconds, 4),
    )


# ---- The bottleneck of a run ----
# Demand is the share of the load's time in which a process ran or waited for a CPU. So a load
# generator that shares a CPU with Redis can be at its limit with half of the CPU. A process alone
# on a host is also at its limit if the host used its whole quota, or was throttled in most periods.
# A server with its own quota is at its limit if it used the whole quota and was throttled in most
# periods.

LIMIT = 0.9
"""A process with at least this demand was at its limit."""
THROTTLED = 0.5
"""A host that is throttled in a larger share of the periods is at its limit. A host below its limit
can also be throttled sometimes, if its work comes in bursts."""


def judge(
    demands: Mapping[figures.Bottleneck, float | None],
) -> tuple[figures.Bottleneck | None, bool]:
    """Return the bottleneck, and whether the rate is a lower bound: the load generator was at its
    limit, but the server was not. `demands`: the needed share of a core (0 to 1), by role; None if
    unknown or absent."""
    server, load = demands["server"], demands["load"]
    if server is None or load is None:
        return None, False
    if server >= LIMIT:
        return "server", False
    others = {name: demand or 0.0 for name, demand in demands.items() if name != "server"}
    most = max(others, key=lambda name: (others[name], name == "load"))
    return (most if others[most] >= LIMIT else "none"), load >= LIMIT


def pressure(demand: float | None, hosts: Sequence[figures.HostFigures]) -> float | None:
    """Return the maximum of `demand` and the utilisation of `hosts`; None if all are unknown."""
    known = [found for host in hosts if (found := of_host(host)) is not None]
    return max([*known, *([] if demand is None else [demand])], default=None)


def of_quota(used: float, throttled: float) -> float:
    """Return how near a server was to its quota. `used`: the used share of the quota; `throttled`:
    the share of periods in which it was throttled. A server that was rarely throttled could have
    used more."""
    return min(1.0, used) if throttled > THROTTLED else min(LIMIT / 2, used)


def of_host(host: figures.HostFigures) -> float | None:
    """Return how near a host was to its limit, which is 1.0. Return None without a quota, because
    other work may have used the host's CPUs."""
    if host.throttled_share is None:
        return None
    return 1.0 + host.throttled_share if host.throttled_share > THROTTLED else host.cpu_share
