# SPDX-License-Identifier: MIT
"""The runs that the limits of mocked machines allow."""

from pathlib import Path

import pytest

from bench.doctor.limits import assess, why_impossible
from bench.host.quota import own_folders, read_limits, usable_ports
from bench.records.conditions import Conditions
from bench.records.environment import UNLIMITED, Finding, SystemLimits
from bench.records.plan import Plan, RunSpec
from bench.studies.runs import runs_in_order

from ..machines import ROOMY


def findings(levels: tuple[int, ...], requests: int = 30_000, **limits: int) -> list[Finding]:
    runs = runs_in_order(Plan(levels=levels, requests=requests), ["epoll"])
    return assess(runs, ROOMY.model_copy(update=limits))


def spec(level: int, **conditions: object) -> RunSpec:
    found = Conditions("redirect", **conditions)  # type: ignore[arg-type]
    return RunSpec("epoll", found, level, run=1, requests=30_000, timeout=10.0)


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
    ("levels", "limits"),
    [
        ((20, 1000, 15_000), {}),
        ((20_001,), {"ab_ceiling": 200_000}),
        ((5000,), {"syn_backlog": 128, "syn_cookies": 1}),
        ((100,), {"ports": 28_232, "time_wait_reuse": 2}),
        ((100,), {"requests": 28_000, "ports": 28_232, "time_wait_reuse": 0}),
        ((14_000,), {"ports": 28_232}),
    ],
)
def test_what_is_in_nobodys_way(levels: tuple[int, ...], limits: dict[str, int]) -> None:
    assert findings(levels, **limits) == []


@pytest.mark.parametrize(
    ("forbids", "limit", "enough", "beside", "cure"),
    [
        (True, "ab_ceiling", 5000, {}, ""),
        (True, "descriptors", 5000 + 64, {}, "prlimit --pid $$ --nofile=5064:5064   (in this"),
        (True, "ports", 5000, {}, 'net.ipv4.ip_local_port_range="1024 65535"'),
        (False, "ports", 2 * 5000, {}, 'net.ipv4.ip_local_port_range="1024 65535"'),
        (False, "ports", 30_000, {"time_wait_reuse": 0}, "sysctl -w net.ipv4.tcp_tw_reuse=1"),
        (False, "somaxconn", 5000, {}, "sysctl -w net.core.somaxconn=65535"),
        # A quarter of it is reserved: 1,666.
        (False, "syn_backlog", 6666, {"syn_cookies": 0}, "net.ipv4.tcp_max_syn_backlog=65535"),
        (False, "time_wait_memory", 30_000, {}, "sysctl -w net.ipv4.tcp_max_tw_buckets=600000"),
        (False, "tasks", 5000, {"tasks_cure": "echo max | sudo tee x"}, "echo max | sudo tee x"),
    ],
)
def test_one_less_than_enough(
    forbids: bool, limit: str, enough: int, beside: dict[str, object], cure: str
) -> None:
    """A limit is just enough for 5,000 connections, or for 30,000 requests with one connection
    each. With one less, these runs are impossible, or there is a warning."""
    assert not any(one.impossible for one in findings((20, 5000), **beside, **{limit: enough}))
    (found,) = findings((20, 5000), **beside, **{limit: enough - 1})
    assert found.impossible == forbids
    assert 5000 in found.levels
    assert cure in found.cure
    assert (why_impossible(spec(5000), [found]) is not None) == forbids
    assert why_impossible(spec(20), [found]) is None


def test_kept_connections_end_only_once() -> None:
    plan = Plan(levels=(100,), requests=30_000, varied={"keep_alive": (True,)})
    runs = runs_in_order(plan, ["epoll"])
    assert assess(runs, ROOMY.model_copy(update={"time_wait_memory": 100})) == []
    (found,) = assess(runs, ROOMY.model_copy(update={"time_wait_memory": 99}))
    assert found.need.startswith("100 for a run")


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
    found = read_limits(20_000, tmp_path)
    assert 0 < found.descriptors <= UNLIMITED
    assert found == SystemLimits(
        descriptors=found.descriptors,
        somaxconn=4096,
        syn_backlog=2048,
        syn_cookies=0,
        ports=10_000,
        time_wait_reuse=2,
        time_wait_memory=8192,
        tasks=1234,
        tasks_name="kernel.threads-max",
        tasks_cure=found.tasks_cure,
        ab_ceiling=20_000,
    )
