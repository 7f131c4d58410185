# SPDX-License-Identifier: MIT
"""The command line itself."""

from __future__ import annotations

import subprocess
import sys

from bench.cli.main import NOBODY_READS
from bench.host.project import ROOT


def test_who_reads_no_further_gets_no_traceback() -> None:
    """As behind `| head -1`; here the reader goes at once, for a pipe has room for all of it."""
    words = [sys.executable, "-m", "bench", "grade", "--schema"]
    child = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait() == NOBODY_READS
    assert said == ""
