# SPDX-License-Identifier: MIT
"""baselines/without.c changes only the system calls of the optimisation that it disables."""

import itertools
import subprocess
import sys

import pytest

from bench.host.project import ROOT
from bench.records.conditions import Conditions
from bench.records.figures import CallFigures
from bench.subjects.running import WITHOUT, without
from bench.subjects.subject import select
from tests.e2e.tracing import skip_unless_traceable

from ..measuring import measured_of

pytestmark = [
    pytest.mark.skipif(not (ROOT / "epoll").exists(), reason="needs ./epoll"),
    pytest.mark.skipif(not WITHOUT.exists(), reason="the baselines are not built"),
]

REQUESTS = 200
KEPT = Conditions("small", keep_alive=True)
REDIRECT, LARGE = Conditions("redirect"), Conditions("large")
MORE_CALLS = [
    ("gather", REDIRECT, {"sendto": 1}),
    ("send", REDIRECT, {"sendto": -1, "sendmsg": 1}),
    ("inherit", REDIRECT, {"setsockopt": 3}),
    ("at-once", REDIRECT, {"epoll_ctl": 1}),
    ("cork", LARGE, {"setsockopt": -1}),
    ("more", LARGE, {"setsockopt": -1}),
    ("cache", KEPT, {"openat2": 1, "read": 1, "close": 1}),
    ("control", LARGE, {}),
]
"""How the system calls of a request change if the optimisation is disabled."""
UNRELATED = {"epoll_wait", "epoll_pwait", "accept4", "fstat", "newfstatat"}
"""Calls that are not compared: some may serve several requests, and fstat() has two names."""


def calls_of(conditions: Conditions) -> CallFigures:
    (epoll,) = select(("epoll",), programs=ROOT)
    run = measured_of(epoll, conditions._replace(mode="traced"), requests=REQUESTS)
    assert run.calls, run.reason
    return run.calls


@pytest.mark.parametrize(("optimisation", "conditions", "more"), MORE_CALLS)
def test_an_optimisation_switched_off_by_its_calls(
    optimisation: str, conditions: Conditions, more: dict[str, int]
) -> None:
    skip_unless_traceable()
    usual = calls_of(conditions).per_request
    other = calls_of(conditions._replace(without=optimisation)).per_request
    names = (usual.keys() | other.keys()) - UNRELATED
    differ = {name: round(other.get(name, 0) - usual.get(name, 0)) for name in names}
    assert {name: n for name, n in differ.items() if n} == more


LOOKS = "import ctypes; look = ctypes.CDLL(None).time; print(*(look(None) for _ in range(100)))"


def seconds_seen(optimisation: str) -> list[int]:
    command = without(optimisation, [sys.executable, "-c", LOOKS])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(map(int, done.stdout.split()))


def test_without_a_lasting_second_no_two_looks_find_the_same() -> None:
    """Without the optimisation `date`, each call of time() returns another second than the last
    call, so the server formats the field Date for each response."""
    usual, other = seconds_seen("control"), seconds_seen("date")
    assert usual == sorted(usual)
    changes = [b - a for a, b in itertools.pairwise(other)]
    assert changes.count(-1) >= 48, "the value alternates, except when a second ends"
    assert set(changes) <= {-1, 0, 1, 2}
