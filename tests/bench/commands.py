# SPDX-License-Identifier: MIT
"""Run commands of the project, for the tests."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.host.project import ROOT

SECONDS = 600


def run(
    *command: str | Path, status: int | None = 0, cwd: Path = ROOT, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command, which must end with this status (None: any); return what it printed."""
    words = [*map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False, **more
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def bench(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of the benchmark."""
    return run(sys.executable, "-m", "bench", *words, **more)
