# SPDX-License-Identifier: MIT
"""`zerohttpd doctor`."""

import argparse
from collections.abc import Sequence

from bench.doctor import doctor, looking
from bench.readers.console import console
from bench.records.environment import NOT_WELL
from bench.services.private_redis import ExistingRedis
from bench.subjects.subject import select
from bench.sweep.options import add_plan, chosen_options
from bench.sweep.runs import plan_runs


def run(words: Sequence[str]) -> int:
    """Say what is; 1 if something is not well. Raises UserError."""
    parser = argparse.ArgumentParser(
        prog="zerohttpd doctor",
        allow_abbrev=False,
        description="Say of this machine what is, what the chosen runs need, and the command that "
        "cures it; change nothing. Takes the options of `sweep`. "
        "Exit status: 0 all is well, 1 something is not.",
    )
    add_plan(parser)
    options = chosen_options(parser.parse_args(words))
    subjects = select(options.subjects, options.floors, options.programs)
    runs = plan_runs(options.parts, subjects).runs
    redis = ExistingRedis(options.redis) if options.redis else None
    lines = doctor.diagnose(runs, looking.look(), redis, {}, {}).lines
    doctor.show(lines, console())
    return int(any(line.state in NOT_WELL for line in lines))
