# SPDX-License-Identifier: MIT
"""The runs that the limits of mocked machines allow."""

from pathlib import Path

import pytest

from bench.doctor.limits import assess, why_impossible
from bench.host.quota import own_folders, read_limits, usable_ports
from bench.records.conditions import Conditions
from bench.records.environment import UNLIMITED, Finding
from bench.records.plan import Plan, RunSpec
from bench.sweep.runs import runs_in_order

from ..machines import ROOMY


def findings(levels: tuple[int, ...], requests: int = 30_000, **limits: int) -> list[Finding]:
    runs = runs_in_order(Plan(levels=levels, requests=requests), ["epoll"])
    return assess(runs, ROOMY.model_copy(update=limits))


def spec(level: int, **conditions: object) -> RunSpec:
    found = Conditions("redirect", **conditions)  # type: ignore[arg-type]
    return RunSpec("epoll", found, level, run=1, requests=30_000, timeout=10.0)


def test_a_roomy_machine_is_in_nobodys_way() -> None:
    assert findings((20, 1000, 15_000)) == []


def test_descriptors_make_levels_impossible() -> None:
    (found,) = findings((900, 1000, 5000), descriptors=1024)
    assert found.impossible
    assert found.levels == [1000, 5000], "1,000 connections leave too few for the rest"
    assert "1,024" in found.describe()
    assert found.cure.startswith("sudo prlimit --pid $$ --nofile=5064:5064")


def test_ab_takes_so_many_and_no_more() -> None:
    (found,) = findings((20_000, 20_001))
    assert found.impossible
    assert found.levels == [20_001]
    assert findings((20_001,), ab_ceiling=200_000) == []


def test_what_ab_takes_concerns_only_what_ab_opens() -> None:
    """The limit of ab concerns only the connections of ab. Idle connections are not ab's, and wrk,
    oha and the probes' connections have no such limit. 20,500 connections are too many for ab, but
    20,000 with 500 idle ones are not."""
    possible = [
        spec(20_000, idle=500),
        *(spec(20_500, **asked) for asked in ({"generator": "wrk"}, {"mode": "open"})),
        *(spec(20_500, mode=mode) for mode in ("parked", "pending")),
    ]
    too_many = [spec(20_500), spec(20_500, mode="traced"), spec(20_500, idle=1000)]
    assert assess(possible, ROOMY) == []
    found = assess([*possible, *too_many], ROOMY)
    assert [one.levels for one in found] == [[20_500]]
    assert all(why_impossible(run, found) == found[0] for run in too_many)
    assert not any(why_impossible(run, found) for run in possible)


@pytest.mark.parametrize(
    ("limits", "cure"),
    [
        ({"somaxconn": 4096}, "sudo sysctl -w net.core.somaxconn=65535"),
        (
            {"syn_backlog": 2048, "syn_cookies": 0},
            "sudo sysctl -w net.ipv4.tcp_max_syn_backlog=65535",
        ),
        ({"ports": 28_232, "time_wait_reuse": 0}, "sudo sysctl -w net.ipv4.tcp_tw_reuse=1"),
        (
            {"time_wait_memory": 4096},
            "sudo sysctl -w net.ipv4.tcp_max_tw_buckets=600000",
        ),
        ({"tasks": 3000, "tasks_cure": "echo max | sudo tee x"}, "echo max | sudo tee x"),
    ],
)
def test_warnings_do_not_forbid(limits: dict[str, int], cure: str) -> None:
    (found,) = findings((20, 5000), **limits)
    assert not found.impossible
    assert 5000 in found.levels
    assert found.cure == cure
    assert why_impossible(spec(5000), [found]) is None


@pytest.mark.parametrize(
    ("limit", "enough", "beside"),
    [
        ("ab_ceiling", 5000, {}),
        ("descriptors", 5000 + 64, {}),
        ("ports", 2 * 5000, {}),
        ("ports", 30_000, {"time_wait_reuse": 0}),
        ("somaxconn", 5000, {}),
        ("syn_backlog", 6666, {"syn_cookies": 0}),  # a quarter of it is reserved: 1,666
        ("time_wait_memory", 30_000, {}),
        ("tasks", 5000, {}),
    ],
)
def test_just_enough_is_in_nobodys_way(limit: str, enough: int, beside: dict[str, int]) -> None:
    """These limits are just enough for 5,000 connections, and for 30,000 requests with one
    connection each."""
    assert findings((20, 5000), **beside, **{limit: enough}) == []
    (found,) = findings((20, 5000), **beside, **{limit: enough - 1})
    assert 5000 in found.levels


def test_syn_backlog_does_not_count_with_syn_cookies() -> None:
    assert findings((5000,), syn_backlog=128, syn_cookies=1) == []


def test_ports_in_time_wait_are_no_matter_where_they_are_reused() -> None:
    assert findings((100,), ports=28_232, time_wait_reuse=2) == []
    assert findings((100,), requests=28_000, ports=28_232, time_wait_reuse=0) == []


def test_kept_connections_end_only_once() -> None:
    plan = Plan(levels=(100,), requests=30_000, varied={"keep_alive": (True,)})
    runs = runs_in_order(plan, ["epoll"])
    assert assess(runs, ROOMY.model_copy(update={"time_wait_memory": 100})) == []
    (found,) = assess(runs, ROOMY.model_copy(update={"time_wait_memory": 99}))
    assert found.need.startswith("100 for a run")


def test_ports_at_once() -> None:
    assert findings((14_000,), ports=28_232) == []
    (slow,) = findings((15_000,), ports=28_232)
    assert not slow.impossible
    (none_left,) = findings((15_000,), ports=10_000)
    assert none_left.impossible
    assert none_left.cure == 'sudo sysctl -w net.ipv4.ip_local_port_range="1024 65535"'


def test_impossible_findings_come_first_and_give_the_reason() -> None:
    found = findings((100, 5000), descriptors=1024, somaxconn=128)
    assert [f.impossible for f in found] == [True, False]
    assert why_impossible(spec(5000), found) == found[0]
    assert why_impossible(spec(100), found) is None


@pytest.mark.parametrize(
    ("port_range", "reserved", "ports"),
    [
        ("32768\t60999\n", "\n", 28_232),
        ("1024 65535", "8080,9000-9002,70", 64_512 - 4),
        ("5000 5000", "", 1),
    ],
)
def test_usable_ports(port_range: str, reserved: str, ports: int) -> None:
    assert usable_ports(port_range, reserved) == ports


def test_groups_whose_limit_of_tasks_counts() -> None:
    seen = "32 23 0:26 / /sys/fs/cgroup{} rw - {} cgroup rw{}\n"
    mount, of_v2 = Path("/sys/fs/cgroup"), seen.format("", "cgroup2", "")
    assert [folder for _, folder in own_folders("pids", "0::/user.slice/a.scope\n", of_v2)] == [
        mount / "user.slice/a.scope",
        mount / "user.slice",
        mount,
    ]
    of_v1 = "".join(seen.format(f"/{one}", "cgroup", f",{one}") for one in ("memory", "pids"))
    found = [folder for _, folder in own_folders("pids", "4:memory:/x\n3:pids:/x\n", of_v1)]
    assert found == [mount / "pids/x", mount / "pids"]


def test_reading_a_machine(tmp_path: Path) -> None:
    for name, value in {
        "sys/net/core/somaxconn": "4096",
        "sys/net/ipv4/tcp_max_syn_backlog": "2048",
        "sys/net/ipv4/tcp_syncookies": "0",
        "sys/net/ipv4/ip_local_port_range": "40000\t49999",
        "sys/net/ipv4/tcp_tw_reuse": "2",
        "sys/net/ipv4/tcp_max_tw_buckets": "8192",
        "sys/kernel/threads-max": "1234",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    limits = read_limits(20_000, tmp_path)
    assert limits.somaxconn == 4096
    assert limits.syn_backlog == 2048
    assert limits.syn_cookies == 0
    assert limits.ports == 10_000
    assert limits.time_wait_reuse == 2
    assert limits.time_wait_memory == 8192
    assert limits.tasks == 1234
    assert limits.tasks_name == "kernel.threads-max"
    assert limits.ab_ceiling == 20_000
    assert 0 < limits.descriptors <= UNLIMITED
