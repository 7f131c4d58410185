# SPDX-License-Identifier: MIT
"""Compute the figures of a run from the data of the load generator and of all hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.host.accounting import CpuTime
from bench.host.kernel import TcpCounters
from bench.records.conditions import RunSpec
from bench.records.figures import (
    AbFigures,
    Bottleneck,
    CallFigures,
    HostFigures,
    LittlesLaw,
    OpenLoopFigures,
    OtherProcess,
    ProcessFigures,
    Run,
    ServerStatistics,
    WrkFigures,
    total,
)
from bench.services.balancer import BalancerUse
from bench.stations.footprint import Lifetime, ServersUse, Stopped, Switches
from bench.stations.site import Seen
from bench.sweep.loading import Loaded

PEAKS = ("processes_peak", "threads_peak", "descriptors_peak", "pss_peak_mb", "pss_mean_mb")
CLOCK_SECONDS = 0.1
"""The longest time, in seconds, that ab's start and its report add to a run's measured duration."""
LIFE = "the server's life, over all its requests"


def enter(run: Run, spec: RunSpec, loaded: Loaded, stopped: Mapping[str, Stopped]) -> None:
    """Store all figures in a run after its load."""
    _enter_outcome(run, loaded)
    run.calls = calls_per_request(loaded.hosts, spec.requests)
    ended = [end.statistics for of in stopped.values() for end in of.servers]
    run.server_statistics = all_statistics(ended)
    counted = next((of.stacks for of in stopped.values() if of.stacks), None)
    sampled = next((seen.report.stacks for seen in loaded.hosts if seen.report.stacks), None)
    run.stacks = sampled or counted
    if not loaded.completed or not spec.conditions.rated:
        return
    done, idle, seconds = loaded.outcome, loaded.idle, loaded.seconds
    idle_requests = idle.requests_during if idle else 0
    before = 1 + loaded.warmed_up + (idle.requests - idle_requests if idle else 0)
    served = spec.requests + idle_requests
    run.process = _servers(loaded.hosts, stopped, (served, served + before), seconds)
    quota = run.conditions.quota
    uses = _uses(loaded.hosts) if quota else []
    shares = [each for use in uses for each in _shares_of_quota(use, quota, seconds)]
    if shares:
        run.process.quota_used = round(max(used for used, _ in shares), 4)
        run.process.throttled_share = round(max(throttled for _, throttled in shares), 4)
    run.hosts = [found for seen in loaded.hosts if (found := host_figures(seen, loaded.wall))]
    run.redis_process = _other(loaded.redis, loaded.wall)
    if nginx := _nginx(loaded):
        run.nginx_process = _other(nginx.cpu, loaded.wall)
    if done.cpu and done.wall_seconds:
        run.load_process = _other(done.cpu, done.wall_seconds)
    _enter_bottleneck(run, loaded)
    if run.ab and spec.conditions.mode == "closed" and done.latency:
        run.littles_law = littles_law(spec, done.wall_seconds, done.latency.mean)


def _enter_outcome(run: Run, loaded: Loaded) -> None:
    outcome = loaded.outcome
    run.ab_command, run.latency = outcome.command, outcome.latency
    run.idle_reopened = loaded.idle.reopened if loaded.idle else None
    figures, run.memory = outcome.figures, outcome.memory
    run.ab = figures if isinstance(figures, AbFigures) else None
    run.wrk = figures if isinstance(figures, WrkFigures) else None
    run.open_loop = figures if isinstance(figures, OpenLoopFigures) else None


def calls_per_request(hosts: Sequence[Seen], requests: int) -> CallFigures | None:
    """Return the servers' system calls per request; None if no calls were counted."""
    found = [calls for seen in hosts if (calls := seen.report.calls)]
    counted = sum((Counter(calls.by_name) for calls in found), Counter[str]())
    each = {name: round(count / requests, 4) for name, count in counted.most_common()}
    writes = round(sum(calls.writes for calls in found) / requests, 4)
    return CallFigures(per_request=each, writes=writes) if found else None


def host_figures(seen: Seen, seconds: float) -> HostFigures | None:
    """Return a host's figures; None if everything runs on one machine. `seconds`: the time between
    the two readings of the host's counters, by our clock."""
    if seen.role is None:
        return None
    used, tcp = seen.report.host, seen.report.host.tcp
    return HostFigures(
        role=seen.role,
        name=seen.name,
        cpu_share=round(min(1.0, used.cpu_s / (seconds * seen.report.allowed)), 4),
        throttled_share=None
        if used.periods is None or used.throttled is None
        else round(used.throttled / max(used.periods, 1), 4),
        **(tcp._asdict() if tcp else {}),
    )


def littles_law(spec: RunSpec, wall: float, mean_ms: float) -> LittlesLaw:
    """Return a run's values for Little's law: the rate by our own clock, the mean time of all
    requests, and their product."""
    rate = spec.requests / max(wall - CLOCK_SECONDS / 2, CLOCK_SECONDS / 2)
    product = rate * mean_ms / 1000
    return LittlesLaw(
        concurrency=spec.concurrency,
        rate=round(rate, 3),
        mean_ms=mean_ms,
        product=round(product, 3),
        deviation=round(product / spec.concurrency - 1, 4),
    )


def _enter_bottleneck(run: Run, loaded: Loaded) -> None:
    nginx = _nginx(loaded)
    demands: dict[Bottleneck, float | None] = {
        "server": _servers_demand(loaded, run.conditions.quota),
        "load": loaded.outcome.demand,
        "redis": _redis_demand(loaded),
        "nginx": nginx.wanted_s / loaded.wall if nginx and nginx.wanted_s is not None else None,
    }
    by_role = {role: [host for host in run.hosts if host.role == role] for role in demands}
    found = {role: pressure(demand, by_role[role]) for role, demand in demands.items()}
    if run.conditions.balancer == "none":
        found["nginx"] = None  # nginx does not run, so its host has other work
    run.bottleneck, run.lower_bound = judge(found)
    hosts = by_role.get(run.bottleneck or "none", [])
    run.bottleneck_host = max(hosts, key=lambda host: of_host(host) or 0.0).name if hosts else None


def _servers_demand(loaded: Loaded, quota: float) -> float | None:
    """Return the largest CPU demand of an instance; if it is unknown, how busy the servers' CPUs
    were. With quotas: the demand of the instance that is nearest to its quota. If servers may use
    all cores without a quota: the used share of the cores."""
    found = []
    for use in _uses(loaded.hosts):
        known = [used for used in use.used if used]
        wanted = [used.wanted_us for used in known if used.wanted_us is not None]
        if quota:
            found += [of_quota(*share) for share in _shares_of_quota(use, quota, loaded.seconds)]
        elif use.spread:
            # Other processes share these cores, so a wait for a core is no evidence of a limit.
            spent = sum(used.cpu.total for used in known)
            found.append(min(1.0, spent / 1e6 / loaded.seconds / use.spread))
        elif len(wanted) == len(use.used):
            found.append(min(1.0, max(wanted) / 1e6 / loaded.seconds))
        elif use.busy is not None:
            found.append(use.busy)
    return max(found, default=None)


def _shares_of_quota(use: ServersUse, quota: float, seconds: float) -> list[tuple[float, float]]:
    """Return two shares for each instance: the used share of its quota in `seconds`, and the share
    of periods in which it was throttled."""
    known = [used for used in use.used if used]
    allowed = 1e6 * quota * seconds
    return [(used.cpu.total / allowed, used.throttled or 0.0) for used in known]


def _redis_demand(loaded: Loaded) -> float:
    """Return the larger of two demands: of Redis, and of the slow Redis in front of it."""
    wanted = [s.report.redis_wanted_s for s in loaded.hosts if s.report.redis_wanted_s is not None]
    return max(wanted, default=loaded.redis.total / 1e6) / loaded.wall


def _nginx(loaded: Loaded) -> BalancerUse | None:
    """Return the CPU usage of nginx; None if the run has no nginx."""
    return next((s.report.balancer for s in loaded.hosts if s.report.balancer), None)


def _servers(
    hosts: Sequence[Seen],
    stopped: Mapping[str, Stopped],
    requests: tuple[int, int],
    seconds: float,
) -> ProcessFigures:
    """Return the figures of all instances together. `requests`: the numbers of requests during the
    load, and from the servers' start to their end."""
    serving = [seen for seen in hosts if seen.report.servers]
    uses = _uses(serving)
    lives = [life for seen in serving if (life := stopped[seen.name].life)]
    cpu, scope = _cpu(serving, lives, requests)
    switches, counted = _switches(uses, lives, requests)
    served, faults = requests[0], total([use.faults for use in uses])
    return ProcessFigures(
        cpu_user_s=round(cpu.user / 1e6, 6),
        cpu_system_s=round(cpu.system / 1e6, 6),
        cpu_us_per_request=round(cpu.total / served, 3),
        cpu_user_us_per_request=round(cpu.user / served, 3),
        cpu_system_us_per_request=round(cpu.system / served, 3),
        cpu_share=round(cpu.total / 1e6 / seconds, 4),
        foreign_share=_foreign_share(uses, cpu),
        voluntary_switches_per_request=round(switches[0], 4),
        involuntary_switches_per_request=round(switches[1], 4),
        page_faults_per_request=None if faults is None else round(faults / served, 4),
        samples=min(use.samples for use in uses),
        source=f"CPU: {scope}; switches: {counted}",
        **_sums(uses, PEAKS),
        **_sums([seen.report.host.tcp for seen in serving], TcpCounters._fields),
    )


def _cpu(
    hosts: Sequence[Seen], lives: Sequence[Lifetime], requests: tuple[int, int]
) -> tuple[CpuTime, str]:
    uses = _uses(hosts)
    cpu = CpuTime.of_all([use.cpu for use in uses])
    if cpu is not None:
        return cpu, "control group during the load"
    user, system = (sum(getattr(life.cpu, name) for life in lives) for name in CpuTime._fields)
    if all(seen.role == "server" for seen in hosts) and user + system > 0:
        # The time from start to end includes start and shutdown, which are slow with many workers.
        whole = sum(seen.report.host.cpu_s for seen in hosts) * 1e6
        part, scope = whole / (user + system), "the whole host during the load"
    else:
        part, scope = requests[0] / requests[1], LIFE
    return CpuTime(user * part, system * part), scope


def _switches(
    uses: Sequence[ServersUse], lives: Sequence[Lifetime], requests: tuple[int, int]
) -> tuple[tuple[float, float], str]:
    known = [use.switches for use in uses if use.switches]
    found, over, text = known, requests[0], "its tasks during the load"
    if len(known) < len(uses):
        found, over, text = [life.switches for life in lives], requests[1], LIFE
    both = [sum(getattr(switches, name) for switches in found) / over for name in Switches._fields]
    return (both[0], both[1]), text


def _foreign_share(uses: Sequence[ServersUse], cpu: CpuTime) -> float | None:
    """Return the share of the servers' own CPUs that other processes used; None if unknown."""
    cpus = sum(use.cpus for use in uses)
    busy = [use.busy * use.cpus for use in uses if use.busy is not None and use.cpus]
    seconds = max(use.seconds for use in uses)  # all servers were observed for the same time
    if len(busy) < len(uses):
        return None
    return round(max(0.0, (sum(busy) - cpu.total / 1e6 / seconds) / cpus), 4)


def _uses(hosts: Sequence[Seen]) -> list[ServersUse]:
    return [seen.report.servers for seen in hosts if seen.report.servers]


def all_statistics(found: Sequence[ServerStatistics | None]) -> ServerStatistics | None:
    """Return the instances' statistics as sums (peak memory: maximum); None if one is unknown."""
    known = [one for one in found if one is not None]
    if len(known) < len(found) or not known:
        return None
    if len(known) == 1:
        return known[0]
    classes = {name: None for one in known for name in one.responses}
    sums = _sums(known, ("requests", "bytes_sent", "cpu_user_s", "cpu_system_s"))
    requests, spent = sums["requests"], total([sums["cpu_user_s"], sums["cpu_system_s"]])
    more = {
        "responses": {name: sum(one.responses.get(name, 0) for one in known) for name in classes},
        "cpu_us_per_request": round(spent / requests * 1e6, 1) if requests and spent else None,
        "peak_memory_mb": max(one.peak_memory_mb or 0.0 for one in known),
    }
    return ServerStatistics.model_validate({**sums, **more})


def _sums(of: Sequence[object], names: Iterable[str]) -> dict[str, float | None]:
    """Return the sum of each attribute in `names`, by name; None if a value is unknown."""
    return {name: total([getattr(one, name, None) for one in of]) for name in names}


def _other(cpu: CpuTime, seconds: float) -> OtherProcess:
    return OtherProcess(
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


def judge(demands: Mapping[Bottleneck, float | None]) -> tuple[Bottleneck | None, bool]:
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


def pressure(demand: float | None, hosts: Sequence[HostFigures]) -> float | None:
    """Return the maximum of `demand` and the utilisation of `hosts`; None if all are unknown."""
    known = [found for host in hosts if (found := of_host(host)) is not None]
    return max([*known, *([] if demand is None else [demand])], default=None)


def of_quota(used: float, throttled: float) -> float:
    """Return how near a server was to its quota. `used`: the used share of the quota; `throttled`:
    the share of periods in which it was throttled. A server that was rarely throttled could have
    used more."""
    return min(1.0, used) if throttled > THROTTLED else min(LIMIT / 2, used)


def of_host(host: HostFigures) -> float | None:
    """Return how near a host was to its limit, which is 1.0. Return None without a quota, because
    other work may have used the host's CPUs."""
    if host.throttled_share is None:
        return None
    return 1.0 + host.throttled_share if host.throttled_share > THROTTLED else host.cpu_share
