# SPDX-License-Identifier: MIT
"""`zerohttpd sweep`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.records import store
from bench.sweep import arguments, sweep


def run(words: Sequence[str]) -> int:
    """Sweep, or go on with one. Raises UserError."""
    chosen = arguments.sweep_parser().parse_args(words)
    command = ("sweep", *words)
    if chosen.resume is not None:
        return sweep.resume(unfinished(chosen), chosen.redis).status
    return sweep.sweep(arguments.options_of(chosen, command)).status


def unfinished(chosen: argparse.Namespace) -> Path:
    """The folder of the sweep to go on with. Raises UserError."""
    return Path(chosen.resume or store.latest_unfinished(chosen.results))
