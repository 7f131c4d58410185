"""bench.measure with real servers, a real Redis and ab: some thousand requests."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.host.signals import SignalWatch
from bench.measure import load
from bench.measure.cost import WARM_UP, Order, interleaved
from bench.measure.load import GUESTBOOK, REDIRECT, Load, NoFigure
from bench.measure.running import Bench, Running
from bench.records.environment import Placement
from bench.services.private_redis import PrivateRedis
from bench.subjects.servers import discover
from bench.subjects.subject import Place, Subject, server_subject

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / "epoll").exists() or not shutil.which("ab") or not shutil.which("redis-server"),
        reason="needs ./epoll, ab and redis-server",
    ),
    pytest.mark.xdist_group("measure"),
]

EPOLL = server_subject(next(server for server in discover() if server.name == "epoll"))
REQUESTS = 600
ATTEMPTS = 3
"""The checks of a sweep refuse a figure where the machine stood still meanwhile."""


def test_costs_are_counted_and_so_are_visitors() -> None:
    watch = SignalWatch()
    with PrivateRedis((), watch) as redis:
        bench = Bench(redis, Placement(server=[], load=[], note=""), watch, lambda _: None)
        orders = [
            Order(EPOLL, Load(GUESTBOOK, False, REQUESTS, 20)),
            Order(EPOLL, Load(REDIRECT, True, REQUESTS, 20)),
        ]
        guestbook, redirect = interleaved(orders, 2, bench)
        assert guestbook.problems == redirect.problems == []
        assert len(guestbook.samples) == len(redirect.samples) == 2
        assert min(redirect.median(), guestbook.median()) > 0
        assert redirect.median("bytes_per_response") < guestbook.median("bytes_per_response")


def test_without_control_groups_the_whole_life_is_counted() -> None:
    watch = SignalWatch()
    with PrivateRedis((), watch) as redis:
        bench = Bench(redis, Placement(server=[], load=[], note=""), watch, lambda _: None)
        bench.groups = None
        (cell,) = interleaved([Order(EPOLL, Load(REDIRECT, False, WARM_UP, 20))], 1, bench)
        assert cell.problems == []
        assert cell.median() > 0
        assert "minus a start without requests" in bench.accounting


def test_the_life_of_a_server_is_not_that_of_the_load() -> None:
    watch = SignalWatch()
    with PrivateRedis((), watch) as redis:
        bench = Bench(redis, Placement(server=[], load=[], note=""), watch, lambda _: None)
        bench.groups = None
        with Running(EPOLL, REDIRECT, bench) as running:
            busy = "import time\nwhile time.process_time() < 0.5: pass"
            subprocess.run([sys.executable, "-c", busy], check=True)
        assert running.lifetime is not None
        assert running.lifetime.total < 0.4e6


def test_a_run_that_does_not_hold_has_no_figure() -> None:
    """A server that answers without a look at Redis: no visitor is counted."""
    script = Path(__file__).parents[1] / "broken_server.py"

    def command(place: Place) -> list[str]:
        return [sys.executable, str(script), "good", str(place.port)]

    watch = SignalWatch()
    with PrivateRedis((), watch) as redis:
        bench = Bench(redis, Placement(server=[], load=[], note=""), watch, lambda _: None)
        subject = Subject(name="liar", kind="stranger", command=command)
        with Running(subject, GUESTBOOK, bench) as running:
            assert load.ask_once(running) > 500
            with pytest.raises(NoFigure, match="200 visitors were due, 0 were counted"):
                load.run(Load(GUESTBOOK, False, 200, 10), running, bench)
        (cell,) = interleaved([Order(subject, Load(GUESTBOOK, False, 200, 10))], 1, bench)
        assert not cell.holds


def test_the_whole_program_and_that_three_counts_count_the_same_requests(tmp_path: Path) -> None:
    words = ["--only", "agreement", "--servers", "epoll,forking", "--runs", "1"]
    words += ["--requests", str(REQUESTS), "--concurrency", "30", "--results", str(tmp_path)]
    command = [sys.executable, "-m", "bench", "measure", *words]
    for _ in range(ATTEMPTS):
        shutil.rmtree(tmp_path)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr + done.stdout
    (file,) = tmp_path.glob("*/measure.json")
    found = json.loads(file.read_text())["agreement"]
    assert [(one["server"], one["workload"]) for one in found] == [
        ("forking", "redirect"),
        ("epoll", "redirect"),
        ("forking", "guestbook"),
        ("epoll", "guestbook"),
    ]
    for one in found:
        # A first request, two on each connection to warm up, and those that count.
        assert one["counted"] == one["due"] == 1 + 2 * 30 + REQUESTS
        assert min(one["sweep"], one["own"], one["measured"]) > 0
    assert "Three counts of CPU microseconds per request" in done.stdout


def test_wrong_usage() -> None:
    for words, said in (
        (["--only", "nothing"], "unknown part: nothing. Known: redirect, "),
        (["--servers", "apache"], "unknown server: apache. Known: "),
    ):
        command = [sys.executable, "-m", "bench", "measure", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2
        assert said in done.stderr
