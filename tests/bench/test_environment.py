# SPDX-License-Identifier: MIT
"""What the user has exported changes nothing: `make all` and `make bench` work with hostile
variables, and a hook of git may run the tests.

Takes about 30 s of CPU time.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench.host.project import ROOT

SWEEP = "--servers epoll --levels 5 --requests 50"
SELECTION = "tests/bench/test_lint.py tests/bench/deploy/test_command.py"

# T stands for a folder in which FILES are.
FILES = {
    "pip.conf": "[global]\nno-index = yes\n[install]\nuser = yes\n",
}
HOSTILE: dict[str, dict[str, str]] = {
    "pip": {"PIP_USER": "1", "PIP_TARGET": "T/pip", "PIP_CONFIG_FILE": "T/pip.conf"},
    "terminal": {
        "TERM": "none",
        "COLUMNS": "1",
        "LINES": "0",
        "FORCE_COLOR": "1",
        "NO_COLOR": "1",
        "CLICOLOR_FORCE": "1",
        "COLORTERM": "x",
        "PAGER": "false",
        "EDITOR": "false",
    },
    "git": {"GIT_DIR": "T/none", "GIT_CONFIG_COUNT": "x", "GIT_CEILING_DIRECTORIES": "/"},
}
WITHOUT_HOME = "without HOME"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("T/", f"{tmp_path}/") + "\n")
    return tmp_path


def run(*command: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables; without HOME if that is empty. It must succeed."""
    environment = {**os.environ, **more}
    if environment.get("HOME") == "":
        del environment["HOME"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("kind", [*HOSTILE, WITHOUT_HOME])
def test_make_works_with_hostile_variables(kind: str, folder: Path) -> None:
    """It builds here and not elsewhere, and the results are those of this project."""
    chosen = HOSTILE.get(kind, {"HOME": ""})
    hostile = {name: value.replace("T/", f"{folder}/") for name, value in chosen.items()}
    run("make", "-s", "all", **hostile)
    run("make", "-s", f"BUILD={folder}/objects", f"{folder}/objects/lib/proto/path.o", **hostile)
    assert not (folder / "none").exists()
    assert not (folder / "deps").exists()
    swept = folder / "results"
    run("make", "-s", "bench", f"ARGS={SWEEP} --results {swept}", **hostile)
    (results,) = swept.glob("*/results.json")
    content = json.loads(results.read_text(encoding="utf-8"))
    assert content["state"] == "complete"
    head = run("git", "rev-parse", "HEAD").stdout.strip()
    assert content["versions"]["git"]["commit"] == head


def git(repository: Path, *words: str) -> str:
    """Run git in the repository; return what it prints."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return run("git", *author, *words, cwd=repository).stdout


@pytest.fixture
def repository(folder: Path) -> Path:
    """A repository with one commit."""
    made = folder / "repository"
    made.mkdir()
    (made / "file").write_text("text\n")
    git(made, "init", "--quiet")
    git(made, "add", "file")
    git(made, "commit", "--quiet", "--message=first")
    return made


def test_a_hook_in_a_linked_worktree_may_run_the_tests(repository: Path, folder: Path) -> None:
    """git exports GIT_DIR and GIT_INDEX_FILE to a hook. The tests call `git init` and `git add`."""
    linked = folder / "linked"
    git(repository, "worktree", "add", "--quiet", str(linked))
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\nenv >{folder}/environment\n"
        f"cd '{ROOT}' && exec .venv/bin/python -m pytest -q {SELECTION}\n"
    )
    hook.chmod(0o755)
    configuration = (repository / ".git" / "config").read_bytes()
    (linked / "second").write_text("text\n")
    git(linked, "add", "second")
    git(linked, "commit", "--quiet", "--message=second")
    assert "GIT_INDEX_FILE=" in (folder / "environment").read_text()
    assert (repository / ".git" / "config").read_bytes() == configuration
    assert git(linked, "show", "--name-only", "--format=").split() == ["second"]
    assert git(linked, "status", "--porcelain") == ""
