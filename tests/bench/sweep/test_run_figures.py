# SPDX-License-Identifier: MIT
"""The sweep calculates a run's figures, here from invented counts and checked by hand."""

from dataclasses import replace
from typing import Any

import pytest

from bench.host.accounting import CpuTime, Periods, Usage
from bench.host.kernel import TcpCounters
from bench.host.machine import HostCount
from bench.load.client import Response
from bench.load.running import IdleReport, Outcome
from bench.records.conditions import Conditions, Cores, Role, RunSpec
from bench.records.figures import (
    AbFigures,
    Bottleneck,
    HostFigures,
    Latency,
    OtherProcess,
    ProcessFigures,
    Run,
    ServerStatistics,
)
from bench.services.balancer import BalancerUse
from bench.stations.footprint import Lifetime, Report, ServersUse, Stopped, Switches
from bench.subjects.running import Ended
from bench.sweep.run_figures import Evidence, enter, judge, pressure

REQUESTS = 4000
USUAL = Conditions("redirect")
REDIS = CpuTime(200_000, 300_000)
LATENCY = Latency(p50=9, p90=10, p99=30, p999=35, max=40, mean=10, count=REQUESTS, source="ab")
OUTCOME = Outcome(
    tool="ab",
    status=0,
    figures=AbFigures(
        complete=REQUESTS,
        failed=0,
        non_2xx=REQUESTS,
        concurrency=50,
        transferred_bytes=244 * REQUESTS,
        html_bytes=240 * REQUESTS,
        seconds=2.0,
        requests_per_second=2000,
        mean_ms=10,
    ),
    completed=REQUESTS,
    latency=LATENCY,
    wall_seconds=2.55,
    cpu=CpuTime(500_000, 520_000),
    demand=0.5,
)
"""The outcome of ab, which sent requests for 2 s and ran for 2.55 s."""


TCP = TcpCounters(5, 6, 7, 8)
PEAKS: Any = {"processes_peak": 2, "threads_peak": 3, "descriptors_peak": 70, "pss_peak_mb": 2.5}


def use(**other: Any) -> ServersUse:
    """Return the resources that one server used in the 2.5 s of its observation."""
    spent = other.pop("spent", [CpuTime(300_000, 500_000)])
    wanted, shares = other.pop("wanted_us", [1_000_000]), other.pop("throttled", [None])
    used = [
        cpu
        and Usage(
            cpu,
            None if us is None else us - cpu.total,
            None if share is None else Periods(100, round(100 * share)),
        )
        for cpu, us, share in zip(spent, wanted, shares, strict=True)
    ]
    found: dict[str, Any] = {"alive": [True], "used": used, "switches": Switches(6000, 100)}
    found |= {"faults": 1000, "seconds": 2.5, "busy": 0.5, "cpus": 1, "samples": 9}
    found["pss_mean_mb"] = 2.0
    return ServersUse(**found | PEAKS | other)


def seen(role: Role | None = None, name: str = "", **report: Any) -> Report:
    """Return the report of a host: it used 1 s of CPU time, half of its quota for 2.5 s."""
    host = report.pop("host", HostCount(1.0, None, None, TCP))
    return Report(role=role, name=name, host=host, allowed=0.8, **report)


def evidence_of(hosts: list[Report], conditions: Conditions = USUAL, **other: Any) -> Evidence:
    """Return the evidence of a run of 4,000 requests at 50 connections."""
    known: dict[str, Any] = {
        "spec": RunSpec("epoll", conditions, other.pop("concurrency", 50), 1, REQUESTS, 60.0),
        "answer": Response(302, b"", b"." * 240),
        "outcome": OUTCOME,
        "counted": (4007, 3),
        "redis": REDIS,
        "idle": None,
        "stopped": {},
        "private": True,
    }
    return Evidence(warmed_up=99, wall=2.5, hosts=hosts, **known | other)


def entered(evidence: Evidence) -> Run:
    """Return the run of this evidence, with its figures."""
    run = Run(state="held", **vars(evidence.spec))
    enter(run, evidence)
    return run


def run_of(hosts: list[Report], conditions: Conditions = USUAL, **other: Any) -> Run:
    """Return a run of these hosts with its figures."""
    return entered(evidence_of(hosts, conditions, **other))


def test_on_one_machine() -> None:
    run = run_of([seen(servers=use())])
    assert run.process == ProcessFigures(
        cpu_user_s=0.3,
        cpu_system_s=0.5,
        cpu_us_per_request=200.0,
        cpu_user_us_per_request=75.0,
        cpu_system_us_per_request=125.0,
        cpu_share=0.4,
        foreign_share=0.18,  # the CPU was busy for 1.25 s, and 0.8 s of them with the server
        voluntary_switches_per_request=1.5,
        involuntary_switches_per_request=0.025,
        page_faults_per_request=0.25,
        pss_mean_mb=2.0,
        samples=9,
        source="CPU: control group during the load; switches: its tasks during the load",
        **PEAKS,
        **TCP._asdict(),
    )
    assert run.redis_process == OtherProcess(cpu_user_s=0.2, cpu_system_s=0.3, cpu_share=0.2)
    assert run.load_process == OtherProcess(cpu_user_s=0.5, cpu_system_s=0.52, cpu_share=0.4)
    assert (run.hosts, run.nginx_process, run.bottleneck) == ([], None, "none")
    assert run_of([seen(servers=use())], redis=CpuTime(1_200_000, 1_100_000)).bottleneck == "redis"
    law = run.littles_law
    assert (law.rate, law.product, law.deviation) == (1600.0, 16.0, -0.68)  # in 2.5 s


def test_requests_of_idle_connections_count() -> None:
    idle = IdleReport(asked=10, held=10, reopened=7, requests=1900, requests_during=1000)
    run = run_of([seen(servers=use())], idle=idle)
    assert run.idle_reopened == 7
    figures = run.process
    assert (figures.cpu_us_per_request, figures.page_faults_per_request) == (160.0, 0.2)
    lived = {"": Stopped(life=Lifetime(cpu=CpuTime(6e5, 9e5), switches=Switches(3000, 600)))}
    by_life = use(spent=[None], switches=None)
    figures = run_of([seen(servers=by_life)], idle=idle, stopped=lived).process
    # 6,000 requests: 1 first, 99 to warm up, 900 idle before the load, 4,000 load, 1,000 idle.
    assert (figures.cpu_user_s, figures.cpu_us_per_request) == (0.5, 250.0)
    assert figures.voluntary_switches_per_request == 0.5
    assert figures.involuntary_switches_per_request == 0.1


def of_hosts(**nginx: Any) -> list[Report]:
    """Return two hosts with servers, and one host each for the load, nginx and Redis."""
    stopped = HostCount(1.9, 25, 24, None)
    other = use(
        spent=[CpuTime(100_000, 100_000)], samples=4, busy=0.9, faults=600, processes_peak=5
    )
    return [
        seen("load", "l", host=HostCount(1.0, 25, 10, None)),
        seen("nginx", "n", balancer=BalancerUse(cpu=CpuTime(500_000, 750_000), **nginx)),
        seen("server", "a", servers=use()),
        seen("server", "b", servers=other, host=stopped),
        seen("redis", "r", redis_wanted_s=2.3),
    ]


def test_several_hosts_together() -> None:
    run = run_of(of_hosts(wanted_s=2.0))
    both = run.process
    assert (both.cpu_us_per_request, both.cpu_share) == (250.0, 0.5)
    assert both.foreign_share == 0.5, "1.4 of 2 CPUs were busy, and 0.4 of them with servers"
    assert (both.samples, both.processes_peak, both.pss_peak_mb) == (4, 7, 5.0)
    assert (both.page_faults_per_request, both.voluntary_switches_per_request) == (0.4, 3.0)
    assert run.nginx_process == OtherProcess(cpu_user_s=0.5, cpu_system_s=0.75, cpu_share=0.5)
    by_name = {host.name: host for host in run.hosts}
    assert list(by_name) == ["l", "n", "a", "b", "r"]
    assert by_name["n"] == HostFigures(role="nginx", name="n", cpu_share=0.5, **TCP._asdict())
    assert (by_name["b"].cpu_share, by_name["b"].throttled_share) == (0.95, 0.96)
    assert (run.bottleneck, run.bottleneck_host) == ("server", "b")
    calm = [host for host in of_hosts(wanted_s=2.4) if host.name != "b"]
    assert run_of(calm).bottleneck == "redis", "nginx is not in front of the server"
    behind = run_of(calm, USUAL._replace(balancer="keep"))
    assert (behind.bottleneck, behind.bottleneck_host) == ("nginx", "n")
    calm[1] = of_hosts(wanted_s=2.2)[1]
    assert run_of(calm, USUAL._replace(balancer="keep")).bottleneck == "redis"


def test_without_a_group_a_host_says_what_its_servers_used() -> None:
    lived = Lifetime(cpu=CpuTime(3e5, 1e5), switches=Switches(1, 1))
    hosts = [seen("server", "a", servers=use(spent=[None]))]
    process = run_of(hosts, stopped={"a": Stopped(life=lived)}).process
    assert (process.cpu_user_s, process.cpu_system_s) == (0.75, 0.25), "1 s, split 3:1 like `lived`"
    assert process.source.startswith("CPU: the whole host during the load")


ON_TWO = {"wanted_us": [4e6], "spread": 2}


@pytest.mark.parametrize(
    ("quota", "cores", "throttled", "other", "who"),
    [
        (0.0, "one", None, {"wanted_us": [1_850_000]}, "server"),
        (0.0, "one", None, {"wanted_us": [1_750_000]}, "none"),
        (0.0, "one", None, {"wanted_us": [None]}, "none"),
        (0.0, "one", None, {"wanted_us": [None], "busy": 0.95}, "server"),
        (0.4, "one", 0.6, {}, "server"),  # used 0.8 s of 0.4 x 2 s
        (0.4, "one", 0.4, {}, "none"),  # throttled in fewer than half of the periods
        (0.5, "one", 0.6, {}, "none"),  # the quota was not used up
        (0.0, "all", None, ON_TWO | {"spent": [CpuTime(3e6, 7e5)]}, "server"),
        (0.0, "all", None, ON_TWO | {"spent": [CpuTime(3e6, 5e5)]}, "none"),
        (0.4, "all", 0.6, {"spread": 2}, "server"),
    ],
)
def test_when_a_server_is_at_its_limit(
    quota: float, cores: Cores, throttled: float | None, other: dict[str, Any], who: str
) -> None:
    used = use(**{"throttled": [throttled]} | other)
    run = run_of([seen(servers=used)], USUAL._replace(quota=quota, cores=cores))
    assert run.bottleneck == who
    process = run.process
    assert process.throttled_share == throttled
    assert process.quota_used == (round(0.4 / quota, 4) if quota else None)


def test_the_instance_nearest_to_its_quota_counts() -> None:
    spent = [CpuTime(300_000, 500_000), CpuTime(200_000, 0)]
    two = use(spent=spent, throttled=[0.7, 0.1], wanted_us=[1.9e6, 1e6], cpus=2)
    run = run_of([seen(servers=two)], USUAL._replace(quota=0.4))
    process = run.process
    assert (process.quota_used, process.throttled_share, run.bottleneck) == (1.0, 0.7, "server")
    run = run_of([seen(servers=two)])
    assert (run.bottleneck, run.process.foreign_share) == ("server", 0.3), "of two CPUs"


def test_unknown_figures_are_missing() -> None:
    without = use(busy=None, faults=None, pss_peak_mb=None)
    host = seen(servers=without, host=HostCount(1.0, None, None, None))
    process = run_of([seen(servers=use()), host]).process.model_dump()
    unknown = {name for name, figure in process.items() if figure is None}
    assert unknown >= {
        *("listen_overflows", "listen_drops", "retransmits", "time_wait_overflows"),
        *("foreign_share", "page_faults_per_request", "pss_peak_mb"),
    }


def test_there_is_no_figure_of_a_load_that_did_not_end() -> None:
    run = run_of([seen(servers=use())], outcome=replace(OUTCOME, figures=None))
    assert (run.process, run.bottleneck, run.latency) == (None, None, LATENCY)


def test_statistics_of_several_instances_are_added_up() -> None:
    def ended(requests: int | None, answers: dict[str, int]) -> Ended:
        said = ServerStatistics(
            requests=requests,
            responses=answers,
            bytes_sent=1000,
            cpu_user_s=0.1,
            cpu_system_s=0.2,
            cpu_us_per_request=1.0,
            peak_memory_mb=2.0 + (requests or 0) / 1000,
        )
        return Ended(obeyed=True, status=0, statistics=said, last_words="")

    both = {"": Stopped(servers=[ended(1000, {"2xx": 1000}), ended(2000, {"2xx": 1, "5xx": 2})])}
    assert run_of([seen(servers=use())], stopped=both).server_statistics == ServerStatistics(
        requests=3000,
        responses={"2xx": 1001, "5xx": 2},
        bytes_sent=2000,
        cpu_user_s=0.2,
        cpu_system_s=0.4,
        cpu_us_per_request=200.0,
        peak_memory_mb=4.0,
    )
    lacking = {"": Stopped(servers=[ended(1000, {"2xx": 1000}), ended(None, {})])}
    own = run_of([seen(servers=use())], stopped=lacking).server_statistics
    assert (own.requests, own.cpu_us_per_request) == (None, None), "one instance printed no count"
    silent = {"": Stopped(servers=[*both[""].servers, both[""].servers[0].model_copy()])}
    silent[""].servers[2].statistics = None
    assert run_of([seen(servers=use())], stopped=silent).server_statistics is None


@pytest.mark.parametrize(
    ("server", "load", "redis", "nginx", "who", "lower_bound"),
    [
        (0.99, 0.50, 0.10, None, "server", False),
        (0.99, 0.99, 0.10, None, "server", False),
        (0.40, 0.97, 0.30, None, "load", True),
        (0.40, 0.50, 0.95, None, "redis", False),
        (0.40, 0.93, 0.99, None, "redis", True),
        (0.40, 0.50, 0.30, None, "none", False),
        (0.40, 0.97, None, None, "load", True),
        (None, 0.97, 0.10, None, None, False),
        (0.50, 0.50, 0.30, 0.95, "nginx", False),
        (0.50, 0.95, 0.30, 0.97, "nginx", True),
        (0.50, 0.97, 0.30, 0.95, "load", True),
        (0.50, 0.50, 0.99, 0.95, "redis", False),
    ],
)
def test_who_was_the_bottleneck(
    server: float | None,
    load: float,
    redis: float | None,
    nginx: float | None,
    who: str | None,
    lower_bound: bool,
) -> None:
    demands: dict[Bottleneck, float | None] = {"server": server, "load": load}
    assert judge({**demands, "redis": redis, "nginx": nginx}) == (who, lower_bound)


@pytest.mark.parametrize(
    ("demand", "cpu_share", "throttled", "found"),
    [
        (0.4, 0.7, 0.95, 1.95),  # throttled in most periods
        (0.4, 0.95, 0.1, 0.95),  # the quota is used up
        (0.4, 0.5, 0.15, 0.5),  # bursts are throttled, too
        (0.4, 1.0, None, 0.4),  # no quota: another process may use the CPU
        (None, 1.0, None, None),
        (0.5, 0.9, 0.9, 1.9),
    ],
)
def test_a_host_at_its_quota_is_at_its_limit(
    demand: float | None, cpu_share: float, throttled: float | None, found: float | None
) -> None:
    host = HostFigures(role="server", name="a", cpu_share=cpu_share, throttled_share=throttled)
    assert pressure(demand, [host]) == found
    assert pressure(demand, []) == demand
