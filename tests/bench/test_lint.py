# SPDX-License-Identifier: MIT
"""scripts/lint.sh finds the files to check, or fails; scripts/prose.py finds forbidden words."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.project import ROOT

from . import commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a repository with the script, and a source without a licence."""
    (tmp_path / "scripts").mkdir()
    for name in ("lint.sh", "environment.sh", "foreign-variables"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "bare.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def run(
    folder: Path, *command: str | Path, status: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without the user's settings of git."""
    settings = {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    if (folder / "not-ours").exists():
        settings["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
    return commands.run(*command, cwd=folder, status=status, env=os.environ | settings)


def test_a_file_without_a_licence(folder: Path) -> None:
    """scripts/lint.sh names files without a licence line, except served files and documents."""
    for name in ("public/bare.css", "bench/bare.css", "bench/bare.of-no-kind", "docs/bare.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    done = run(folder, "scripts/lint.sh", "licence")
    assert done.returncode == 1
    found = {line.partition(": no line")[0] for line in done.stdout.splitlines()[1:]}
    assert found == {"bare.c", "bench/bare.css", "bench/bare.of-no-kind"}


def test_a_folder_of_another_user(folder: Path) -> None:
    (folder / "not-ours").touch()
    if run(folder, "git", "ls-files").returncode == 0:
        pytest.skip("this git accepts folders of any user")
    done = run(folder, "scripts/lint.sh", "licence")
    assert "bare.c: no line" in done.stdout


def test_no_repository(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    for part in ("layout", "tidy", "shell", "licence"):
        done = run(folder, "scripts/lint.sh", part)
        assert done.returncode == 2, part
        assert "lint: git lists nothing for " in done.stderr


PROSE = """/* SPDX-License-Identifier: MIT */
/* The client sends nothing. Who waits is
   told. */
int told; /* a name of code is left alone: told() */
const char *error = "nobody listens", *whoever = "upon";
"""


def test_words_of_the_list(tmp_path: Path) -> None:
    """scripts/prose.py checks comments and strings, except strings of one word. 0.3 s."""
    (tmp_path / "prose.c").write_text(PROSE)
    (tmp_path / "prose.md").write_text("It says `nobody`.\n\n```\nupon\n```\n\nAnd so on.\n")
    (tmp_path / "prose.html").write_text("<p id='upon'>\n<code>nobody</code> Then nobody came.\n")
    command = [sys.executable, str(ROOT / "scripts/prose.py"), "prose.c", "prose.md", "prose.html"]
    done = run(tmp_path, *command)
    assert done.returncode == 1
    found = [tuple(line.split(": ")[:2]) for line in done.stdout.splitlines()]
    assert found == [
        ("prose.c:2", "Who"),
        ("prose.c:3", "told"),
        ("prose.c:4", "told"),
        ("prose.c:5", "nobody"),
        ("prose.md:7", "And"),
        ("prose.html:2", "nobody"),
    ]
    assert run(tmp_path, *command[:2], str(ROOT / "LICENSE")).returncode == 0
