# SPDX-License-Identifier: MIT
"""Whole sweeps, interrupted, killed and resumed. These need the built server, Redis and ab."""

import json
import re
import resource
import signal
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import NOBODY_READS
from bench.host.accounting import Slicing, find_slicing
from bench.host.project import ROOT
from bench.records.conditions import Conditions
from bench.records.environment import HostInfo, Machine, Versions
from bench.records.errors import UserError
from bench.records.results import Results
from bench.records.store import latest_unfinished
from bench.subjects.subject import server_subject
from bench.sweep.beginning import require_same
from bench.sweep.options import chosen_options, hide_password, sweep_parser

from ..measuring import REQUESTS, measured_of
from ..whole_sweep import SECONDS, Sweep, needs_a_sweep, results_in, strays, wait_for_a_run

pytestmark = needs_a_sweep

PLAN = ("--servers", "epoll", "--levels", "10", "20", "--requests", "1500", "--runs", "3")
RUNS = 6


def runs_in(folder: Path) -> list[tuple[int, int, str]]:
    content = json.loads((folder / "results.json").read_text())
    return [(run["concurrency"], run["run"], run["state"]) for run in content["runs"]]


def stopped_in_the_middle(tmp_path: Path, number: int, *more: str) -> tuple[Sweep, Path]:
    sweep = Sweep(*PLAN, *more, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    time.sleep(0.3)  # somewhere in the second run
    sweep.process.send_signal(number)
    return sweep, next(tmp_path.glob("*/"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_resumed(tmp_path: Path, number: int) -> None:
    sweep, folder = stopped_in_the_middle(tmp_path, number)
    said = sweep.end(-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert f"To resume: .venv/bin/zerohttpd sweep --resume {folder}" in said
    before = runs_in(folder)
    assert 0 < len(before) < RUNS
    assert latest_unfinished(tmp_path) == folder

    said = Sweep("--resume", "--results", str(tmp_path)).end()
    assert f"Resumed: {len(before)} of {RUNS} runs are done" in said
    after = runs_in(folder)
    assert after[: len(before)] == before
    assert sorted(after) == [(level, run, "held") for level in (10, 20) for run in (1, 2, 3)]
    assert results_in(tmp_path)["state"] == "complete"
    assert (folder / "log.txt").read_text().count(" connections  ") == RUNS
    with pytest.raises(UserError):
        latest_unfinished(tmp_path)


def test_no_room_for_the_results(tmp_path: Path) -> None:
    """If the disk is full, earlier results are complete, and the sweep can be resumed. A limit
    replaces the disk."""
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


def test_nobody_reads_any_more(tmp_path: Path) -> None:
    sweep = Sweep(*PLAN, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    sweep.process.stdout.close()
    assert sweep.process.wait(SECONDS) == NOBODY_READS
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
def test_a_sweep_is_not_gone_on_with_by_something_else(now: dict[str, Any], change: str) -> None:
    """A changed server does not resume a sweep: otherwise a median would mix runs of two
    versions."""
    require_same(begun(), begun())
    require_same(begun(kernel=None), begun())
    with pytest.raises(UserError, match=re.escape(change)):
        require_same(begun(), begun(**now))


@pytest.mark.slow
def test_a_sweep_that_is_under_way_is_not_resumed(tmp_path: Path) -> None:
    """A running sweep is not resumed: the two would overwrite each other's results."""
    sweep = Sweep(*PLAN, "--results", str(tmp_path))
    wait_for_a_run(tmp_path)
    sweep.process.send_signal(signal.SIGSTOP)  # or it might be over by then
    said = Sweep("--resume", "--results", str(tmp_path)).end(2)
    sweep.process.send_signal(signal.SIGCONT)
    assert "is running in another process" in said
    sweep.end()
    assert len(runs_in(next(tmp_path.glob("*/")))) == RUNS


@pytest.mark.slow
def test_a_resumed_sweep_was_made_of_the_same_sources(tmp_path: Path) -> None:
    sweep, folder = stopped_in_the_middle(tmp_path, signal.SIGINT)
    sweep.end(128 + signal.SIGINT)
    content = results_in(tmp_path)
    content["versions"]["sources"] = "others"
    (folder / "results.json").write_text(json.dumps(content))
    assert "sources was others" in Sweep("--resume", "--results", str(tmp_path)).end(2)
    assert results_in(tmp_path) == content


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


@pytest.fixture
def slicing() -> Slicing:
    found = find_slicing()
    if found is None:
        pytest.skip("no control group with a quota can be made here")
    return found


@pytest.mark.slow
def test_a_sweep_in_slices_ends_with_an_order(tmp_path: Path, slicing: Slicing) -> None:
    """A sweep with CPU quotas ends with a ranking. The quota is a tenth of a core for a server and
    its children."""
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


def test_what_somebody_elses_redis_must_not_be_asked() -> None:
    words = ["--workloads", "guestbook,sign", "--redis", "redis://127.0.0.1:1"]
    with pytest.raises(UserError, match="sign: writes data"):
        chosen_options(sweep_parser().parse_args(words))


def test_a_password_is_not_kept_and_nothing_else_is_lost() -> None:
    given = ["--redis=redis://u:word@h:1/0", "redis://h?a=b&password=word&c=d", "--runs", "3"]
    hidden = ["--redis=redis://u:***@h:1/0", "redis://h?a=b&password=***&c=d", "--runs", "3"]
    assert hide_password(given) == hidden


def test_those_that_need_it_get_the_warm_up_that_they_ask_for() -> None:
    slow_to_warm = replace(server_subject("epoll", ROOT / "epoll"), warm_up=1000)
    run = measured_of(slow_to_warm, Conditions("large"))
    assert run.reason is None
    assert run.server_statistics.requests == 1 + 500 + REQUESTS, "half as many of 80 KB"
