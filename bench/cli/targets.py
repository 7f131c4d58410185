# SPDX-License-Identifier: MIT
"""`zerohttpd targets`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.readers.console import console
from bench.readers.targets import show
from bench.records.store import load


def run(words: Sequence[str]) -> int:
    """Read results. Raises UserError if they cannot be read."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd targets",
        description="Check whether the results of `zerohttpd measure`, or of another sweep, meet "
        "the targets: limits for the CPU time of a request and the memory of a connection. Exit "
        "status: 0 all targets met, 1 not all.",
    )
    parser.add_argument("results", type=Path, help="a results.json, or its folder")
    return show(load(parser.parse_args(words).results), console())
