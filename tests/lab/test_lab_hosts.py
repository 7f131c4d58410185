# SPDX-License-Identifier: MIT
"""The hosts of a running lab. All tests except the last two share one lab."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_harness import (
    BASE,
    CHROOT,
    HOSTS,
    LAYER,
    NOBODY,
    REPOSITORY,
    Lab,
    run,
    run_in,
    skip_unless_labs_can_be_made_in,
)

from tests.bench.whole_sweep import wait_for

AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

CALL = """
import socket
for name in {names}:
    with socket.create_connection((name, 22), 30) as connection:
        print(name, connection.recv(7).decode())
"""


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[], Lab]) -> Iterator[Lab]:
    """Yield a lab that is up and does not belong to root."""
    made = make_lab()
    made.up(env={**os.environ, "SUDO_UID": NOBODY, "SUDO_GID": NOBODY})
    yield made
    made.down()


def ssh(lab: Lab, *words: str) -> list[str]:
    """Return a command line of ssh with the lab's settings."""
    return ["ssh", "-F", str(lab.folder / "ssh_config"), "-o", "BatchMode=yes", *words]


@pytest.mark.parametrize("host", HOSTS)
def test_each_reaches_the_others_by_name(lab: Lab, host: str) -> None:
    others = [other for other in HOSTS if other != host]
    answers = lab.python(host, CALL.format(names=others))
    assert answers.splitlines() == [f"{other} SSH-2.0" for other in others]


def test_ssh_from_this_machine(lab: Lab) -> None:
    for host in HOSTS:
        done = run(ssh(lab, host, "hostname; id -u; cat /etc/hostname"))
        assert (done.stdout, done.returncode) == (f"{host}\n0\n{host}\n", 0), done.stderr
    address = lab.state()["plan"]["hosts"][2]["address"]
    assert run(ssh(lab, address, "hostname")).stdout == "zerohttpd\n"


def test_ssh_needs_neither_root_nor_sudo(lab: Lab) -> None:
    if run([*AS_NOBODY, "test", "-r", str(REPOSITORY / "lab/relay.py")]).returncode != 0:
        pytest.skip("only root can read this folder")
    done = run([*AS_NOBODY, *ssh(lab, "redis", "hostname")], env={"PATH": os.environ["PATH"]})
    assert done.stdout == "redis\n", done.stderr
    assert run([*AS_NOBODY, *lab.command("status")]).returncode == 0


def test_ssh_notices_a_host_that_is_another(lab: Lab, tmp_path: Path) -> None:
    names = (
        (lab.folder / "known_hosts").read_text().replace("redis,", "X,").replace("load", "redis")
    )
    (tmp_path / "known_hosts").write_text(names)
    option = f"UserKnownHostsFile={tmp_path}/known_hosts"
    done = run(ssh(lab, "-o", option, "-o", "HostKeyAlias=redis", "redis", "hostname"))
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_ssh_from_host_to_host(lab: Lab) -> None:
    for name in ("key", "known_hosts"):
        text = (lab.folder / name).read_text()
        done = lab.run("exec", "load", "sh", "-c", f"umask 077; cat > /run/{name}", input=text)
        assert done.returncode == 0
    options = "-i /run/key -o UserKnownHostsFile=/run/known_hosts -o StrictHostKeyChecking=yes"
    assert lab.on("load", f"ssh {options} zerohttpd hostname") == "zerohttpd"


def test_files_are_the_machine_s_until_they_are_written(lab: Lab) -> None:
    project = REPOSITORY / "pyproject.toml"
    before = project.read_bytes()
    lab.on("nginx", f"echo changed >> {project}; echo here > /etc/only-here; echo > /tmp/own")
    assert lab.on("nginx", f"tail -n 1 {project}; cat /etc/only-here") == "changed\nhere"
    assert project.read_bytes() == before
    assert lab.on("redis", f"cat {project}") == before.decode().strip()
    assert lab.on("redis", "ls /etc/only-here /tmp/own 2>&1 || true").count("No such file") == 2
    assert not Path("/etc/only-here").exists()


def test_temporary_folders_and_devices_are_its_own(lab: Lab) -> None:
    lab.on("load", f"echo x > /dev/shm/{lab.name}; echo x > /run/{lab.name}; : > /dev/null")
    for folder in ("/dev/shm", "/run"):
        assert not Path(folder, lab.name).exists()
    assert lab.on("load", f"ls {BASE}").split() == ["authorized_keys", "host_key", "sshd_config"]


def test_processes_are_its_own(lab: Lab) -> None:
    # A process of an earlier ssh connection may end between the listing and the reading.
    look = "cat /proc/1/comm; cat /proc/[0-9]*/comm 2> /dev/null || true"
    names = lab.on("zerohttpd", look).splitlines()
    assert names[0] == "sshd"
    assert set(names) <= {"sshd", "sh", "cat"}


def test_processes_without_a_parent_are_reaped(lab: Lab) -> None:
    lab.on("load", "exec 2>&1; sleep 0.01 > /dev/null &")
    # Only the first process of the host can reap the orphan.
    left = "grep -ls '^Name:.sleep' /proc/[0-9]*/status || true"
    wait_for(lambda: lab.on("load", left) == "", "an orphan is reaped")


def test_one_cpu(lab: Lab) -> None:
    planned = {host["name"]: host["cpu"] for host in lab.state()["plan"]["hosts"]}
    for host in HOSTS:
        seen = lab.on(host, "nproc; grep Cpus_allowed_list /proc/self/status; hostname").split()
        assert seen == ["1", "Cpus_allowed_list:", str(planned[host]), host]


BURN = """
import os, pathlib, time
paths = dict(line.split(":", 2)[1:] for line in open("/proc/self/cgroup").read().splitlines())
for line in open("/proc/self/mountinfo").read().splitlines():
    root, point = line.split()[3:5]  # in a container the root may be a lower group
    kind, _, options = line.partition(" - ")[2].split()
    if kind == "cgroup2" and "cpu" not in paths:
        group = pathlib.Path(point, os.path.relpath(paths[""], root))
    if kind == "cgroup" and "cpu" in options.split(","):
        group = pathlib.Path(point, os.path.relpath(paths["cpu"], root))
def figures():
    return dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
before = int(figures()["nr_throttled"])
end = time.monotonic() + 60
while int(figures()["nr_throttled"]) == before and time.monotonic() < end:
    sum(range(100000))
print(int(figures()["nr_throttled"]) > before)
(group / "inner").mkdir(exist_ok=True)
(group / "inner" / "cgroup.procs").write_text("0")
print((group / "inner" / "cpu.stat").exists())
print(os.access(group.parent / "cgroup.procs", os.W_OK))
"""


def test_the_share_holds_and_can_be_seen_from_inside(lab: Lab) -> None:
    known = lab.state()
    shares = {host["name"]: host["share"] for host in known["plan"]["hosts"]}
    if known["limited_by"] == "affinity only" or shares["zerohttpd"] is None:
        pytest.skip("the hosts have whole CPUs here, no shares")
    assert lab.python("zerohttpd", BURN).split() == ["True", "True", "False"]


def test_a_group_that_a_killed_benchmark_leaves(lab: Lab) -> None:
    """The control group (version 2) of a killed benchmark is removed with the lab. The fixture
    `lab` asserts this."""
    groups = lab.state()["groups"]["redis"]
    group = next((one for one in groups if Path(one, "cgroup.controllers").exists()), None)
    if group is None:
        pytest.skip("no control groups of version 2 here")
    inner = f"{group}/zerohttpd-measure-1-1-1"
    fill = f"mkdir {inner}; echo $$ > {inner}/cgroup.procs; sleep 600 > /dev/null 2>&1 &"
    assert lab.on("redis", f"{fill} grep -c ^user_usec {inner}/cpu.stat") == "1"


def test_settings_of_the_network_are_its_own_all_others_read_only(lab: Lab) -> None:
    setting = Path("/proc/sys/net/core/somaxconn")
    before = setting.read_text()
    value = "4321"
    assert lab.on("load", f"echo {value} > {setting} && cat {setting}") == value
    assert setting.read_text() == before != value
    done = lab.run("exec", "load", "sh", "-c", "echo 1 > /proc/sys/vm/swappiness")
    assert "Read-only file system" in done.stderr


def test_no_packet_leaves(lab: Lab) -> None:
    program = """
import errno, socket
for address in ("192.0.2.1", "127.0.0.1"):
    print(errno.errorcode[socket.socket().connect_ex((address, 9))])
"""
    assert lab.python("load", program).split() == ["ENETUNREACH", "ECONNREFUSED"]


def test_commands_answer_for_what_they_run(lab: Lab) -> None:
    assert lab.run("exec", "load", "sh", "-c", "exit 7").returncode == 7
    assert lab.run("exec", "load", "sh", "-c", "kill -9 $$").returncode == 137
    assert lab.run("exec", "load", "no-such-program").returncode == 127
    assert lab.run("ssh", "load", "exit", "5").returncode == 5
    assert lab.run("exec", "lode", "true").stderr.startswith("lab: no host 'lode'")
    assert "is a host of a lab" in lab.run("exec", "load", *lab.command("down")).stderr


def test_nothing_is_run_where_the_root_is_not_the_host_s(lab: Lab) -> None:
    """A command is not run if setns(2) does not lead to the host's root."""
    state = lab.folder / "state.json"
    known = state.read_text()
    other = json.loads(known)
    other["roots"]["load"] = Path("/").stat().st_dev
    state.write_text(json.dumps(other))
    try:
        done = lab.run("exec", "load", "touch", "/run/only-here")
    finally:
        state.write_text(known)
    assert (done.returncode, done.stdout) == (127, "")
    assert "not the host's root" in done.stderr
    assert lab.on("load", "ls /run/only-here 2>&1 || true").count("No such file") == 1


def test_status_lists_the_hosts(lab: Lab) -> None:
    done = lab.run("status")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["HOST", *HOSTS]
    assert all(lab.state()["limited_by"] in line for line in lines[1:5])


def test_nothing_is_added_to_the_network_of_the_machine(lab: Lab) -> None:
    network = lab.state()["plan"]["network"]
    assert network not in run(["ip", "address"]).stdout
    assert network not in run(["ip", "route", "show", "table", "all"]).stdout
    assert lab.name not in run(["ip", "netns", "list"]).stdout


LOCKED_UP = """
sed -i 's/^root:[^:]*:/root:!:/' /etc/shadow
scripts/lab up --name "$0" && ssh -F "$1/ssh_config" redis "grep ^root: /etc/shadow; ls $PWD"
status=$?
scripts/lab down --name "$0" && exit $status
"""


def test_ssh_works_where_root_is_locked(make_lab: Callable[[], Lab]) -> None:
    """ssh to a host works if root's password is locked, as on a new Ubuntu. In this test `/` is an
    overlay, and the project's folder is a mount."""
    skip_unless_labs_can_be_made_in(LAYER)
    lab = make_lab()
    words = ["env", "--chdir", str(REPOSITORY), "sh", "-c", LOCKED_UP, lab.name, str(lab.folder)]
    done, _ = run_in(LAYER, words)
    assert done.returncode == 0, done.stderr
    assert "\nroot:*:" in done.stdout, done.stderr
    assert "\npyproject.toml\n" in done.stdout


def test_in_a_chroot_it_is_refused(make_lab: Callable[[], Lab]) -> None:
    """In a chroot the lab's commands refuse to run, because commands would run outside of the
    hosts. The test detects any written file."""
    lab, here = make_lab(), ["env", "--chdir", str(REPOSITORY)]
    for verb, words in (("up", []), ("down", []), ("exec", ["load", "touch", "/etc/only-here"])):
        done, changes = run_in(LAYER + CHROOT, [*here, *lab.command(verb, *words)])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("lab: this is a chroot")
        assert changes == []
    assert run_in(LAYER + CHROOT, ["touch", "/etc/only-here"])[1] == ["/etc/only-here"]
