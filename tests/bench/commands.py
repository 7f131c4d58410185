# SPDX-License-Identifier: MIT
"""Run commands of the project and copy its files, for the tests."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.host.project import ROOT

SECONDS = 600


def run(
    *command: str | Path, status: int | None = 0, cwd: Path = ROOT, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command, check its exit status (None: any), and return the completed process."""
    words = [*map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False, **more
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def bench(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "bench", *words, **more)


def in_path(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, script: str) -> None:
    """Make a shell script the first program of this name in PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def copied(folder: Path, *names: str) -> Path:
    """Copy files of the project with their modification times into a folder; return the folder.
    If build/release is copied, make compiles only the files that a test changes."""
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, place)
    return folder
