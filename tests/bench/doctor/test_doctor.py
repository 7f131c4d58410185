# SPDX-License-Identifier: MIT
"""The doctor reports the problems of mocked machines, with fixes. It finds the runs that the limits
of one or more hosts allow. The file of hosts is checked."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench.cli.main import main
from bench.doctor.doctor import (
    GROUPS_FIX,
    Facts,
    assess,
    examine,
    governors,
    look,
    show,
    why_impossible,
)
from bench.host.machine import own_folders, read_limits, usable_ports
from bench.records.conditions import Balancer, Conditions, Plan, Role, RunSpec
from bench.records.environment import UNLIMITED, DoctorLine, Finding, Limit, SystemLimits
from bench.records.errors import UserError
from bench.records.values import toml_of
from bench.stations.site import load_hosts
from bench.studies.runs import runs_in_order

CASES = toml_of(Path(__file__).with_name("doctor.toml"))
ROOMY = SystemLimits(
    descriptors=100_000,
    somaxconn=65_535,
    syn_backlog=65_535,
    syn_cookies=1,
    ports=64_512,
    time_wait_reuse=1,
    ab_ceiling=20_000,
)
"""Limits that are high enough for 20,000 connections."""
FINE = Facts(
    cpus=4,
    governors=("performance",),
    busy=0.01,
    time_wait=12,
    ab="ApacheBench, Version 2.3",
    redis_server="redis-server 7.0.15",
    groups=Path("/sys/fs/cgroup"),
)
REDIS = {"save": "", "appendonly": "no", "maxclients": "10000"}


def lines(
    plan: Plan | None = None, limits: SystemLimits = ROOMY, **facts: object
) -> list[DoctorLine]:
    runs = runs_in_order(plan or Plan(levels=(1000,)), ["epoll"])
    return examine(runs, limits, Facts(**{**vars(FINE), **facts}))  # type: ignore[arg-type]


def unwell(found: list[DoctorLine]) -> list[DoctorLine]:
    return [line for line in found if line.state != "well"]


def test_a_good_machine() -> None:
    found = lines()
    assert unwell(found) == []
    assert not any(line.fix for line in found)
    assert all(line.have and line.need for line in found)
    topics = " ".join(line.topic for line in found)
    for word in (
        *("descriptors", "somaxconn", "syn_backlog", "ports", "TIME_WAIT", "CPUs", "governor"),
        *("other load", "ab", "redis-server", "persistence", "maxclients"),
    ):
        assert word in topics


NO_AB = ["impossible", {"ab": None}, {}, {}, "ab (Apache Bench)", "scripts/setup.sh bench"]


@pytest.mark.parametrize(
    ("state", "facts", "limits", "varied", "topic", "fix"), [*CASES["problems"], NO_AB]
)
def test_each_problem_has_its_fix(
    state: str,
    facts: dict[str, object],
    limits: dict[str, int],
    varied: dict[str, list[float]],
    topic: str,
    fix: str,
) -> None:
    plan = Plan(levels=(1000,), varied={name: tuple(values) for name, values in varied.items()})
    (found,) = unwell(lines(plan, ROOMY.model_copy(update=limits), **facts))
    assert (found.state, found.topic, found.fix) == (state, topic, fix)
    assert all(f"{limit:,}" in found.have for limit in limits.values())


def test_room_for_ended_connections() -> None:
    plan = Plan(levels=(1000,), requests=5000, runs=3)

    def found(room: int) -> list[DoctorLine]:
        return unwell(lines(plan, ROOMY.model_copy(update={"time_wait_memory": room})))

    (note,), (warning,) = found(10_000), found(4_999)
    assert note.state == "note", "one run fits, but the third has to wait"
    assert note.have == "12 of 10,000"
    assert note.need.startswith("5,000 for a run; with 15,000 ")
    assert note.fix == "sudo sysctl -w net.ipv4.tcp_max_tw_buckets=600000"
    assert (warning.state, warning.fix) == ("warning", note.fix)
    assert found(15_000) == []


def test_governors_are_read(tmp_path: Path) -> None:
    for cpu, governor in (("cpu0", "powersave"), ("cpu1", "performance"), ("cpu2", "powersave")):
        folder = tmp_path / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(governor + "\n")
    assert governors(tmp_path) == ("performance", "powersave")
    assert governors(tmp_path / "none") == ()


def test_this_machine_can_be_examined() -> None:
    facts = look()
    assert facts.cpus > 0
    assert 0 <= facts.busy <= 1


def test_problems_are_printed_with_their_fixes() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        show(lines(governors=("powersave",)), console)
    text = capture.get()
    assert "WARN  CPU frequency governor: powersave; needed: performance" in text
    assert "fix: echo performance | sudo tee" in text


def test_the_fix_for_groups_works() -> None:
    words = GROUPS_FIX.partition(" bash ")[0].split()
    there = shutil.which(words[0])
    if there is None or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        pytest.skip("systemd makes no scopes for this user")
    look_again = "from bench.host.accounting import parent_of_groups as p; assert p()"
    subprocess.run([*words, sys.executable, "-c", look_again], check=True)


def findings(levels: tuple[int, ...], requests: int = 30_000, **limits: int) -> list[Finding]:
    runs = runs_in_order(Plan(levels=levels, requests=requests), ["epoll"])
    return assess(runs, ROOMY.model_copy(update=limits))


def spec(level: int, **conditions: object) -> RunSpec:
    found = Conditions("redirect", **conditions)  # type: ignore[arg-type]
    return RunSpec("epoll", found, level, run=1, requests=30_000, timeout=10.0)


def test_the_limit_of_ab_counts_only_its_connections() -> None:
    """The doctor applies the limit of ab only to connections that ab opens. 20,500 connections are
    too many for ab, but 20,000 with 500 idle connections are not."""
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


@pytest.mark.parametrize(("levels", "limits"), CASES["enough"])
def test_limits_that_are_large_enough(levels: tuple[int, ...], limits: dict[str, int]) -> None:
    assert findings(levels, **limits) == []


@pytest.mark.parametrize(("forbids", "limit", "enough", "others", "fix"), CASES["one_less"])
def test_one_less_than_enough(
    forbids: bool, limit: str, enough: int, others: dict[str, object], fix: str
) -> None:
    """A limit that is just high enough allows 5,000 connections, or 30,000 requests with one
    connection each. If it is lower by one, the doctor finds these runs impossible, or warns."""
    assert not any(one.impossible for one in findings((20, 5000), **others, **{limit: enough}))
    (found,) = findings((20, 5000), **others, **{limit: enough - 1})
    assert found.impossible == forbids
    assert 5000 in found.levels
    assert fix in found.fix
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


@pytest.mark.parametrize(("port_range", "reserved", "ports"), CASES["ports"])
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
        tasks_fix=found.tasks_fix,
        ab_ceiling=20_000,
    )


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


def test_a_good_file_of_hosts(file: Path) -> None:
    file.write_text(json.dumps(GOOD))
    hosts = [(role, host.name) for role, host in load_hosts(file).all()]
    of_servers = [("server", "a"), ("server", "b")]
    assert hosts == [("load", "load"), ("nginx", "nginx"), *of_servers, ("redis", "redis")]
    file.write_text(json.dumps({k: v for k, v in GOOD.items() if k != "nginx"}))
    assert load_hosts(file).nginx is None


@pytest.mark.parametrize(("change", "words"), CASES["hosts_file"])
def test_an_error_in_the_file_of_hosts_is_located(
    file: Path, change: dict[str, object], words: str
) -> None:
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(UserError, match=f"{file}.*{re.escape(words)}"):
        load_hosts(file)


ROLES: dict[str, Role] = {"load": "load", "nginx": "nginx", "server": "server", "redis": "redis"}


def on_hosts(runs: list[RunSpec], host: str, **change: int) -> list[Finding]:
    """Return the findings about runs if one host has these lower limits."""
    limits = dict.fromkeys(ROLES, ROOMY) | {host: ROOMY.model_copy(update=change)}
    hosts = [(name, role, limits[name]) for name, role in ROLES.items()]
    return assess(runs, limits["load"], hosts)


def run(level: int, balancer: Balancer = "none") -> RunSpec:
    conditions = Conditions("guestbook", balancer=balancer)
    return RunSpec("epoll", conditions, level, 1, 1000, 10.0)


@pytest.mark.parametrize(("host", "change", "limit"), CASES["impossible"])
def test_a_level_is_impossible_where_it_matters(
    host: str, change: dict[str, int], limit: str
) -> None:
    runs = [run(100, "keep"), run(10_000, "keep")]
    fine, found = (why_impossible(one, on_hosts(runs, host, **change)) for one in runs)
    assert (fine, found.limit) == (None, limit)


@pytest.mark.parametrize(("balancer", "host", "change"), CASES["others"])
def test_limits_of_other_hosts(balancer: Balancer, host: str, change: dict[str, int]) -> None:
    assert on_hosts([run(10_000, balancer)], host, **change) == []


@pytest.mark.parametrize(
    ("reuse", "hosts"), [(0, ["load", "nginx"]), (1, []), (2, ["load", "nginx"])]
)
def test_ports_reused_only_on_loopback_stay_in_time_wait(reuse: int, hosts: list[str]) -> None:
    """With tcp_tw_reuse=2, the kernel's default, the kernel reuses only ports of loopback
    connections (ip-sysctl.rst). Ports of connections between hosts stay in TIME_WAIT."""
    scarce = ROOMY.model_copy(update={"ports": 900, "time_wait_reuse": reuse})
    every = [(name, role, scarce) for name, role in ROLES.items()]
    found = assess([run(100, "close")], scarce, every)
    assert [one.limit.partition(":")[0] for one in found] == hosts
    assert {one.about for one in found} <= {Limit.RESTING_PORTS}


def test_it_needs_no_built_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--servers", "poll,epoll", "--programs", str(tmp_path)])
    said = capsys.readouterr().out
    assert "not built: poll, epoll" in said
    assert "servers, fix: make all" in said
