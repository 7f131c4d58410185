# SPDX-License-Identifier: MIT
"""`zerohttpd doctor`."""

from collections.abc import Sequence

from bench.doctor import doctor
from bench.readers.console import console
from bench.records.environment import NOT_WELL, DoctorLine
from bench.records.values import Parser
from bench.services.redis_server import ExistingRedis
from bench.studies.runs import plan_runs
from bench.subjects.subject import make_command, select
from bench.sweep.options import add_plan, chosen_options


def run(words: Sequence[str]) -> int:
    """Print all checks. Return 1 if a check failed, otherwise 0. Raises UserError."""
    parser = Parser(
        prog="zerohttpd doctor",
        allow_abbrev=False,
        description="Check this machine: print what it has, what the chosen runs need, and a "
        "command or advice for each problem. It changes nothing, and accepts options of `sweep`. "
        "Exit status: 0 all checks pass, 1 a check failed.",
    )
    add_plan(parser)
    options = chosen_options(parser.parse_args(words))
    unbuilt: list[str] = []
    subjects = select(options.subjects, options.programs, unbuilt=unbuilt)
    runs = plan_runs(options.parts, subjects).runs
    redis = ExistingRedis(options.redis) if options.redis else None
    lines = doctor.diagnose(runs, doctor.look(), redis).lines
    if unbuilt:  # the doctor needs no executable
        have, need = f"not built: {', '.join(unbuilt)}", "built before a sweep"
        fix = f"{make_command(unbuilt)}   (make bench also does this)"
        lines.append(DoctorLine(topic="servers", have=have, need=need, state="note", fix=fix))
    doctor.show(lines, console())
    return int(any(line.state in NOT_WELL for line in lines))
