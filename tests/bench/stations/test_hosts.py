# SPDX-License-Identifier: MIT
"""The file of hosts, and what their limits allow."""

import json
import re
from pathlib import Path

import pytest

from bench.doctor.limits import assess_site, why_impossible
from bench.records.conditions import Conditions
from bench.records.environment import Finding, Limit
from bench.records.errors import UserError
from bench.records.figures import Balancer, Role
from bench.records.plan import RunSpec
from bench.stations.hosts import load_hosts

from ..machines import ROOMY

GOOD = {
    "load": {"name": "load", "address": "10.77.0.1"},
    "nginx": {"name": "nginx", "address": "10.77.0.2", "agent": ["ssh", "nginx"]},
    "servers": [
        {"name": "a", "address": "10.77.0.3", "agent": ["ssh", "a"]},
        {"name": "b", "address": "b.example", "agent": ["ssh", "b"]},
    ],
    "redis": {"name": "redis", "address": "10.77.0.4", "agent": ["ssh", "redis"]},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hosts.json"


def test_a_good_file(file: Path) -> None:
    file.write_text(json.dumps(GOOD))
    hosts = [(role, host.name) for role, host in load_hosts(file).all()]
    of_servers = [("server", "a"), ("server", "b")]
    assert hosts == [("load", "load"), ("nginx", "nginx"), *of_servers, ("redis", "redis")]
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
def test_what_is_wrong_and_where(file: Path, change: dict[str, object], words: str) -> None:
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(UserError, match=f"{file}.*{re.escape(words)}"):
        load_hosts(file)


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '"text"'])
def test_no_file_of_hosts(file: Path, text: str | None) -> None:
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError):
        load_hosts(file)


ROLES: dict[str, Role] = {"load": "load", "nginx": "nginx", "server": "server", "redis": "redis"}


def on_hosts(runs: list[RunSpec], host: str, **change: int) -> list[Finding]:
    """Return what limits runs if one host has other limits than enough."""
    limits = dict.fromkeys(ROLES, ROOMY) | {host: ROOMY.model_copy(update=change)}
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
    runs = [run(100, "keep"), run(10_000, "keep")]
    fine, found = (why_impossible(one, on_hosts(runs, host, **change)) for one in runs)
    assert (fine, found.limit) == (None, limit)


@pytest.mark.parametrize(
    ("balancer", "host", "change"),
    [
        ("close", "server", {"ports": 100, "ab_ceiling": 100, "time_wait_reuse": 0}),
        ("close", "load", {"somaxconn": 100, "tasks": 100, "time_wait_memory": 100}),
        ("close", "nginx", {"descriptors": 1024, "tasks": 100}),
        ("close", "redis", {"descriptors": 100, "ports": 100, "somaxconn": 100}),
        ("none", "nginx", {"ports": 100}),
    ],
)
def test_and_not_where_it_does_not(balancer: Balancer, host: str, change: dict[str, int]) -> None:
    assert on_hosts([run(10_000, balancer)], host, **change) == []


@pytest.mark.parametrize(
    ("reuse", "hosts"), [(0, ["load", "nginx"]), (1, []), (2, ["load", "nginx"])]
)
def test_ports_reused_on_loopback_alone_rest_between_hosts(reuse: int, hosts: list[str]) -> None:
    """Ports reused on loopback only stay in TIME_WAIT between hosts. ip-sysctl.rst: 2, the kernel's
    default, is for loopback traffic only."""
    scarce = ROOMY.model_copy(update={"ports": 900, "time_wait_reuse": reuse})
    found = assess_site([run(100, "close")], scarce, dict.fromkeys(ROLES, scarce), ROLES)
    assert [one.limit.partition(":")[0] for one in found] == hosts
    assert {one.about for one in found} <= {Limit.RESTING_PORTS}
