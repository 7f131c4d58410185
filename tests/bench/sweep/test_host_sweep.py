# SPDX-License-Identifier: MIT
"""Whole sweeps over hosts, through nginx, with several instances. The hosts are this machine, with
an agent each; everything else is real."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from bench.host.project import ROOT
from bench.services import balancer

from ..whole_sweep import SECONDS, Sweep, hosts_file, results_in, wait_for_a_run

pytestmark = pytest.mark.skipif(
    not (ROOT / "epoll").exists() or not shutil.which("ab") or not shutil.which("redis-server"),
    reason="needs ./epoll, ab and redis-server",
)
needs_nginx = pytest.mark.skipif(balancer.nginx() is None, reason="nginx is not installed")

PLAN = ("--levels", "20", "--requests", "1000")


def swept(folder: Path, *words: str | Path) -> dict[str, Any]:
    """Return the results of a sweep in which each run was valid and nothing was left."""
    sweep = Sweep(*PLAN, *words, "--results", folder)
    said = sweep.end()
    assert sweep.process.returncode == 0, said
    assert sweep.strays() == []
    content = results_in(folder)
    assert content is not None
    return content


def shape(value: Any) -> Any:
    """Return the keys of the results; a list counts as its first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else None


@pytest.mark.slow
def test_the_same_as_on_one_machine(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    here = swept(tmp_path / "here", "--servers", "epoll,forking")
    hosts = hosts_file(tmp_path)
    there = swept(tmp_path, "--servers", "epoll,forking", "--hosts", hosts)
    assert [host["role"] for host in there["hosts"]] == ["load", "server", "redis"]
    assert there["hosts"][1]["name"] == "zerohttpd"
    assert there["hosts"][1]["settings"]["net.core.somaxconn"]
    assert here["hosts"] == []
    assert there["versions"]["servers"] == here["versions"]["servers"]
    for one, other in zip(here["runs"], there["runs"], strict=True):
        assert one["hosts"] == []
        assert [host["role"] for host in other["hosts"]] == ["load", "server", "redis"]
        assert all(0 <= host["cpu_share"] <= 1 for host in other["hosts"])
        for run in (one, other):
            run["hosts"] = run["seconds"] = run["started"] = None
            run["process"].pop("foreign_share")
        assert shape(one) == shape(other)
        checks = [
            {check["name"]: check["holds"] for check in run["checks"]} for run in (one, other)
        ]
        assert checks[0] == checks[1]
        assert checks[1]["visitors in Redis"]
        assert other["process"]["cpu_us_per_request"] > 0
        assert other["process"]["samples"] >= 1
    password_free = json.dumps(there) + next(tmp_path.glob("2*/log.txt")).read_text()
    assert "redis://" not in password_free


@pytest.mark.slow
@needs_nginx
def test_instances_behind_nginx(tmp_path: Path) -> None:
    words = ("--servers", "iterative,preforking", "--instances", "1,2", "--keep-alive", "both")
    found = swept(tmp_path, *words, "--balancer", "none,close,keep", "--requests", "600")
    runs = found["runs"]
    kinds = {(run["instances"], run["balancer"]) for run in runs}
    assert kinds == {(1, "none"), (1, "close"), (1, "keep"), (2, "close"), (2, "keep")}
    for run in runs:
        requests = run["server_statistics"]["requests"]
        assert requests >= 641, "the first one, the warm-up and all of the load, of all instances"
        through = run["balancer"] != "none"
        assert (run["nginx_process"] is not None) == through
        assert ("nginx' own answers" in {check["name"] for check in run["checks"]}) == through
    iterative = {(r["balancer"], r["keep_alive"]) for r in runs if r["subject"] == "iterative"}
    assert iterative == {("none", False), ("close", False), ("close", True)}
    twice = next(r for r in runs if r["subject"] == "preforking" and r["instances"] == 2)
    assert twice["process"]["processes_peak"] >= 2 * 101


@pytest.mark.slow
@needs_nginx
def test_instances_on_several_hosts(tmp_path: Path) -> None:
    hosts = hosts_file(tmp_path, servers=2, nginx=True)
    words = ("--servers", "epoll", "--instances", "3", "--balancer", "keep", "--idle", "50")
    (run,) = swept(tmp_path, *words, "--redis-delay", "2", "--hosts", hosts)["runs"]
    roles = [host["role"] for host in run["hosts"]]
    assert roles == ["load", "nginx", "server", "server", "redis"]
    assert run["process"]["processes_peak"] == 3
    assert run["nginx_process"]["cpu_share"] > 0
    assert run["latency"]["p50"] >= 6, "three replies of Redis, each 2 ms later"
    assert run["state"] == "held"


@pytest.mark.slow
@pytest.mark.parametrize("who", ["zerohttpd", "redis"])
def test_an_agent_is_killed_in_the_middle(tmp_path: Path, who: str) -> None:
    """If an agent is killed, its run has a reason instead of a figure, and the sweep continues with
    new agents."""
    hosts = hosts_file(tmp_path)
    content = json.loads(hosts.read_text())
    content["servers"][0]["agent"] = ["env", "AGENT=zerohttpd", *content["servers"][0]["agent"]]
    content["redis"]["agent"] = ["env", "AGENT=redis", *content["redis"]["agent"]]
    hosts.write_text(json.dumps(content))
    plan = ("--servers", "epoll", "--levels", "10,20,30,40,50,60,70,80", "--requests", "4000")
    sweep = Sweep(*plan, "--hosts", hosts, "--results", tmp_path)
    wait_for_a_run(tmp_path)
    os.kill(agent_of(sweep, who), signal.SIGKILL)
    said = sweep.end()
    assert sweep.strays() == []
    content = results_in(tmp_path)
    assert content is not None
    assert len(content["runs"]) == 8
    reasons = [run["reason"] for run in content["runs"] if run["state"] == "failed"]
    lost = [reason["text"] for reason in reasons if reason["label"] == "host lost"]
    assert len(lost) == 1, said
    assert f"the agent on {who} has ended" in lost[0]
    # Next to a busy process the load of another run may be too small to count.
    assert {reason["label"] for reason in reasons} <= {"host lost", "too little load"}, said
    assert content["state"] == "complete"
    assert sweep.process.returncode == 1
    assert "restarting all agents" in next(tmp_path.glob("2*/log.txt")).read_text()


def agent_of(sweep: Sweep, name: str) -> int:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            marked = any(sweep.mark.encode() in word for word in environment)
            named = f"AGENT={name}".encode() in environment and b"bench.stations.agent" in command
            if marked and named:
                return int(folder.name)
        time.sleep(0.02)
    raise AssertionError("no such agent")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "server"), [(signal.SIGINT, "epoll"), (signal.SIGKILL, "preforking")]
)
def test_a_sweep_over_hosts_is_stopped(tmp_path: Path, number: int, server: str) -> None:
    hosts = hosts_file(tmp_path)
    plan = ("--servers", server, "--levels", "10,20,30", "--requests", "3000", "--runs", "3")
    sweep = Sweep(*plan, "--hosts", hosts, "--results", tmp_path)
    wait_for_a_run(tmp_path)
    sweep.process.send_signal(number)
    said = sweep.end()
    assert sweep.strays() == []
    assert sweep.process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    if number == signal.SIGINT:
        again = Sweep("--resume", "--results", tmp_path)
        said = again.end()
        assert again.process.returncode == 0, said
        assert again.strays() == []
        content = results_in(tmp_path)
        assert content is not None
        assert {run["state"] for run in content["runs"]} == {"held"}
        assert len(content["runs"]) == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "unknown server: nobody"),
        ({"agent": ["sh", "-c", "echo no route >&2; exit 255"]}, "agent on redis has ended"),
    ],
)
def test_what_stands_in_the_way_is_said_at_once(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    hosts = hosts_file(tmp_path)
    content = json.loads(hosts.read_text())
    content["redis"] |= change
    hosts.write_text(json.dumps(content))
    sweep = Sweep(*PLAN, "--servers", "nobody", "--hosts", hosts, "--results", tmp_path)
    said = sweep.end()
    assert sweep.process.returncode == 2
    assert words in said
    assert sweep.strays() == []
    assert results_in(tmp_path) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--balancer", "keep", "--hosts", "{hosts}"), "names no host for nginx"),
        (("--instances", "2"), "--instances above 1 needs nginx"),
        (("--balancer", "sometimes"), "unknown balancer: sometimes"),
        (("--hosts", "{hosts}", "--redis", "redis://127.0.0.1:1"), "exclude each other"),
        (("--balancer", "keep", "--servers", "iterative"), "nothing to measure"),
    ],
)
def test_what_cannot_be(
    tmp_path: Path,
    options: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "nothing" in words and balancer.nginx() is None:
        pytest.skip("nginx is not installed")
    hosts = hosts_file(tmp_path)
    chosen = [word.format(hosts=hosts) for word in options]
    assert main(["sweep", "--servers", "epoll", *PLAN, *chosen, "--results", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
