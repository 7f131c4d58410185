# SPDX-License-Identifier: MIT
"""docs/tutorial/own-server.md is true for architectures that none of the seven servers has."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..client import fetch
from ..harness import REPOSITORY, Server
from ..timing import wait_until

pytestmark = pytest.mark.xdist_group("eighth")
EIGHTHS = ("looping", "listening")
EIGHTH = REPOSITORY / "tests" / "e2e" / "eighth"
KINDS = (
    *(f"asking_redis/test_redis_{name}" for name in ("kept", "scarce")),
    *(f"kinds/test_{name}" for name in ("start", "cost")),
    *(f"limits/test_{name}" for name in ("stop", "stalling", "fairness", "clients")),
    *(f"limits/test_{name}" for name in ("ports", "faults_start")),
)
"""The test files that depend on the server's architecture."""
FILES = ("Makefile", "redirects", "pyproject.toml")
FOLDERS = ("lib", "ops", "public", "templates", "tests")
WORKERS = 4


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with two further servers, built."""
    copy = tmp_path_factory.mktemp("project")
    for name in FILES:
        shutil.copy(REPOSITORY / name, copy / name)
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, copy / name)
    shutil.copytree(EIGHTH, copy, dirs_exist_ok=True)
    _must_run(["make", "-j2", *EIGHTHS, "faults", "CFLAGS=-O1 -Werror"], copy)
    return copy


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


@pytest.mark.slow
def test_each_listens_for_itself(project: Path) -> None:
    """Each worker gets a share of the connections, and a replacement gets its own listener. A
    listener outlives its worker: no connection is refused or lost while there is none."""
    options = ("--each-worker", "--workers", str(WORKERS))
    with Server(project / "listening", project, "redis://127.0.0.1:1", options) as server:
        wait_until(lambda: len(server.children()) == WORKERS, "all have been forked")
        first, *_ = server.children()
        for _ in range(16 * WORKERS):
            assert fetch(server, "/redirect").status == 302
        os.kill(first, signal.SIGTERM)
        wait_until(lambda: first not in server.children(), "it has ended")
        for _ in range(16 * WORKERS):
            assert fetch(server, "/redirect").status == 302
        wait_until(lambda: len(server.children()) == WORKERS, "another has been forked")
    shares = [int(server.statistics()[f"worker {number}"]) for number in range(1, WORKERS + 1)]
    assert sum(shares) == 2 * 16 * WORKERS
    assert min(shares) > 0
