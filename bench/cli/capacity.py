# SPDX-License-Identifier: MIT
"""`zerohttpd capacity`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.readers.capacity import show
from bench.readers.console import console
from bench.records.values import positive, value_of, words_of


def run(words: Sequence[str]) -> int:
    """Print the capacity tables. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd capacity",
        description="Compute from a sweep through nginx how many requests per second one-core "
        "hosts can serve, and which host is the limit. Compare the prediction with what the sweep "
        "measured with several instances. docs/scaling.md explains the method.",
    )
    parser.add_argument("results", type=Path, help="a results.json, or its folder")
    sizes = "numbers of hosts to compute for (default %(default)s)"
    parser.add_argument("--fleets", metavar="N,N", default="4,40,400", help=sizes)
    chosen = parser.parse_args(words)
    fleets = [value_of("--fleets", x, positive, "4,40,400") for x in words_of([chosen.fleets])]
    return show(chosen.results, fleets, console())
