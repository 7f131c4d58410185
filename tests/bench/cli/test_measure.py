# SPDX-License-Identifier: MIT
"""`zerohttpd measure` and studies measure real servers, and their figures match independent counts.
A study over hosts uses this machine as each host."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.records.figures import Run
from bench.records.results import Results
from bench.records.store import load
from bench.report import peers
from bench.report.study import Study
from bench.services.redis_server import PrivateRedis
from bench.studies.study import STUDIES, study
from tests.e2e.tracing import skip_unless_traceable

from ..commands import bench
from ..whole_sweep import hosts_file, needs_a_sweep

pytestmark = [needs_a_sweep, pytest.mark.xdist_group("measure")]

REQUESTS, CONNECTIONS = 1500, 30
FIRST = 1 + 2 * CONNECTIONS
"""The number of requests before a run: the first one, and two on each connection to warm up."""
ATTEMPTS = 3
"""The number of sweeps to try: a sweep rejects its figure if the machine paused during the run."""
OWN_ABOVE = 1.6
"""The CPU time that a server reports, divided by the sweep's figure, is below this limit. The
server's figure includes start, end and warm-up, which matter with few requests."""


def all_held(found: Results) -> bool:
    return all(run.state == "held" for run in found.runs)


def swept(folder: Path, words: str, good: Callable[[Results], bool] = all_held) -> Results:
    """Return good results of a sweep with these options, after ATTEMPTS sweeps at most."""
    for attempt in range(ATTEMPTS):
        results = folder / str(attempt)
        done = bench("sweep", *words.split(), "--results", results, status=None)
        found = load(next(results.iterdir()))
        if found.state == "complete" and good(found):
            return found
    pytest.fail(done.stderr + done.stdout)


def cost(run: Run) -> float:
    assert run.process
    return run.process.cpu_us_per_request


def counted_by_hand(server: str) -> float:
    """Return CPU microseconds per request of a server that this function runs. wait4(2) returns the
    CPU time of the server and its children; the time to start and end is subtracted."""

    def life(requests: int) -> float:
        with PrivateRedis((), SignalWatch()) as redis:
            redis.prepare()
            words = [str(ROOT / server), "--port", "0", "--redis", redis.url]
            with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout
                url = ""
                while not url:
                    found = re.match(r"url\s+(\S+)", process.stdout.readline())
                    url = found[1] if found else ""
                if requests:
                    load = ["ab", "-q", "-n", str(requests), "-c", str(CONNECTIONS)]
                    subprocess.run([*load, f"{url}redirect"], capture_output=True, check=True)
                process.terminate()
                process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                assert process.returncode == 0
                return (used.ru_utime + used.ru_stime) * 1e6

    return (life(REQUESTS) - life(0)) / REQUESTS


@pytest.mark.slow
def test_three_counts_of_what_a_request_costs(tmp_path: Path) -> None:
    """Three counts of the CPU time per request agree: those of the control group, of the server's
    statistics, and of wait4(2) in this test."""
    words = "--servers epoll,forking --workloads redirect --runs 1"
    words += f" --levels {CONNECTIONS} --requests {REQUESTS}"
    for run in swept(tmp_path, words).runs:
        said = run.server_statistics
        assert said
        assert said.cpu_us_per_request
        assert said.requests == FIRST + REQUESTS, "every request was counted"
        assert 0.9 < said.cpu_us_per_request / cost(run) < OWN_ABOVE
        # The load of the machine may change between the two measurements.
        assert 0.4 < counted_by_hand(run.subject) / cost(run) < 2.5


@pytest.mark.slow
def test_measure_runs_and_checks_two_parts(tmp_path: Path) -> None:
    words = ["measure", "--only", "baseline,syscalls", "--servers", "epoll", "--runs", "2"]
    words += ["--requests", "600", "--concurrency", "20", "--results", str(tmp_path)]
    if not (ROOT / "build/baselines/07_epoll").exists():
        pytest.skip("the baselines are not built")
    skip_unless_traceable()
    done = bench(*words, status=None)
    assert "CPU time per request" in done.stdout, done.stderr
    assert "System calls per request" in done.stdout
    (folder,) = tmp_path.iterdir()
    found = load(folder)
    assert {run.subject for run in found.runs} == {"epoll", "baseline-epoll"}
    assert len({(run.key, run.run) for run in found.runs}) == len(found.runs) == 4 + 4
    again = bench("report", "--targets", str(folder), status=None)
    assert again.returncode == done.returncode
    assert "System calls per request" in again.stdout


def test_an_optimisation_switched_off(tmp_path: Path) -> None:
    """The sweep really disables the optimisation. The server then makes a system call for each
    command to Redis; usually one call sends all commands of a loop iteration."""
    if not (ROOT / "build/baselines/without.so").exists():
        pytest.skip("the baselines are not built")
    skip_unless_traceable()
    words = "--servers epoll --workloads guestbook --probe traced --without none,pipeline"
    found = swept(tmp_path, f"{words} --levels 5 --requests 200 --runs 1")
    calls = {run.conditions.without: run.calls for run in found.runs}
    assert calls[""]
    assert calls["pipeline"]
    assert calls[""].per_request["sendto"] < 2
    assert round(calls["pipeline"].per_request["sendto"], 1) == 3


def test_memory_is_measured_for_each_workload(tmp_path: Path) -> None:
    def by_name(found: Results) -> dict[str, Run]:
        return {f"{run.conditions.workload} {run.conditions.mode}": run for run in found.runs}

    def good(found: Results) -> bool:
        return {name for name, run in by_name(found).items() if run.state == "held"} == wanted

    wanted = {"redirect parked", "hello parked", "sign parked", "sign pending"}
    words = "--servers epoll --levels 200 --workloads redirect,sign,hello --probe parked,pending"
    runs = by_name(swept(tmp_path, words, good))
    for name in wanted:
        run = runs[name]
        assert run.memory
        assert 0 < run.memory.per_connection < 64 * 1024
        assert run.requests_per_second is None
    reason = runs["hello pending"].reason
    assert reason is not None
    assert "200 requests were answered while Redis was paused" in reason.text


needs_wrk = pytest.mark.skipif(not shutil.which("wrk"), reason="needs wrk")
NAME = "go-nginx-2013"
"""The shortest study. Any machine can measure epoll; the other servers need packages."""
SHORTER = {"requests = 20000": "requests = 4000", "timeout = 60": "timeout = 15"}
"""Replacements for the study's values, because some runs last until their time limit."""


def shorter(folder: Path) -> Path:
    """Return a copy of the study that needs less time."""
    shutil.copy(STUDIES / f"{NAME}.published.csv", folder)
    text = (STUDIES / f"{NAME}.toml").read_text()
    for before, after in SHORTER.items():
        assert before in text
        text = text.replace(before, after)
    file = folder / f"{NAME}.toml"
    file.write_text(text)
    return file


@pytest.mark.slow
@needs_wrk
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """The study in the documentation is measured, checked, reported and resumed."""
    page = (ROOT / "docs" / "how-to" / "benchmark.md").read_text()
    text = re.findall(r"^```toml my.toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "my.toml").write_text(text)
    words = [tmp_path / "my.toml", "--requests", "300", "--runs", "1"]
    done = bench("run", *words, "--results", tmp_path, status=None)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert re.search(r"^\d+ of 20 met$", done.stdout, re.MULTILINE), done.stdout
    (folder,) = tmp_path.glob("2*/")
    results = load(folder)
    assert {(run.subject, run.conditions.workload) for run in results.runs} == {
        (name, load) for name in ("preforking", "epoll") for load in ("redirect", "guestbook")
    }
    assert (len(results.runs), results.state) == (16, "complete")
    again = bench("report", "--targets", folder, status=None)
    assert (again.returncode, again.stdout) == (done.returncode, done.stdout[-len(again.stdout) :])
    bench("report", folder)
    resumed = bench("run", "--resume", folder, status=None)
    assert resumed.stderr == f"run: {folder} is complete: nothing to resume\n"


@pytest.mark.slow
@needs_wrk
def test_a_study_over_hosts(tmp_path: Path) -> None:
    words = ["peers", shorter(tmp_path), "--no-install", "--hosts", hosts_file(tmp_path)]
    done = bench(*words, "--results", tmp_path, status=None)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    (folder,) = tmp_path.glob("2*/")
    results = load(folder)
    assert results.state == "complete"
    assert [host.role for host in results.hosts] == ["load", "server", "redis"]
    (kept,) = results.studies
    assert kept.name == NAME
    assert kept.published
    wanted, measured = set(study(NAME).subjects), {run.subject for run in results.runs}
    assert measured | set(results.left_out) == wanted
    assert not measured & set(results.left_out)
    assert set(results.peers) == measured - {"epoll"}
    epoll = next(run for run in results.runs if run.subject == "epoll")
    assert epoll.reason is None
    assert epoll.wrk
    assert epoll.wrk.statuses == {"200": epoll.requests}
    tables = peers.tables(Study(results), kept)
    assert [table.scenario.cores for table in tables] == ["one", "all"]
    for table in tables:
        assert {row.subject for row in table.rows} == wanted
        assert all(row.get("cpu") or row.why_not for row in table.rows)
        # Each table has the published rate for its number of cores.
        of_go = (row.then for row in table.rows if row.subject == "go-hello")
        then = {published.requests_per_second for each in of_go for published, _ in each}
        assert then == {{"one": 42745.15, "all": 128402.88}[table.scenario.cores]}
