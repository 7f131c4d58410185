# SPDX-License-Identifier: MIT
"""`make test` leaves out the slow tests, and runs them if they are named. 7 s."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.host.project import ROOT

FOLDER = "tests/bench/timeline"
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
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "::" in done.stdout
    assert (f"::{SLOW}" in done.stdout) == is_run
