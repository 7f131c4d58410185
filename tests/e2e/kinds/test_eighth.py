# SPDX-License-Identifier: MIT
"""docs/tutorial/own-server.md is true for architectures that none of the seven servers has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..harness import REPOSITORY

pytestmark = pytest.mark.xdist_group("eighth")
MULTICORE = REPOSITORY / "09_multicore"
EIGHTHS = ("multicore", "listening")
LISTENING = {'"multicore"': '"listening"', "LISTENER_OPTION": "LISTENER_EACH"}
"""The changes that make of 09_multicore a server in which each worker always has a listener."""
KINDS = (
    *(f"asking_redis/test_redis_{name}" for name in ("kept", "scarce")),
    *(f"kinds/test_{name}" for name in ("start", "cost", "multicore")),
    *(f"limits/test_{name}" for name in ("stop", "stalling", "fairness", "clients")),
    *(f"limits/test_{name}" for name in ("left_behind", "memory_group", "statistics")),
    *(f"limits/test_{name}" for name in ("ports", "faults_start")),
)
"""The test files that depend on the server's architecture."""
FILES = ("Makefile", "README.md", "redirects", "pyproject.toml")
FOLDERS = ("docs/explanation", "lib", "ops", "public", "templates", "tests")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with two further servers, built."""
    copy = tmp_path_factory.mktemp("project")
    for name in FILES:
        shutil.copy(REPOSITORY / name, copy / name)
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, copy / name)
    shutil.copytree(MULTICORE, copy / MULTICORE.name)
    _make_listening(copy / "10_listening")
    _must_run(["make", "-j2", *EIGHTHS, "faults", "CFLAGS=-O1 -Werror"], copy)
    return copy


def _make_listening(folder: Path) -> None:
    """Make the folder of a server in which each worker always has a listener."""
    source, facts = ((MULTICORE / name).read_text() for name in ("main.c", "tests.toml"))
    for before, after in LISTENING.items():
        assert before in source
        source = source.replace(before, after)
    folder.mkdir()
    (folder / "main.c").write_text(source)
    (folder / "tests.toml").write_text(f"{facts}listener_each = true\n")


def _must_run(command: list[str], project: Path) -> str:
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", EIGHTHS)
def test_an_eighth_of_a_kind_of_its_own(name: str, project: Path) -> None:
    """A server works as a pool of event loops, with one listener or with one for each. Its folder
    is all that is added."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "4", "--dist", "loadgroup"]
    command += ["--server", name, "-m", "not waits"]
    assert " passed" in _must_run([*command, *(f"tests/e2e/{kind}.py" for kind in KINDS)], project)
