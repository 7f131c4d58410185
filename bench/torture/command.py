# SPDX-License-Identifier: MIT
"""`zerohttpd torture`."""

from collections.abc import Sequence

from bench.torture import line
from bench.torture.options import parse
from bench.torture.run import torture


def run(words: Sequence[str]) -> int:
    """Exit status: see `bench.torture.run.torture`. Raises UserError."""
    options = parse(words)
    line.enter_own_network(["-m", "bench", "torture", *words])
    return torture(options)
