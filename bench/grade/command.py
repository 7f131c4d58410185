# SPDX-License-Identifier: MIT
"""The command `zerohttpd grade`, which `make grade` runs."""

import argparse
import json
import secrets
from collections.abc import Sequence

from bench.grade import sandbox
from bench.grade.building import folder_of, require_limits
from bench.grade.exam import Exam
from bench.grade.show import end_text, stage_text
from bench.grade.stage import Grade, StageOutcome
from bench.grade.stages import STAGES
from bench.host.signals import SignalWatch
from bench.load.ab import require_ab
from bench.records.errors import UserError
from bench.records.values import each_of
from bench.subjects.subject import said_of

NAMES = [stage.name for stage in STAGES]


def run(words: Sequence[str]) -> int:
    """Grade a server and return 0, whatever the points are. Raises UserError or Interrupted."""
    options = _parser().parse_args(words)
    if options.schema:
        print(json.dumps(Grade.model_json_schema(), indent=2))
        return 0
    if options.server is None:
        raise UserError("no server is named; give its folder, e.g. zerohttpd grade 08_mine")
    only = each_of("stage", options.only, NAMES)
    source = folder_of(options.server)
    require_ab()
    sandbox.enter(["-m", "bench", "grade", *words])
    require_limits()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)

    explained: set[str] = set()

    def told(outcome: StageOutcome) -> None:
        if not options.json:
            print(stage_text(outcome, explained), flush=True)

    with SignalWatch() as watch:
        kind = said_of(source).stalled_by
        grade = Exam(source, seed, watch, only, told, kind).run()
    print(grade.model_dump_json(indent=2) if options.json else end_text(grade, options.server))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zerohttpd grade",
        description="Grade a server stage by stage, and explain each fault with a proof.",
    )
    add = parser.add_argument
    add(
        "server",
        metavar="FOLDER",
        nargs="?",
        help="folder of the server: e.g. 08_mine, or the path of any folder with a main.c",
    )
    seeds = "repeat a grading: the seed of its random files and requests (default: a new one)"
    add("--seed", type=int, metavar="N", help=seeds)
    add_only(parser)
    add("--json", action="store_true", help="print the whole grade as JSON, for other programs")
    add("--schema", action="store_true", help="print the JSON Schema of the output of --json")
    return parser


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects stages."""
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="STAGE",
        help=f"grade only these stages (default: all): {', '.join(NAMES)}",
    )
