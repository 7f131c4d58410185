# SPDX-License-Identifier: MIT
"""The file of hosts, and what their limits allow."""

import json
from pathlib import Path

import pytest

from bench.doctor.limits import assess_site, why_impossible
from bench.records.conditions import Conditions
from bench.records.environment import Finding, Limit, SystemLimits
from bench.records.errors import UserError
from bench.records.figures import Balancer, Role
from bench.records.plan import RunSpec
from bench.stations.hosts import load_hosts

GOOD = {
    "load": {"name": "load", "address": "10.77.0.1"},
    "nginx": {"name": "nginx", "address": "10.77.0.2", "agent": ["ssh", "nginx"]},
    "servers": [
        {"name": "a", "address": "10.77.0.3", "agent": ["ssh", "a"]},
        {"name": "b", "address": "b.example", "agent": ["ssh", "b"]},
    ],
    "redis": {"name": "redis", "address": "10.77.0.4", "agent": ["ssh", "redis"]},
}


def test_a_good_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(GOOD))
    hosts = load_hosts(file)
    assert [(role, host.name) for role, host in hosts.all()] == [
        ("load", "load"),
        ("nginx", "nginx"),
        ("server", "a"),
        ("server", "b"),
        ("redis", "redis"),
    ]
    file.write_text(json.dumps({k: v for k, v in GOOD.items() if k != "nginx"}))
    assert load_hosts(file).nginx is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"servers": []}, "servers: List should have at least 1 item"),
        ({"redis": None}, "redis: "),
        ({"redis": {"name": "redis", "address": "10.0.0.1", "agent": []}}, "redis.agent: "),
        ({"load": {"name": "a", "address": "10.77.0.1"}}, "two hosts have the name a"),
        ({"load": {"name": "l", "address": "http://x/"}}, "load.address: is not an IPv4 address"),
        ({"load": {"name": "l", "address": "::1"}}, "load.address: is not an IPv4 address"),
        ({"load": {"name": "l", "address": "h", "agents": []}}, "load.agents: "),
        ({"more": 1}, "more: "),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, change: dict[str, object], words: str) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(UserError) as caught:
        load_hosts(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"'])
def test_no_file_of_hosts(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hosts.json"
    with pytest.raises(UserError):
        load_hosts(file)
    file.write_text(text)
    with pytest.raises(UserError):
        load_hosts(file)


LIMITS = SystemLimits(
    descriptors=20_000,
    somaxconn=65_535,
    syn_backlog=65_535,
    syn_cookies=1,
    ports=64_000,
    time_wait_reuse=1,
    ab_ceiling=20_000,
)
ROLES: dict[str, Role] = {"load": "load", "nginx": "nginx", "server": "server", "redis": "redis"}


def on_hosts(runs: list[RunSpec], limits: dict[str, SystemLimits]) -> list[Finding]:
    return assess_site(runs, limits["load"], limits, ROLES)


def run(level: int, balancer: Balancer = "none") -> RunSpec:
    conditions = Conditions("guestbook", balancer=balancer)
    return RunSpec("epoll", conditions, level, 1, 1000, 10.0)


@pytest.mark.parametrize(
    ("host", "change", "limit"),
    [
        ("load", {"ab_ceiling": 5000}, "load: concurrency of ab"),
        ("load", {"descriptors": 5000}, "load: open descriptors of a process"),
        ("load", {"ports": 5000}, "load: ports for outgoing connections (ip_local_port_range)"),
        ("server", {"descriptors": 5000}, "server: open descriptors of a process"),
        ("nginx", {"ports": 5000}, "nginx: ports for outgoing connections (ip_local_port_range)"),
    ],
)
def test_a_level_is_impossible_where_it_matters(
    host: str, change: dict[str, int], limit: str
) -> None:
    limits = dict.fromkeys(ROLES, LIMITS) | {host: LIMITS.model_copy(update=change)}
    runs = [run(100, "keep"), run(10_000, "keep")]
    fine, found = (why_impossible(one, on_hosts(runs, limits)) for one in runs)
    assert fine is None
    assert found
    assert found.limit == limit


@pytest.mark.parametrize(
    ("host", "change"),
    [
        ("server", {"ports": 100, "ab_ceiling": 100, "time_wait_reuse": 0}),
        ("load", {"somaxconn": 100, "tasks": 100, "time_wait_memory": 100}),
        ("nginx", {"descriptors": 1024, "tasks": 100}),
        ("redis", {"descriptors": 100, "ports": 100, "somaxconn": 100}),
    ],
)
def test_and_not_where_it_does_not(host: str, change: dict[str, int]) -> None:
    limits = dict.fromkeys(ROLES, LIMITS) | {host: LIMITS.model_copy(update=change)}
    assert on_hosts([run(10_000, "close")], limits) == []


@pytest.mark.parametrize(
    ("reuse", "hosts"), [(0, ["load", "nginx"]), (1, []), (2, ["load", "nginx"])]
)
def test_ports_reused_on_loopback_alone_rest_between_hosts(reuse: int, hosts: list[str]) -> None:
    """Ports reused on loopback only stay in TIME_WAIT between hosts. ip-sysctl.rst: 2, the kernel's
    default, is for loopback traffic only."""
    limits = dict.fromkeys(
        ROLES, LIMITS.model_copy(update={"ports": 900, "time_wait_reuse": reuse})
    )
    found = on_hosts([run(100, "close")], limits)
    assert [one.limit.partition(":")[0] for one in found] == hosts
    assert {one.about for one in found} <= {Limit.RESTING_PORTS}


def test_nginx_does_not_matter_where_it_takes_no_part() -> None:
    limits = dict.fromkeys(ROLES, LIMITS) | {"nginx": LIMITS.model_copy(update={"ports": 100})}
    assert on_hosts([run(10_000)], limits) == []
