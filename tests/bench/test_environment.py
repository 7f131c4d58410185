# SPDX-License-Identifier: MIT
"""Variables that the user has exported change nothing, and no repository that they name is written.

`make all`, `make bench`, `make report` and `make test` run with hostile variables. Takes about a
minute.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from bench.host.project import ROOT

from . import commands

SWEEP = "--servers epoll --levels 5 --requests 50"
SELECTION = "tests/bench/test_lint.py tests/bench/deploy/test_command.py"

# T is replaced by a folder with FILES.
FILES = {
    "python/bench/__init__.py": "raise SystemExit('another bench')",
    "python/json.py": "raise SystemExit('another json')",
    "cd/scripts/other": "",
    "cd/deploy/other": "",
    "shell": "echo printed by BASH_ENV; cd() { echo another cd; }",
    "include/config.h": "#error another config.h",
    "pip.conf": "[global]\nno-index = yes\n[install]\nuser = yes\n",
}
HOSTILE = {
    kind: dict(word.split("=", 1) for word in shlex.split(words))
    for kind, words in {
        "python": """
            PYTHONPATH=T/python PYTHONHOME=T/none PYTHONSAFEPATH=1 PYTHONOPTIMIZE=2
            PYTHONWARNINGS=error PYTHONINSPECT=1 PYTHONIOENCODING=ascii PYTHONUTF8=0
            PYTHONNOUSERSITE=x PYTHONSTARTUP=T/none PYTHONVERBOSE=1 PYTHONUSERBASE=T/none
            PYTEST_ADDOPTS=--none PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
            """,
        "pip": """
            PIP_USER=1 PIP_TARGET=T/pip PIP_CONFIG_FILE=T/pip.conf
            """,
        "shell": """
            CDPATH=T/cd BASH_ENV=T/shell ENV=T/shell GLOBIGNORE=*
            'BASH_FUNC_cd%%=() { echo another cd; }' 'BASH_FUNC_sed%%=() { :; }'
            SHELLOPTS=noglob:noclobber:posix BASHOPTS=failglob TMOUT=1 POSIXLY_CORRECT=1 IFS=/
            'PS4=$(false)' LS_COLORS=x
            """,
        "make": """
            BIN=T/none BUILD=T/none TARGET=none V=1 ARGS=--none HOSTS=none
            RESULTS=T/none NAME=x FROM=x N=99 SERVER=none STUDY=none TIME=%E MAKELEVEL=3
            MAKEFLAGS=k LIB=T/none FOLDERS=none AR=ar PYTHON=none
            """,
        "compiler": """
            DEPENDENCIES_OUTPUT=T/deps SUNPRO_DEPENDENCIES=T/deps CPATH=T/include
            C_INCLUDE_PATH=T/include LIBRARY_PATH=T/none GCC_COLORS=error=01;31
            SOURCE_DATE_EPOCH=0 LD_RUN_PATH=T/none
            """,
        "locale": """
            LC_ALL=tr_TR.UTF-8 LANG=none LANGUAGE=de LC_NUMERIC=de_DE TZ=Pacific/Apia
            CHARSET=none
            """,
        "terminal": """
            TERM=none COLUMNS=1 LINES=0 FORCE_COLOR=1 NO_COLOR=1 CLICOLOR_FORCE=1 COLORTERM=x
            PAGER=false EDITOR=false
            """,
        "programs": """
            NGINX=/usr/sbin/nginx TAR_OPTIONS=--none GREP_OPTIONS=-v VERSION_CONTROL=none
            PATCH_GET=1 SIMPLE_BACKUP_SUFFIX=.x REDISCLI_AUTH=x NOTIFY_SOCKET=T/none
            BLOCK_SIZE=1 http_proxy=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1
            """,
        "git": """
            GIT_DIR=T/none GIT_CONFIG_COUNT=x GIT_CEILING_DIRECTORIES=/
            """,
    }.items()
}
HOSTILE["make"]["FLOOR"] = "T/none"
TOGETHER = (
    ("python", "pip", "shell", "make"),
    ("compiler", "locale", "terminal", "programs", "git"),
)
"""Each kind is in one of these runs. The second run has no HOME."""


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
    return commands.run(*command, cwd=cwd, env=environment)


def hostile_variables(folder: Path, *kinds: str) -> dict[str, str]:
    chosen = {name: value for kind in kinds for name, value in HOSTILE[kind].items()}
    return {name: value.replace("T/", f"{folder}/") for name, value in chosen.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", TOGETHER)
def test_make_works_with_hostile_variables(kinds: tuple[str, ...], folder: Path) -> None:
    """`make` builds in this folder only, and the results are those of this project."""
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
    """Run git in the repository; return what it prints."""
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
    sets. The other hostile variables are set too."""
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
