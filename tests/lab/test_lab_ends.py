# SPDX-License-Identifier: MIT
"""A lab leaves nothing behind, however it ends, and changes no process or file of others."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from lab_harness import (
    BASE,
    HOSTS,
    SECONDS,
    Lab,
    namespaces,
    processes_in,
    run,
    running,
)

from tests.bench.whole_sweep import wait_for
from tests.e2e.processes import has_ended

KILLS = 9


def test_down_leaves_nothing_and_can_be_repeated(lab: Lab) -> None:
    links = run(["ip", "-o", "link"]).stdout
    lab.up("--servers", "2", "--share", "zerohttpd=60")
    cpus = {host["name"]: host["cpu"] for host in lab.state()["plan"]["hosts"]}
    limited = all(lab.state()["groups"].values())
    too_much = limited and cpus["zerohttpd"] == cpus["zerohttpd2"]
    assert ("add up to 120 %" in lab.run("status").stdout) == too_much
    assert set(run(["ip", "-br", "link"]).stdout.split()).isdisjoint({*HOSTS, "br0"} - set(links))
    inside = {space for pid in lab.pids() for space in namespaces(pid).values()}
    inside -= {*namespaces("self").values()}
    assert len(inside) >= 5 * 5 + 3  # 5 namespaces for each of 5 hosts, 3 for the keeper
    lab.on("redis", "setsid sleep 600 > /dev/null 2>&1 & echo > /etc/new")
    groups = [group for groups in lab.state()["groups"].values() for group in groups]
    for group in groups:
        lab.on(Path(group).name, f"mkdir -p {group}/inner/most")
    pids = lab.pids()
    before = processes_in(inside)  # later the kernel may reuse the PIDs
    done = lab.run("down")
    assert (done.returncode, done.stderr) == (0, "")
    assert lab.traces() == []
    assert before & processes_in(inside) == set()
    assert all(map(has_ended, pids))
    assert not any(map(os.path.exists, groups))
    again = lab.run("down")
    assert (again.returncode, again.stdout) == (0, f"lab '{lab.name}': nothing to remove\n")


def test_connections_and_commands_end_with_the_lab(lab: Lab) -> None:
    lab.up()
    with (
        running(lab.command("ssh", "load", "echo ready; sleep 600")) as client,
        running(lab.command("exec", "load", "sh", "-c", "echo ready; sleep 600")) as command,
    ):
        lab.down()
        assert client.wait(SECONDS) == 255
        # The command was killed, or it reported that its child was killed.
        assert command.wait(SECONDS) in (-signal.SIGKILL, 128 + signal.SIGKILL)


def test_a_killed_host_is_shown_and_the_rest_taken_away(lab: Lab) -> None:
    lab.up()
    victim = lab.state()["hosts"]["zerohttpd"]["pid"]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: has_ended(victim), "the host ends")
    done = lab.run("status")
    assert done.returncode == 1
    down = [line.split()[0] for line in done.stdout.splitlines() if " down " in line]
    assert down == ["zerohttpd"]
    assert "is down" in lab.run("exec", "zerohttpd", "true").stderr
    assert lab.on("load", "hostname") == "load"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_all_ends_with_the_keeper(lab: Lab, number: signal.Signals) -> None:
    lab.up()
    keeper, *hosts = lab.pids()
    os.kill(keeper, number)
    wait_for(lambda: all(map(has_ended, hosts)), "the hosts end")
    lab.up()  # leftovers do not prevent the next lab
    assert lab.run("status").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["folder", "state", "mark"])
def test_a_lab_with_a_damaged_folder_is_found_by_name(lab: Lab, damage: str) -> None:
    lab.up()
    pids = lab.pids()
    if damage == "folder":
        shutil.rmtree(lab.folder)
    elif damage == "state":
        (lab.folder / "state.json").write_text('{"plan":')
    else:
        (lab.folder / "mark").unlink()
    done = lab.run("down")
    assert all(map(has_ended, pids))
    if damage == "mark":
        assert "does not have the lab's mark" in done.stderr
        assert done.returncode == 1
        shutil.rmtree(lab.folder)


@pytest.mark.slow
def test_killed_while_it_is_made(lab: Lab) -> None:
    began = time.monotonic()
    lab.up()
    whole = time.monotonic() - began
    lab.down()
    for turn in range(KILLS):
        making = subprocess.Popen(
            lab.command("up"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # A signal at any time must leave nothing behind, so the time is random.
        time.sleep(random.uniform(0.1, 1.0) * whole)
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[turn % 3]
        making.send_signal(number)
        status = making.wait(SECONDS)
        if number != signal.SIGKILL and status != 0:
            assert lab.traces() == [], f"{status} after {number}"
        lab.down()


@pytest.mark.parametrize(
    ("program", "other", "named"),
    [
        ("/usr/sbin/pivot_root", "/bin/false", "pivot_root"),
        ("/usr/sbin/sshd", "/dev/null", "openssh-server"),
    ],
)
def test_a_failure_half_way_is_named_and_leaves_nothing(
    lab: Lab, program: str, other: str, named: str
) -> None:
    """If a program fails, `up` names the program or its package, and leaves nothing. The test
    replaces the program in a mount namespace of its own."""
    script = f'mount --bind {other} {program} && exec "$@"'
    done = run(["unshare", "--mount", "sh", "-c", script, "-", *lab.command("up")])
    assert done.returncode == 1
    assert named in done.stderr
    assert lab.traces() == []


@pytest.mark.slow
def test_delay_is_made_or_refused(lab: Lab) -> None:
    done = lab.run("up", "--delay", "1ms", "--rate", "1gbit")
    if done.returncode == 0:
        assert "delay 1ms" in lab.on("load", "tc qdisc show dev eth0")
    else:
        assert "netem is not available in this kernel" in done.stderr
        assert lab.traces() == []


@pytest.mark.slow
def test_two_labs_at_once(make_lab: Callable[[], Lab]) -> None:
    one, two = make_lab(), make_lab()
    making = [subprocess.Popen(lab.command("up"), stdout=subprocess.DEVNULL) for lab in (one, two)]
    assert [each.wait(SECONDS) for each in making] == [0, 0]
    assert one.state()["plan"]["network"] != two.state()["plan"]["network"]
    again = run(one.command("up")).stderr
    assert again.startswith(f"lab: the lab '{one.name}' is already up")
    assert again.endswith(f"scripts/lab down --name {one.name}\n")
    cpus = [{host["cpu"] for host in lab.state()["plan"]["hosts"]} for lab in (one, two)]
    if cpus[0] & cpus[1]:
        assert f"Warning: the lab '{two.name}' uses the same CPUs" in one.run("status").stdout
    one.down()
    assert f"'{one.name}'" not in two.run("status").stdout
    assert two.run("status").returncode == 0
    assert two.on("redis", "hostname") == "redis"
    two.down()


@pytest.mark.slow
def test_the_same_lab_twice_at_the_same_time(lab: Lab) -> None:
    making = [
        subprocess.Popen(lab.command("up"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    said = [each.communicate(timeout=SECONDS)[1].decode() for each in making]
    assert sorted(each.returncode for each in making) == [0, 1, 1]
    assert sum("is already up" in words for words in said) == 2
    assert lab.run("status").returncode == 0


def test_a_user_that_is_no_number_is_refused_with_a_message(lab: Lab) -> None:
    done = lab.run("up", env={**os.environ, "SUDO_UID": "abc"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("lab: SUDO_UID=abc: ")
    assert lab.traces() == []


def test_an_empty_group_above_the_lab_s_is_taken_away(lab: Lab) -> None:
    """`down` removes the empty parent group that a failed first lab may have left."""
    tops = [group.parent for group in lab.groups()]
    tops = [top for top in tops if (top.parent / "cgroup.procs").exists()]
    for top in tops:
        with suppress(OSError):  # some folders cannot be written
            top.mkdir()
    lab.down()
    # Another lab, which may start or stop meanwhile, may have a group there.
    empty = "an empty group is removed"
    wait_for(lambda: all(not top.is_dir() or next(top.glob("*/"), None) for top in tops), empty)


# ---- Processes and files that do not belong to the lab ----


def namespace_of_hosts(domain: str) -> list[str]:
    """Return a command that runs in its own UTS namespace, with the NIS domain name `domain`."""
    script = 'echo "$0" > /proc/sys/kernel/domainname; echo ready; exec sleep 600'
    return ["unshare", "--uts", "sh", "-c", script, domain]


@pytest.mark.slow
def test_names_that_are_nearly_its_own_are_left_alone(lab: Lab) -> None:
    named = f"zerohttpd-lab-{lab.name[:-1]}"
    assert run(["ip", "netns", "add", named]).returncode == 0
    try:
        with (
            running(namespace_of_hosts(lab.mark + "x")) as longer,
            running(namespace_of_hosts(lab.mark[:-1])) as shorter,
        ):
            lab.up()
            lab.down()
            assert (longer.poll(), shorter.poll()) == (None, None)
        assert named in run(["ip", "netns", "list"]).stdout
    finally:
        run(["ip", "netns", "delete", named])


def test_a_folder_without_its_mark_is_refused(lab: Lab) -> None:
    lab.folder.mkdir(parents=True)
    try:
        (lab.folder / "thesis.txt").write_text("the only copy\n")
        for verb in ("down", "up"):
            done = lab.run(verb)
            assert done.returncode == 1
            assert "does not have the lab's mark: not changed" in done.stderr
        assert (lab.folder / "thesis.txt").read_text() == "the only copy\n"
    finally:
        shutil.rmtree(lab.folder)
        with suppress(OSError):
            BASE.rmdir()


@pytest.mark.slow
def test_a_foreign_process_in_its_group_is_left_alone(lab: Lab) -> None:
    lab.up()
    groups = lab.state()["groups"]["load"]
    if not groups:
        pytest.skip("no control groups here")
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            Path(groups[0], "cgroup.procs").write_text(str(process.pid))
            done = lab.run("down")
            assert done.returncode == 1
            assert f"process {process.pid} in" in done.stderr
            assert process.poll() is None
        finally:
            process.kill()
