# SPDX-License-Identifier: MIT
"""`zerohttpd compare`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.readers.compare import compare
from bench.readers.console import console


def run(words: Sequence[str]) -> int:
    """Compare two sweeps. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd compare",
        description="Compare two sweeps and show what changed by more than the noise of both. "
        "Exit status: 0 no change, 1 a change, or other programs disturbed the measurement.",
    )
    for name in ("before", "after"):
        parser.add_argument(name, type=Path, help="a results.json, or its folder")
    chosen = parser.parse_args(words)
    return compare(chosen.before, chosen.after, console())
