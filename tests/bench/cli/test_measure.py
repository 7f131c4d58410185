# SPDX-License-Identifier: MIT
"""`zerohttpd measure` with real servers; its figures match those of independent counts."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.records.results import Results
from bench.records.run import Run
from bench.records.store import load
from bench.services.redis_server import PrivateRedis
from tests.e2e.tracing import skip_unless_traceable

from ..commands import bench
from ..whole_sweep import needs_a_sweep

pytestmark = [needs_a_sweep, pytest.mark.xdist_group("measure")]

REQUESTS, CONNECTIONS = 1500, 30
FIRST = 1 + 2 * CONNECTIONS
"""A first request, and two on each connection to warm up."""
ATTEMPTS = 3
"""The checks of a sweep reject a figure if the machine paused during the run."""
OWN_ABOVE = 1.6
"""A server's own count includes its start, its end, the first requests and the warm-up of its
caches: with few requests that is much."""


def swept(results: Path, *servers: str) -> Results:
    words = ["sweep", "--servers", ",".join(servers), "--workloads", "redirect", "--runs", "1"]
    words += ["--levels", str(CONNECTIONS), "--requests", str(REQUESTS), "--results", str(results)]
    for attempt in range(ATTEMPTS):
        done = bench(*words[:-1], str(results / str(attempt)), status=None)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr + done.stdout
    (folder,) = (results / str(attempt)).iterdir()
    return load(folder)


def cost(run: Run) -> float:
    assert run.process
    return run.process.cpu_us_per_request


def counted_by_hand(server: str) -> float:
    """Return CPU microseconds per request of a server that is started, used and ended here.
    wait4(2) returns the CPU time of it and its children; the time to start and end is
    subtracted."""

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
    """Three counts of the CPU time per request agree. The sweep reads the server's control group
    during the load, the server prints its own statistics, and the third count shares no code with
    either."""
    for run in swept(tmp_path, "epoll", "forking").runs:
        said = run.server_statistics
        assert said
        assert said.cpu_us_per_request
        assert said.requests == FIRST + REQUESTS, "every request was counted"
        assert 0.9 < said.cpu_us_per_request / cost(run) < OWN_ABOVE
        # Measured one after the other: the load of the machine may change between them.
        assert 0.4 < counted_by_hand(run.subject) / cost(run) < 2.5


@pytest.mark.slow
def test_the_whole_of_it(tmp_path: Path) -> None:
    words = ["measure", "--only", "floor,syscalls", "--servers", "epoll", "--runs", "2"]
    words += ["--requests", "600", "--concurrency", "20", "--results", str(tmp_path)]
    if not (ROOT / "build/floor/07_epoll").exists():
        pytest.skip("the baselines are not built")
    skip_unless_traceable()
    done = bench(*words, status=None)
    assert "CPU time per request" in done.stdout, done.stderr
    assert "System calls per request" in done.stdout
    (folder,) = tmp_path.iterdir()
    found = load(folder)
    assert {run.subject for run in found.runs} == {"epoll", "floor-epoll"}
    assert len({(run.key, run.run) for run in found.runs}) == len(found.runs) == 4 + 4
    again = bench("report", "--targets", str(folder), status=None)
    assert again.returncode == done.returncode
    assert "System calls per request" in again.stdout


def test_a_trick_switched_off(tmp_path: Path) -> None:
    """Without the optimisation the server makes one write per command to Redis, with it one per
    loop iteration. So the ablation was really applied to the server."""
    if not (ROOT / "build/floor/without.so").exists():
        pytest.skip("the baselines are not built")
    skip_unless_traceable()
    words = ["sweep", "--servers", "epoll", "--workloads", "guestbook", "--probe", "traced"]
    words += ["--without", "none,pipeline", "--levels", "5", "--requests", "200", "--runs", "1"]
    done = bench(*words, "--results", str(tmp_path), status=None)
    assert done.returncode == 0, done.stdout
    (folder,) = tmp_path.iterdir()
    calls = {run.conditions.without: run.calls for run in load(folder).runs}
    assert calls[""]
    assert calls["pipeline"]
    assert calls[""].per_request["sendto"] < 2
    assert round(calls["pipeline"].per_request["sendto"], 1) == 3


def test_memory_of_connections(tmp_path: Path) -> None:
    words = ["sweep", "--servers", "epoll", "--probe", "parked,pending", "--levels", "200"]
    for _ in range(ATTEMPTS):
        shutil.rmtree(tmp_path)
        done = bench(*words, "--results", str(tmp_path), status=None)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout
    (folder,) = tmp_path.iterdir()
    for run in load(folder).runs:
        assert run.memory
        assert 0 < run.memory.per_connection < 64 * 1024
        assert run.requests_per_second is None
        assert next(check for check in run.checks if check.name == "visitors in Redis").holds


@pytest.mark.slow
def test_a_crowd_asks_for_what_is_named(tmp_path: Path) -> None:
    words = ["sweep", "--servers", "epoll", "--levels", "20", "--results", str(tmp_path)]
    wanted = {"redirect parked", "hello parked", "sign parked", "sign pending"}
    for _ in range(ATTEMPTS):
        shutil.rmtree(tmp_path)
        done = bench(
            *words, "--workloads", "redirect,sign,hello", "--probe", "parked,pending", status=None
        )
        (folder,) = tmp_path.iterdir()
        runs = {
            f"{run.conditions.workload} {run.conditions.mode}": run for run in load(folder).runs
        }
        held = {name for name, run in runs.items() if run.state == "held"}
        if held == wanted:
            break
    assert held == wanted, done.stdout
    reason = runs["hello pending"].reason
    assert reason is not None
    assert "20 requests were answered while Redis was paused" in reason.text
