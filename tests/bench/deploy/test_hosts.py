# SPDX-License-Identifier: MIT
"""`zerohttpd hosts` over ssh to the hosts of a lab: a sweep is killed, interrupted and resumed. The
last test removes everything, and checks this on each host. The tests are steps of one sequence,
because preparing the hosts takes most of the time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.records import store
from bench.records.results import Results

from ...lab.lab_harness import HOSTS, Lab, why_not
from ..whole_sweep import wait_for

FOLDER = "/opt/zerohttpd-seven"
SYSCTL_FILE = "/etc/sysctl.d/90-zerohttpd-seven.conf"
SWEEP = (
    *("--servers", "epoll", "--levels", "20", "--requests", "4000"),
    *("--balancer", "none,close", "--runs", "2"),
)
TIMEOUT = 600.0
"""The longest wait in seconds, enough for a busy machine."""

NEEDED = ("ansible-playbook", "sshd", "ssh", "nginx", "redis-server", "ab", "gcc", "make")
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
MISSING = [name for name in NEEDED if shutil.which(name, path=PATH) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("deploy"),  # each test continues where the previous test ended
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the hosts of a lab"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


class Hosts(Lab):
    """A lab for these tests, with an inventory that differs from the lab's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__("deploy")
        self.results, self.inventory = folder / "results", folder / "hosts.ini"

    def write_inventory(self) -> None:
        """Write an inventory with other host names, ssh aliases as addresses, and no user name."""
        own = (self.folder / "inventory.ini").read_text()
        lines = []
        for role in HOSTS:
            address = own.split(f"\n{role} ansible_host=")[1].split()[0]
            lines += [f"[{role}]", f"{role}-under-test ansible_host={role} address={address}"]
        settings = f"-F {self.folder}/ssh_config"
        lines += ["[all:vars]", f'ansible_ssh_common_args="{settings}"']
        self.inventory.write_text("\n".join(lines) + "\n")

    def deploy(self, *options: str) -> Deployment:
        return Deployment(
            [
                *(sys.executable, "-m", "bench", "hosts", "--inventory", str(self.inventory)),
                *("--results", str(self.results), *options),
            ]
        )

    def running(self) -> list[str]:
        """Return the command lines of the benchmark's processes that still run on any host."""
        look = (
            f'for p in /proc/[0-9]*; do [ "$(readlink $p/cwd)" != {FOLDER} ] || '
            'tr "\\0" " " <$p/cmdline; done; ps -C redis-server,nginx,epoll,ab -o args= || true'
        )
        return [line for role in HOSTS for line in self.on(role, look).splitlines()]

    def assert_no_way_in(self) -> None:
        """Assert that no host has a folder of agents, an authorized key, or a benchmark process."""
        for role in HOSTS:
            left = self.on(role, f"ls -d {FOLDER}/agents; cat ~/.ssh/authorized_keys; true")
            assert left == "", role
        assert self.running() == []


class Deployment:
    """A running `zerohttpd hosts`, without a terminal."""

    def __init__(self, command: list[str]) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="zs-hosts-")  # noqa: SIM115 - while it runs
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        return Path(self._file.name).read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        wait_for(lambda: text in self.output or self.process.poll() is not None, seconds=TIMEOUT)
        assert text in self.output, self.output

    def end(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        return self.process.wait(TIMEOUT)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if reason := why_not():
        pytest.skip(f"no lab can be made here: {reason}")
    lab = Hosts(tmp_path_factory.mktemp("deploy"))
    try:
        lab.up(*(word for role in HOSTS for word in ("--share", f"{role}=100")))
        lab.write_inventory()
        yield lab
    finally:
        lab.down()


def states(hosts: Hosts) -> list[str]:
    """Return the states of the collected sweeps, the oldest first."""
    return [store.load(folder / "results.json").state for folder in sorted(hosts.results.iterdir())]


def test_a_killed_controller_leaves_nothing_running(hosts: Hosts) -> None:
    before = set(Path("/tmp").glob("zerohttpd-deploy-*"))
    running = hosts.deploy(*SWEEP)
    running.wait_for("[1/4]")
    running.process.kill()
    running.end()
    wait_for(lambda: hosts.running() == [], "processes still run", seconds=TIMEOUT)
    for scratch in set(Path("/tmp").glob("zerohttpd-deploy-*")) - before:
        with contextlib.suppress(OSError):
            shutil.rmtree(scratch)


def test_the_agents_key_starts_an_agent_and_nothing_else(hosts: Hosts) -> None:
    # The key still exists, because the killed process could not remove it.
    for role in HOSTS[1:]:
        (line,) = hosts.on(role, "cat ~/.ssh/authorized_keys").splitlines()
        address = hosts.inventory.read_text().split("ansible_host=load address=")[1].split()[0]
        assert line.startswith(f'restrict,from="{address}",command="cd {FOLDER} && exec ')
        said = hosts.on(
            "load", f"ssh -F {FOLDER}/agents/ssh_config {role}-under-test hostname </dev/null"
        )
        assert said == ""
    modes = hosts.on("load", f"stat -c %a {FOLDER}/agents {FOLDER}/agents/id_ed25519")
    assert modes.split() == ["700", "600"]


def test_after_ctrl_c_the_results_are_here_and_no_key_is_there(hosts: Hosts) -> None:
    """`zerohttpd hosts` collects the results and removes the key after Ctrl-C. The preparation
    changes nothing on hosts that are already prepared."""
    running = hosts.deploy(*SWEEP)
    running.wait_for("[1/4]")
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130, running.output
    prepared = running.output.partition("---- prepare ----")[2].partition("Servers:")[0]
    assert "changed" not in prepared, prepared
    assert states(hosts) == ["interrupted", "interrupted"]
    hosts.assert_no_way_in()


def test_a_sweep_can_be_resumed_and_every_check_holds(hosts: Hosts) -> None:
    running = hosts.deploy("--resume")
    assert running.end() == 0, running.output
    assert states(hosts) == ["interrupted", "complete"]
    file = max(hosts.results.iterdir()) / "results.json"
    # The results have exactly the fields of a sweep on one machine.
    fields = Results.model_fields.items()
    assert json.loads(file.read_text()).keys() == {field.alias or name for name, field in fields}
    found = store.load(file)
    assert [(r.conditions.balancer, r.run, r.state) for r in found.runs] == [
        ("none", 1, "held"),
        ("none", 2, "held"),
        ("close", 1, "held"),
        ("close", 2, "held"),
    ]
    assert [(host.role, host.name) for host in found.hosts] == [
        ("load", "load-under-test"),
        ("nginx", "nginx-under-test"),
        ("server", "zerohttpd-under-test"),
        ("redis", "redis-under-test"),
    ]
    assert all(host.settings["net.core.somaxconn"] == 65535 for host in found.hosts)
    hosts.assert_no_way_in()


def test_everything_can_be_removed(hosts: Hosts) -> None:
    before = hosts.on("load", f"cat {FOLDER}/.deploy/sysctl-before.conf")
    left = f"{FOLDER}/results/left"
    hosts.on("load", f"mkdir -p {left} && echo not collected >{left}/log.txt")
    running = hosts.deploy("--only", "remove")
    assert running.end() == 0, running.output
    assert (hosts.results / "left" / "log.txt").read_text() == "not collected\n"
    for role in HOSTS:
        assert hosts.on(role, f"ls -d {FOLDER} {SYSCTL_FILE} /opt/zerohttpd-seven* || true") == ""
    hosts.assert_no_way_in()
    for line in before.splitlines():
        name, _, value = line.partition(" = ")
        assert hosts.on("load", f"sysctl -n {name}").split() == value.split()
