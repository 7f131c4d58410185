# SPDX-License-Identifier: MIT
"""README's "Adding an eighth", with a kind that none of the seven is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .harness import REPOSITORY

EIGHTH = Path(__file__).parent / "eighth"
KINDS = ("start", "stop", "stalling", "fairness", "clients", "redis_kept")
"""The files of tests that ask what kind of server it is."""
FILES = ("Makefile", "redirects", "pyproject.toml")
FOLDERS = ("lib", "public", "templates", "tests")


def test_an_eighth_of_a_kind_of_its_own(tmp_path: Path) -> None:
    """A pool whose processes each run a loop: its folder is all that is added."""
    copy = tmp_path / "project"
    copy.mkdir()
    for name in FILES:
        shutil.copy(REPOSITORY / name, copy / name)
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, copy / name)
    shutil.copytree(EIGHTH, copy, dirs_exist_ok=True)
    tests = [f"tests/e2e/test_{name}.py" for name in KINDS]
    pytest = [sys.executable, "-m", "pytest", "-q", "--server", "looping", "-m", "not waits"]
    for command in (["make", "looping", "CFLAGS=-O1 -Werror"], [*pytest, *tests]):
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
