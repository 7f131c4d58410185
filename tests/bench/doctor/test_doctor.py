# SPDX-License-Identifier: MIT
"""The doctor reports the problems of mocked machines, with fixes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench.doctor.doctor import GROUPS_CURE, examine, show
from bench.doctor.limits import Facts, governors, look
from bench.records.environment import DoctorLine, SystemLimits
from bench.records.plan import Plan
from bench.studies.runs import runs_in_order

from ..machines import ROOMY

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
    assert not any(line.cure for line in found)
    assert all(line.have and line.need for line in found)
    topics = " ".join(line.topic for line in found)
    for word in (
        *("descriptors", "somaxconn", "syn_backlog", "ports", "TIME_WAIT", "CPUs", "governor"),
        *("other load", "ab", "redis-server", "persistence", "maxclients"),
    ):
        assert word in topics


@pytest.mark.parametrize(
    ("facts", "topic", "cure"),
    [
        (
            {"governors": ("performance", "powersave")},
            "CPU frequency governor",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
        (
            {"busy": 0.4, "busiest": "77 (firefox)"},
            "other load on the machine",
            "ps -o pid,user,etime,args -p 77   (then end it, if it is yours)",
        ),
        (
            {"redis": REDIS | {"save": "3600 1"}, "redis_url": "redis://h"},
            "Redis persistence",
            "redis-cli -u redis://h config set save ''",
        ),
        (
            {"redis": REDIS | {"maxclients": "500"}, "redis_url": "redis://h"},
            "Redis maxclients",
            "redis-cli -u redis://h config set maxclients 1064",
        ),
        (
            {"conntrack": (60_000, 65_536)},
            "tracked connections (nf_conntrack_max)",
            "sudo sysctl -w net.netfilter.nf_conntrack_max=142000",
        ),
        ({"ab": None}, "ab (Apache Bench)", "scripts/setup.sh bench"),
        (
            {"cpus": 1},
            "CPUs for this program",
            "use a machine with two CPUs (the results record that it had one)",
        ),
    ],
)
def test_each_trouble_comes_with_its_cure(facts: dict[str, object], topic: str, cure: str) -> None:
    (found,) = unwell(lines(**facts))
    assert (found.topic, found.cure) == (topic, cure)
    assert found.state in ("warning", "impossible")


def test_limits_are_judged_as_before_a_sweep() -> None:
    low = ROOMY.model_copy(update={"somaxconn": 128, "descriptors": 1000})
    found = {line.topic: line for line in unwell(lines(limits=low))}
    assert found["accept queue (somaxconn)"].cure == "sudo sysctl -w net.core.somaxconn=65535"
    descriptors = found["open descriptors of a process"]
    assert (descriptors.state, descriptors.have) == ("impossible", "1,000")


def test_idle_connections_count() -> None:
    low = ROOMY.model_copy(update={"descriptors": 4000})
    assert unwell(lines(limits=low)) == []
    found = unwell(lines(Plan(levels=(1000,), varied={"idle": (5000,)}), low))
    assert "open descriptors of a process" in [line.topic for line in found]


def test_the_open_loop_needs_its_tool() -> None:
    (found,) = unwell(lines(Plan(levels=(10,), varied={"rate": (100.0,)})))
    assert (found.state, found.cure) == ("impossible", "scripts/setup.sh openloop")


def test_room_for_ended_connections() -> None:
    plan = Plan(levels=(1000,), requests=5000, runs=3)

    def found(room: int) -> list[DoctorLine]:
        return unwell(lines(plan, ROOMY.model_copy(update={"time_wait_memory": room})))

    (note,), (warning,) = found(10_000), found(4_999)
    assert note.state == "note", "no run needs more, but the third has to wait"
    assert note.have == "12 of 10,000"
    assert note.need.startswith("5,000 for a run; with 15,000 ")
    assert note.cure == "sudo sysctl -w net.ipv4.tcp_max_tw_buckets=600000"
    assert (warning.state, warning.cure) == ("warning", note.cure)
    assert found(15_000) == []


def test_what_it_reads(tmp_path: Path) -> None:
    for cpu, governor in (("cpu0", "powersave"), ("cpu1", "performance"), ("cpu2", "powersave")):
        folder = tmp_path / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(governor + "\n")
    assert governors(tmp_path) == ("performance", "powersave")
    assert governors(tmp_path / "none") == ()


def test_this_machine_can_be_looked_at() -> None:
    facts = look()
    assert facts.cpus > 0
    assert 0 <= facts.busy <= 1


def test_it_is_shown_with_what_to_type() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        show(lines(governors=("powersave",)), console)
    text = capture.get()
    assert "WARN  CPU frequency governor: powersave; needed: performance" in text
    assert "fix: echo performance | sudo tee" in text


def test_the_cure_for_groups_cures() -> None:
    words = GROUPS_CURE.partition(" bash ")[0].split()
    there = shutil.which(words[0])
    if there is None or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        pytest.skip("systemd makes no scopes for this user")
    look_again = "from bench.host.accounting import parent_of_groups as p; assert p()"
    subprocess.run([*words, sys.executable, "-c", look_again], check=True)
