"""Servers that lie are found out, in every mode of measuring. These start real ones, and real ab.

The good one is the control: it must hold, or the others prove nothing.
"""

import shutil
import sys
from pathlib import Path

import pytest

from bench import open_loop
from bench.cell import Bench, measure
from bench.conditions import Conditions
from bench.ladder import RunSpec
from bench.measure.accounting import parent_of_groups
from bench.placement import Placement
from bench.private_redis import RedisUse
from bench.results import Run
from bench.signals import SignalWatch
from bench.subjects import Place, Subject

SCRIPT = Path(__file__).parent / "broken_server.py"
REQUESTS = 600

MODES = {
    "closed": Conditions("/any"),
    "kept": Conditions("/any", keep_alive=True),
    "open": Conditions("/any", mode="open", rate=500.0),
    "open, kept": Conditions("/any", keep_alive=True, mode="open", rate=500.0),
}

pytestmark = pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed")


class NoRedis:
    """Stands for the Redis of a run; the broken servers use none."""

    private = True
    url = "redis://127.0.0.1:1/0"

    def prepare(self) -> None:
        """Nothing to prepare."""

    def counts(self) -> tuple[int, int]:
        """Nobody has visited, nobody has signed."""
        return 0, 0

    def use(self) -> RedisUse:
        """Nothing."""
        return RedisUse(0.0, 0.0, None)


def broken(mode: str) -> Subject:
    def command(place: Place) -> list[str]:
        return [sys.executable, str(SCRIPT), mode, str(place.port)]

    return Subject(name=mode, kind="stranger", command=command)


def measured(fault: str, conditions: Conditions, concurrency: int = 10) -> Run:
    if conditions.mode == "open" and open_loop.program() is None:
        pytest.skip("oha is not installed")
    bench = Bench(
        NoRedis(),  # type: ignore[arg-type]
        Placement(server=[], load=[], note=""),
        SignalWatch(),
        parent_of_groups(),
    )
    spec = RunSpec(fault, conditions, concurrency, 1, REQUESTS, timeout=3.0)
    run, _ = measure(broken(fault), spec, bench)
    return run


@pytest.mark.parametrize("mode", MODES)
def test_the_good_one_holds(mode: str) -> None:
    run = measured("good", MODES[mode])
    assert run.reason is None
    assert run.state == "held"
    assert run.requests_per_second is not None
    assert run.process is not None
    assert run.process.cpu_us_per_request > 0
    assert run.process.processes_peak == 1
    assert run.latency is not None
    assert run.latency.p50 <= run.latency.p99 <= run.latency.p999 <= run.latency.max


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fault",
    [
        *("drops", "errors", "always-errors", "dies", "cuts", "claims-more", "claims-less"),
        *("cheats", "silent"),
    ],
)
def test_a_broken_one_is_found_out(fault: str, mode: str) -> None:
    run = measured(fault, MODES[mode])
    assert run.state == "failed"
    assert run.requests_per_second is None
    assert run.reason is not None
    assert run.reason.label
    assert any(
        words in run.reason.text
        for words in {
            "drops": ("failed", "Connection", "connection", "IncompleteMessage"),
            "errors": ("not 2xx", "x 500", "failed"),
            "always-errors": ("got 500",),
            "dies": ("died", "status 3", "warm-up", "refused"),
            "cuts": ("failed", "Connection", "connection", "IncompleteMessage"),
            "claims-more": ("Content-Length says", "warm-up"),
            "claims-less": ("Content-Length says",),
            "cheats": ("bytes came",),
            "silent": ("not done after", "expired", "warm-up", "timeout"),
        }[fault]
    ), run.reason.text


def test_visitors_that_nobody_counted_are_missed() -> None:
    """A server that answers from a cache of its own looks fast and does not count its visitors."""
    bench = Bench(
        NoRedis(),  # type: ignore[arg-type]
        Placement(server=[], load=[], note=""),
        SignalWatch(),
    )
    spec = RunSpec("good", Conditions("guestbook"), 10, 1, REQUESTS, timeout=6.0)
    run, _ = measure(broken("good"), spec, bench)
    assert run.reason is not None
    assert run.reason.text == f"{REQUESTS} visitors were due, 0 were counted"
