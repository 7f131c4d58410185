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
        description="Show two sweeps side by side, and what changed beyond the noise of both. "
        "Exit status: 0 nothing did, 1 something did, or may have where others used the machine.",
    )
    for name in ("before", "after"):
        parser.add_argument(name, type=Path, help="a results.json, or the folder that holds it")
    chosen = parser.parse_args(words)
    return compare(chosen.before, chosen.after, console())
