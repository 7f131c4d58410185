# SPDX-License-Identifier: MIT
"""`zerohttpd capacity`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.readers.capacity import show
from bench.readers.console import console
from bench.records.values import positive, value_of, words_of


def run(words: Sequence[str]) -> int:
    """Work it out. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd capacity",
        description="Work out from a sweep through nginx what one-core hosts carry, and who ends "
        "it; hold it against what the sweep measured with several instances. docs/scaling.md "
        "explains it.",
    )
    parser.add_argument("results", type=Path, help="a results.json, or the folder that holds it")
    parser.add_argument("--fleets", metavar="N,N", default="4,40,400", help="hosts (%(default)s)")
    chosen = parser.parse_args(words)
    fleets = [value_of("--fleets", x, positive, "4,40,400") for x in words_of([chosen.fleets])]
    return show(chosen.results, fleets, console())
