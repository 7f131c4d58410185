# SPDX-License-Identifier: MIT
"""`make test` leaves out the slow tests, and runs them if they are named. The slow tests are the
first ones. 9 s."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.host.project import ROOT

FOLDER = "tests/bench/timeline"
OF_SERVERS = "tests/e2e/pages"
SLOW = "test_it_hinders_nobody"


@pytest.mark.parametrize(
    ("words", "is_run"),
    [
        (["--commit", "-o", f"testpaths={FOLDER}"], False),
        (["--commit", "-o", f"testpaths={FOLDER}", "-k", "nobody"], True),
        (["--commit", FOLDER], True),
        (["-o", f"testpaths={FOLDER}"], True),
    ],
)
def test_slow_tests_of_a_commit(words: list[str], is_run: bool) -> None:
    names = collected(*words)
    assert names
    assert any(f"::{SLOW}" in name for name in names) == is_run


def collected(*words: str) -> list[str]:
    """Return the names of the tests that this command line runs, in their order."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_what_is_slow_begins_and_what_waits_is_beside_what_computes() -> None:
    names = collected("-o", f"testpaths={FOLDER} {OF_SERVERS}")
    of_bench = [place for place, name in enumerate(names) if name.startswith(FOLDER)]
    assert SLOW in names[of_bench[0]]
    others = [place for place, name in enumerate(names) if name.startswith(OF_SERVERS)]
    assert min(others) < of_bench[len(of_bench) // 2] < max(others)
