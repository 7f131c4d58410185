# SPDX-License-Identifier: MIT
"""Whole sweeps over hosts, through nginx, with several instances. The hosts are this machine, with
an agent each; everything else is real."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from bench.services import balancer

from ..whole_sweep import (
    Sweep,
    hosts_file,
    marked,
    needs_a_sweep,
    results_in,
    wait_for,
    wait_for_a_run,
)

pytestmark = needs_a_sweep
needs_nginx = pytest.mark.skipif(balancer.nginx() is None, reason="nginx is not installed")

PLAN = ("--levels", "20", "--requests", "1000")


def swept(folder: Path, *words: str | Path) -> dict[str, Any]:
    """Return the results of a sweep in which each run was valid and nothing was left."""
    Sweep(*PLAN, *words, "--results", folder).end()
    return results_in(folder)


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
        here_, there_ = (
            {check["name"]: check["holds"] for check in run["checks"]} for run in (one, other)
        )
        assert here_ == there_
        assert there_["visitors in Redis"]
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
    plan = ("--servers", "epoll", "--levels", "10,20,30,40", "--requests", "4000")
    sweep = Sweep(*plan, "--hosts", hosts, "--results", tmp_path)
    wait_for_a_run(tmp_path)
    os.kill(agent_of(sweep, who), signal.SIGKILL)
    said = sweep.end(1)
    content = results_in(tmp_path)
    assert len(content["runs"]) == 4
    reasons = [run["reason"] for run in content["runs"] if run["state"] == "failed"]
    lost = [reason["text"] for reason in reasons if reason["label"] == "host lost"]
    assert len(lost) == 1, said
    assert f"the agent on {who} has ended" in lost[0]
    # Next to a busy process the load of another run may be too small to count.
    assert {reason["label"] for reason in reasons} <= {"host lost", "too little load"}, said
    assert content["state"] == "complete"
    assert "restarting all agents" in next(tmp_path.glob("2*/log.txt")).read_text()


def agent_of(sweep: Sweep, name: str) -> int:
    def found() -> list[int]:
        ours = marked(sweep.mark, also=f"AGENT={name}")
        return [pid for pid, words in ours if "bench.stations.agent" in words]

    return wait_for(found, "no such agent")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "server"), [(signal.SIGINT, "epoll"), (signal.SIGKILL, "preforking")]
)
def test_a_sweep_over_hosts_is_stopped(tmp_path: Path, number: int, server: str) -> None:
    plan = ("--servers", server, "--levels", "10,20", "--requests", "3000", "--runs", "2")
    sweep = Sweep(*plan, "--hosts", hosts_file(tmp_path), "--results", tmp_path)
    wait_for_a_run(tmp_path)
    sweep.process.send_signal(number)
    sweep.end(-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGINT:
        Sweep("--resume", "--results", tmp_path).end()
        assert [run["state"] for run in results_in(tmp_path)["runs"]] == ["held"] * 4


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
    assert words in sweep.end(2)
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
    tmp_path: Path, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "nothing" in words and balancer.nginx() is None:
        pytest.skip("nginx is not installed")
    hosts = hosts_file(tmp_path)
    chosen = [word.format(hosts=hosts) for word in options]
    assert main(["sweep", "--servers", "epoll", *PLAN, *chosen, "--results", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
