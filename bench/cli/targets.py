# SPDX-License-Identifier: MIT
"""`zerohttpd targets`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.readers.console import console
from bench.readers.targets import show
from bench.records.store import load


def run(words: Sequence[str]) -> int:
    """Read results. Raises UserError where they cannot be read."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd targets",
        description="Show whether the results of `zerohttpd measure`, or of another sweep, meet "
        "the targets: what a request and a connection may cost. Exit status: 0 all of them do, "
        "1 not.",
    )
    parser.add_argument("results", type=Path, help="a results.json, or the folder that holds it")
    return show(load(parser.parse_args(words).results), console())
