# SPDX-License-Identifier: MIT
"""`zerohttpd doctor`."""

import argparse
from collections.abc import Sequence

from bench.doctor import doctor, looking, show
from bench.readers.console import console
from bench.records.environment import NOT_WELL
from bench.sweep import arguments, planning


def run(words: Sequence[str]) -> int:
    """Say what is; 1 if something is not well. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd doctor",
        allow_abbrev=False,
        description="Say of this machine what is, what the chosen runs need, and the command that "
        "cures it; change nothing. Takes the options of `sweep`. "
        "Exit status: 0 all is well, 1 something is not.",
    )
    arguments.add_plan(parser)
    options = arguments.options_of(parser.parse_args(words))
    runs = planning.plan_runs(options).runs
    lines = doctor.examine(runs, looking.limits_here(), looking.look(options.redis))
    show.show(lines, console())
    return int(any(line.state in NOT_WELL for line in lines))
