# SPDX-License-Identifier: MIT
"""The calculation of capacity, with figures that can be checked by hand."""

from pathlib import Path

import pytest
from rich.console import Console

from bench.readers.capacity import (
    HEADROOM,
    LINK_BYTES,
    Layout,
    RequestCost,
    best_layout,
    capacity,
    demands,
    limit_of,
    predictions,
    show,
)
from bench.records.conditions import Conditions, Role
from bench.records.environment import HostInfo
from bench.records.errors import UserError
from bench.records.figures import AbFigures, OtherProcess, WrkFigures
from bench.records.results import Results
from bench.records.store import save

from ..report.made import plain_runs, results_of

PAGE = RequestCost("epoll", server=40.0, redis=20.0, nginx=80.0, load=60.0, bytes=2000.0)


def host(role: Role, name: str, limit: float | None = None, cpus: int = 1) -> HostInfo:
    return HostInfo(role=role, name=name, address="10.0.0.1", cpu_limit=limit, cpus=cpus)


LARGE = RequestCost("epoll", server=40.0, redis=0.0, nginx=80.0, bytes=80_000.0)


@pytest.mark.parametrize(
    ("cost", "layout", "rate", "limit"),
    [
        (PAGE, Layout(servers=1, nginx=1, redis=1), 12_500, "nginx"),
        (PAGE, Layout(servers=1, nginx=2, redis=1), 25_000, "nginx"),
        (PAGE, Layout(servers=1, nginx=3, redis=1), 25_000, "servers"),
        (PAGE, Layout(servers=3, nginx=6, redis=1), 50_000, "Redis"),
        (LARGE, Layout(servers=1, nginx=1, redis=0), LINK_BYTES / 80_640, "network of nginx"),
    ],
)
def test_the_slowest_host_limits_all(
    cost: RequestCost, layout: Layout, rate: float, limit: str
) -> None:
    assert HEADROOM == 0.7
    assert capacity(cost, layout) == (pytest.approx(0.7 * rate), limit)


@pytest.mark.parametrize("generator", ["ab", "wrk"])
def test_a_request_has_bytes_and_a_cost(generator: str) -> None:
    behind = Conditions("large", balancer="keep", generator=generator)
    (run,) = plain_runs(("epoll",), (100,), 1, **behind._asdict())
    both = {"seconds": 1.0, "transferred_bytes": 80_000_000}
    if generator == "ab":
        counts = dict.fromkeys(("failed", "html_bytes", "requests_per_second", "mean_ms"), 0)
        run.ab = AbFigures(**both, **counts, complete=1000, concurrency=1)
    else:
        empty = {"lengths": {}, "errors": {}, "closes": 0, "unasked": 0}
        run.wrk = WrkFigures(**both, **empty, statuses={"200": 1000})
    (found,) = demands(results_of([run]), behind)
    assert found.bytes == 80_000
    assert run.process
    run.process.cpu_us_per_request = 0.0
    assert demands(results_of([run]), behind) == [], "a cost of 0 gives no capacity"


@pytest.mark.parametrize(
    ("hosts", "layout"),
    [
        (4, Layout(servers=1, nginx=2, redis=1)),
        (5, Layout(servers=1, nginx=2, redis=1)),  # a third nginx alone would not help
        (7, Layout(servers=2, nginx=4, redis=1)),
        (400, Layout(servers=2, nginx=4, redis=1)),  # more hosts would only wait for Redis
    ],
)
def test_hosts_are_shared_out_in_proportion(hosts: int, layout: Layout) -> None:
    assert best_layout(PAGE, hosts)[0] == layout


def test_one_redis_is_the_end_however_many_hosts() -> None:
    (_, one, limit), (_, spread, _) = (best_layout(PAGE, 400, redis) for redis in (1, None))
    assert (limit, one) == ("Redis", pytest.approx(HEADROOM * 1e6 / 20))
    assert spread > 20 * one
    with pytest.raises(UserError, match="too few"):
        best_layout(PAGE, 2)


LIMITED = [
    *(host(role, role, limit) for role, limit in (("load", None), ("nginx", 0.4), ("redis", 0.4))),
    *(host("server", name, 0.2) for name in ("zerohttpd", "zerohttpd2")),
]
FOUR_CORES = [host(role, role, None, 4) for role in ("load", "nginx", "redis", "server")]


@pytest.mark.parametrize(
    ("hosts", "costs", "instances", "rate", "limit"),
    [  # costs of server, Redis, nginx and load
        (LIMITED, (40, 20, 10, 60), 1, 5_000, "zerohttpd"),
        (LIMITED, (40, 20, 10, 60), 2, 10_000, "zerohttpd"),
        (LIMITED, (40, 20, 10, 60), 3, 7_500, "zerohttpd"),
        (FOUR_CORES, (100, 20, 10, 10), 1, 10_000, "server"),  # the instance has one thread
        (FOUR_CORES, (100, 20, 10, 10), 2, 20_000, "server"),
        (FOUR_CORES, (10, 50, 10, 10), 2, 20_000, "redis"),
        (FOUR_CORES, (10, 10, 100, 10), 2, 40_000, "nginx"),
    ],
)
def test_the_quota_of_a_host_counts(
    hosts: list[HostInfo], costs: tuple[float, ...], instances: int, rate: float, limit: str
) -> None:
    assert limit_of(RequestCost("epoll", *costs), instances, hosts) == (pytest.approx(rate), limit)


def test_the_quota_of_each_instance_counts() -> None:
    cost = RequestCost("epoll", server=100, redis=0)
    assert limit_of(cost, 2, FOUR_CORES, quota=0.2) == (pytest.approx(4_000), "server")


def test_results_without_hosts_say_nothing() -> None:
    with pytest.raises(UserError, match="one machine"):
        limit_of(PAGE, 1, [])


def behind_nginx() -> Results:
    """Return results of one and two instances with nginx, and of runs that must not count. With one
    instance a request takes 40 us of CPU time of the server, 20 us of Redis, 50 us of nginx, and
    90 us of the load generator."""
    behind = {"workload": "guestbook", "balancer": "close"}
    runs = plain_runs(("epoll",), (100, 300), 3, **behind, instances=1)
    runs += plain_runs(("epoll",), (100, 300), 3, **behind, instances=2)
    (failed,) = plain_runs(("poll",), (100,), 1, **behind)
    failed.state = "failed"
    for run in runs:
        instances = run.conditions.instances
        assert run.process
        assert run.open_loop
        run.process.cpu_us_per_request = 40.0 if instances == 1 else 400.0
        run.nginx_process = OtherProcess(cpu_user_s=0.2, cpu_system_s=0.3, cpu_share=0.5)
        run.open_loop.rate_done = instances * 1000.0 * run.run + run.concurrency
    hosts = [host(role, role) for role in ("load", "nginx", "redis")]
    hosts += [host("server", "a", 0.2), host("server", "b", 0.2)]
    return results_of([*runs, failed, *plain_runs(("epoll",), (100,), 1)], hosts=hosts)


def test_two_instances_are_predicted_from_one() -> None:
    results = behind_nginx()
    reference = Conditions("guestbook", balancer="close")
    assert demands(results, reference) == [RequestCost("epoll", 40.0, 20.0, 50.0, 90.0)]
    (one, *one_bound), (two, rate, _) = predictions(results)
    assert (one.conditions, one_bound) == (reference, [pytest.approx(5_000), "a"])
    assert (two.conditions.instances, rate) == (2, pytest.approx(10_000))
    assert (one["rate"], two["rate"], two.level) == (2_300, 4_300, 300), "best"


def test_the_capacity_is_printed(tmp_path: Path) -> None:
    results = behind_nginx()
    save(results, tmp_path)
    console = Console(width=160)
    with console.capture() as capture:
        show(tmp_path, (4, 400), console)
    shown = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "epoll 40.0 50.0 20.0 90.0 0" in shown
    assert "epoll 400 on one Redis 3 2 1 35,000 Redis (394 hosts not needed)" in shown
    two = "epoll guestbook, 2 instances, through nginx, connections closed"
    assert f"{two} 10,000 a 4,300 at 300 0.43" in shown
    assert any(line.endswith("5,000 a 2,300 at 300 0.46") for line in shown)
    results.runs = [run for run in results.runs if run.conditions.instances == 2]
    save(results, tmp_path)
    with pytest.raises(UserError, match="no runs through nginx"):
        show(tmp_path, (4,), console)
