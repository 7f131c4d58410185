# SPDX-License-Identifier: MIT
"""Exported variables do not change what `make` does, and no repository that they name is changed.

`make all`, `bench`, `report`, `test` and `fault`, and scripts/lint.sh run with hostile variables.
Takes about a minute.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.records.values import toml_of

from . import commands

SWEEP = "--servers epoll --levels 5 --requests 50"
SELECTION = "tests/bench/test_lint.py tests/bench/deploy/test_command.py"

HOSTILE = toml_of(Path(__file__).with_name("environment.toml"))
TOGETHER = (
    ("python", "pip", "shell", "make"),
    ("compiler", "locale", "terminal", "programs", "git"),
)
"""Each kind of variables is in one of these runs. The second run has no HOME."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in HOSTILE["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("T/", f"{tmp_path}/") + "\n")
    return tmp_path


def run(*command: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables, and require success. An empty HOME is removed."""
    environment = {**os.environ, **more}
    if environment.get("HOME") == "":
        del environment["HOME"]
    return commands.run(*command, cwd=cwd, env=environment)


def hostile_variables(folder: Path, *kinds: str) -> dict[str, str]:
    words = [word for kind in kinds for word in shlex.split(HOSTILE[kind])]
    words += ["BASELINE=T/none"] * ("make" in kinds)
    return dict(word.replace("T/", f"{folder}/").split("=", 1) for word in words)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", TOGETHER)
def test_make_works_with_hostile_variables(kinds: tuple[str, ...], folder: Path) -> None:
    """With hostile variables, `make` builds in the usual folders, and measures this project."""
    hostile = hostile_variables(folder, *kinds)
    balanced = ""
    if "programs" in kinds:
        hostile["HOME"], balanced = "", " --balancer close"
    run("make", "-s", "all", **hostile)
    run("make", "-s", f"BUILD={folder}/objects", f"{folder}/objects/lib/proto/path.o", **hostile)
    assert not (folder / "none").exists()
    assert not (folder / "deps").exists()
    swept = folder / "results"
    run("make", "-s", "bench", f"ARGS={SWEEP}{balanced} --results {swept}", **hostile)
    (results,) = swept.glob("*/results.json")
    content = json.loads(results.read_text(encoding="utf-8"))
    assert content["state"] == "complete"
    head = run("git", "rev-parse", "HEAD").stdout.strip()
    assert content["versions"]["git"]["commit"] == head
    run("make", "-s", "report", f"RESULTS={results.parent}", **hostile)
    assert (results.parent / "report.html").exists()


def snapshot(repository: Path) -> dict[str, bytes]:
    """Return every file of a repository: its configuration, index, objects and tree."""
    files = (path for path in repository.rglob("*") if path.is_file())
    return {str(path.relative_to(repository)): path.read_bytes() for path in files}


def git(repository: Path, *words: str) -> str:
    """Run git in a repository, and return its output."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return run("git", *author, *words, cwd=repository).stdout


@pytest.fixture
def repository(folder: Path) -> Path:
    made = folder / "repository"
    made.mkdir()
    (made / "file").write_text("text\n")
    git(made, "init", "--quiet")
    git(made, "add", "file")
    git(made, "commit", "--quiet", "--message=first")
    return made


@pytest.mark.slow
def test_nothing_writes_to_the_repository_of_a_calling_git(repository: Path, folder: Path) -> None:
    """`make test`, `make fault` and a sweep ignore git's variables, which `git rebase --exec`
    sets. Four other kinds of hostile variables are set too."""
    hostile = hostile_variables(folder, "python", "shell", "make", "programs")
    hostile |= {"GIT_DIR": f"{repository}/.git", "GIT_WORK_TREE": str(repository)}
    hostile |= {"GIT_INDEX_FILE": f"{repository}/.git/index", "GIT_PREFIX": ""}
    before = snapshot(repository)
    run("make", "-s", "test", f"ARGS={SELECTION}", **hostile)
    copy = folder / "copy"
    run("make", "-s", "fault", "N=07", f"INTO={copy}", **hostile)
    assert (copy / "07_epoll" / "main.c").exists()
    assert not (copy / "file").exists()
    run("make", "-s", "bench", f"ARGS={SWEEP} --results {folder}/results", **hostile)
    run("scripts/lint.sh", "licence", **hostile)
    assert snapshot(repository) == before
