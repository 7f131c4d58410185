# SPDX-License-Identifier: MIT
"""Whole sweeps are interrupted, killed and resumed. They run over hosts, through nginx, and with
several instances. Each host is this machine, with an agent; everything else is real."""

import json
import os
import re
import resource
import signal
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import READER_LEFT
from bench.host.accounting import Slicing
from bench.host.project import ROOT, find_program
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, Machine, Versions
from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.store import latest_unfinished
from bench.subjects.subject import server_subject
from bench.sweep.options import hide_password
from bench.sweep.sweep import require_same

from ..measuring import REQUESTS, measured_of
from ..whole_sweep import (
    SECONDS,
    Sweep,
    hosts_file,
    marked,
    needs_a_sweep,
    results_in,
    strays,
    wait_for,
    wait_for_a_run,
)

pytestmark = needs_a_sweep

PLAN = ("--servers", "epoll", "--levels", "10", "20", "--requests", "1500", "--runs", "3")
RUNS = 6


def runs_in(folder: Path) -> list[tuple[int, int, str]]:
    content = json.loads((folder / "results.json").read_text())
    return [(run["concurrency"], run["run"], run["state"]) for run in content["runs"]]


def stopped_in_the_middle(tmp_path: Path, number: int, *more: str) -> tuple[Sweep, Path]:
    sweep = Sweep(*PLAN, *more, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    time.sleep(0.3)  # so that the second run has begun
    sweep.process.send_signal(number)
    return sweep, next(tmp_path.glob("2*"))


def resume_with_other_sources(tmp_path: Path) -> None:
    """Assert that a sweep of other sources is not resumed, and that its results do not change."""
    (file,) = tmp_path.glob("*/results.json")
    kept = file.read_text()
    content = json.loads(kept)
    content["versions"]["sources"] = "others"
    file.write_text(json.dumps(content))
    assert "sources was others" in Sweep("--resume", "--results", str(tmp_path)).end(2)
    assert results_in(tmp_path) == content
    file.write_text(kept)


@pytest.mark.slow
@pytest.mark.parametrize("over_hosts", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_resumed(tmp_path: Path, number: int, over_hosts: bool) -> None:
    more = ("--hosts", str(hosts_file(tmp_path))) if over_hosts else ()
    sweep, folder = stopped_in_the_middle(tmp_path, number, *more)
    said = sweep.end(-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert f"To resume: .venv/bin/zerohttpd sweep --resume {folder}" in said
    before = runs_in(folder)
    assert 0 < len(before) < RUNS
    assert latest_unfinished(tmp_path) == folder
    resume_with_other_sources(tmp_path)

    said = Sweep("--resume", "--results", str(tmp_path)).end()
    assert f"Resumed: {len(before)} of {RUNS} runs are done" in said
    after = runs_in(folder)
    assert after[: len(before)] == before
    assert sorted(run[:2] for run in after) == [(n, run) for n in (10, 20) for run in (1, 2, 3)]
    assert results_in(tmp_path)["state"] == "complete"
    assert (folder / "log.txt").read_text().count(" connections  ") == RUNS
    with pytest.raises(UserError):
        latest_unfinished(tmp_path)


def test_no_room_for_the_results(tmp_path: Path) -> None:
    """If the disk is full, the sweep keeps earlier results, and can be resumed. A limit on the size
    of files replaces the full disk."""
    sweep = Sweep(*PLAN, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    file = next(tmp_path.glob("*/results.json"))
    resource.prlimit(sweep.process.pid, resource.RLIMIT_FSIZE, (file.stat().st_size, -1))
    said = sweep.end(2)
    assert "Traceback" not in said
    assert "bench: cannot write the results: [Errno 27] File too large" in said
    assert f"resume: .venv/bin/zerohttpd sweep --resume {file.parent}" in said
    assert not list(file.parent.glob("*.new"))
    assert 0 < len(runs_in(file.parent)) < RUNS
    assert latest_unfinished(tmp_path) == file.parent


def test_the_reader_of_the_output_leaves(tmp_path: Path) -> None:
    sweep = Sweep(*PLAN, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    sweep.process.stdout.close()
    assert sweep.process.wait(SECONDS) == READER_LEFT
    assert strays(sweep.mark) == []
    assert results_in(tmp_path)["state"] == "interrupted"


def begun(
    kernel: str | None = "6.1", redis: str = "7.0", gcc: str = "12", cpus: int = 1
) -> Results:
    return Results(
        started=datetime(2030, 1, 2, tzinfo=timezone.utc),
        machine=Machine(kernel=kernel),
        versions=Versions(redis=redis, compilers={"epoll": gcc}),
        hosts=[HostInfo(role="redis", name="vm1", address="10.0.0.1", cpus=cpus)],
    )


@pytest.mark.parametrize(
    ("now", "change"),
    [
        ({"kernel": "6.2"}, "kernel was 6.1 at its start and is 6.2 now"),
        ({"redis": "7.2"}, "redis was 7.0 at its start and is 7.2 now"),
        ({"gcc": "13"}, "compiler of epoll was 12 at its start and is 13 now"),
        ({"cpus": 2}, "vm1: cpus was 1 at its start and is 2 now"),
    ],
)
def test_a_sweep_is_not_resumed_by_another_version(now: dict[str, Any], change: str) -> None:
    """A sweep is not resumed with another version: a median would mix runs of two versions."""
    require_same(begun(), begun())
    require_same(begun(kernel=None), begun())
    with pytest.raises(UserError, match=re.escape(change)):
        require_same(begun(), begun(**now))


@pytest.mark.slow
def test_a_sweep_that_is_under_way_is_not_resumed(tmp_path: Path) -> None:
    """A running sweep is not resumed, because two sweeps would overwrite each other's results."""
    sweep = Sweep(*PLAN, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    sweep.process.send_signal(signal.SIGSTOP)  # so that it does not end before --resume
    said = Sweep("--resume", "--results", str(tmp_path)).end(2)
    sweep.process.send_signal(signal.SIGCONT)
    assert "another process writes into" in said
    sweep.end()
    assert len(runs_in(next(tmp_path.glob("*/")))) == RUNS


def test_helpers_end_with_a_killed_sweep(tmp_path: Path) -> None:
    more = ("--idle", "50", "--redis-delay", "1")
    stopped_in_the_middle(tmp_path, signal.SIGKILL, *more)[0].end(-signal.SIGKILL)


@pytest.mark.slow
def test_idle_connections_and_a_slow_redis(tmp_path: Path) -> None:
    words = ("--servers", "epoll", "--levels", "20", "--requests", "1000")
    Sweep(*words, "--idle", "200", "--redis-delay", "5", "--results", str(tmp_path)).end()
    (run,) = results_in(tmp_path)["runs"]
    assert (run["idle"], run["redis_delay_ms"]) == (200, 5.0)
    assert run["latency"]["p50"] >= 15, "three replies, each 5 ms later"
    assert run["process"]["descriptors_peak"] >= 200
    assert run["process"]["pss_peak_mb"] > 0
    assert next(c for c in run["checks"] if c["name"] == "visitors in Redis")["holds"]


@pytest.mark.slow
def test_a_sweep_with_quotas_ends_with_a_ranking(tmp_path: Path, slicing: Slicing) -> None:
    words = ("--levels", "20", "--requests", "400", "--quota", "10", "--servers")
    kept = tmp_path / "with a blank"
    sweep = Sweep(*words, "preforking,forking", "--results", str(kept))
    said = sweep.end()
    runs = results_in(kept)["runs"]
    assert {run["quota"] for run in runs} == {0.1}
    for run in runs:
        assert 0 < run["process"]["quota_used"] < 1.2
        limited = run["process"]["quota_used"] >= 0.9 and run["process"]["throttled_share"] > 0.5
        assert (run["bottleneck"] == "server") == limited
    assert "guestbook, 10 % of a core each, 20 connections" in said
    assert f"make report RESULTS='{next(kept.glob('*/'))}'" in said
    assert next(kept.glob("*/order.svg")).exists()
    assert groups_of(sweep, slicing) == []


def groups_of(sweep: Sweep, slicing: Slicing) -> list[Path]:
    """Return the control groups that a sweep has now."""
    places = {slicing.parent, slicing.quotas or slicing.parent}
    mark = f"zerohttpd-measure-*-{sweep.process.pid}-*"
    return [folder for place in places for folder in place.glob(mark)]


def test_a_password_is_not_kept_and_nothing_else_is_lost() -> None:
    given = ["--redis=redis://u:word@h:1/0", "redis://h?a=b&password=word&c=d", "--runs", "3"]
    hidden = ["--redis=redis://u:***@h:1/0", "redis://h?a=b&password=***&c=d", "--runs", "3"]
    assert hide_password(given) == hidden


def test_a_server_gets_the_warm_up_that_it_declares() -> None:
    slow_to_warm = replace(server_subject("epoll", ROOT / "epoll"), warm_up=1000)
    run = measured_of(slow_to_warm, Conditions("large"))
    assert run.reason is None
    assert run.server_statistics.requests == 1 + 500 + REQUESTS, "80 KB pages halve the warm-up"


# ---- Over hosts ----

needs_nginx = pytest.mark.skipif(find_program("nginx") is None, reason="nginx is not installed")

SHORT = ("--levels", "20", "--requests", "1000")


def swept(folder: Path, *words: str | Path) -> dict[str, Any]:
    """Run a sweep, assert that each run is valid and no process is left, and return the results."""
    Sweep(*SHORT, *words, "--results", folder).end()
    return results_in(folder)


def shape(value: Any) -> Any:
    """Return the keys of results without their values; of a list, the keys of the first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else None


@pytest.mark.slow
def test_a_sweep_over_hosts_gives_the_same_results(tmp_path: Path) -> None:
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
        assert requests >= 641, "first request, warm-up and load, of all instances"
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
    assert run["latency"]["p50"] >= 6, "three replies of Redis, each delayed by 2 ms"
    assert run["state"] == "held"


@pytest.mark.slow
@pytest.mark.parametrize("who", ["zerohttpd", "redis"])
def test_an_agent_is_killed_in_the_middle(tmp_path: Path, who: str) -> None:
    """If an agent is killed, its run fails with a reason, and the next runs use new agents."""
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
    # On a busy machine another run may fail, because its load is too small.
    assert {reason["label"] for reason in reasons} <= {"host lost", "too little load"}, said
    assert content["state"] == "complete"
    assert "restarting all agents" in next(tmp_path.glob("2*/log.txt")).read_text()


def agent_of(sweep: Sweep, name: str) -> int:
    def found() -> list[int]:
        ours = marked(sweep.mark, also=f"AGENT={name}")
        return [pid for pid, words in ours if "bench.stations.agent" in words]

    return wait_for(found, "no agent of this name runs")[0]


@pytest.mark.slow
def test_an_agent_that_does_not_start_is_reported(tmp_path: Path) -> None:
    hosts = hosts_file(tmp_path)
    content = json.loads(hosts.read_text())
    content["redis"]["agent"] = ["sh", "-c", "echo no route >&2; exit 255"]
    hosts.write_text(json.dumps(content))
    sweep = Sweep(*SHORT, "--servers", "epoll", "--hosts", hosts, "--results", tmp_path)
    assert "agent on redis has ended" in sweep.end(2)
    assert results_in(tmp_path) is None
