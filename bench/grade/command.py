# SPDX-License-Identifier: MIT
"""The command `zerohttpd grade`, which `make grade` runs, and its text."""

import argparse
import json
import secrets
import textwrap
from collections.abc import Sequence

from bench.grade import sandbox
from bench.grade.building import folder_of, require_limits
from bench.grade.exam import Exam
from bench.grade.stage import CheckOutcome, Grade, StageOutcome
from bench.grade.stages import STAGES
from bench.host.kernel import raise_descriptors
from bench.host.signals import SignalWatch
from bench.load.ab import AB
from bench.records.errors import UserError
from bench.records.values import each_of
from bench.subjects.subject import said_of

NAMES = [stage.name for stage in STAGES]
SIGNS = {"right": "ok", "failed": "NO", "follows": "->", "by nature": "--", "not tried": ".."}
WIDTH = 92


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
    AB.require()
    sandbox.enter(["-m", "bench", "grade", *words])
    raise_descriptors()  # the clients of one check need more than the usual 1,024
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


def stage_text(outcome: StageOutcome, explained: set[str]) -> str:
    """Return the text of a finished stage. `explained`: names of the faults that the student has
    already read about; those of this stage are added."""
    lines = ["", f"{outcome.points:>3} of {outcome.of:<3} {outcome.title}"]
    notes = {check.note for check in outcome.checks if check.came == "not tried"}
    if len(notes) == 1 and all(check.came == "not tried" for check in outcome.checks):
        return f"\n{lines[1]}: not tried, {notes.pop()}"
    for check in outcome.checks:
        note = f"   {check.note}" if check.note else ""
        lines.append(f"     {SIGNS[check.came]}  {check.check} ({check.points}/{check.of}){note}")
        lines += _finding(check, explained)
    # Output of the graded program must not move the cursor or hide text of the report.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def end_text(grade: Grade, folder: str) -> str:
    """Return the last part of the report; `folder`: the server's name on the command line."""
    isolated = textwrap.fill(
        "It ran with " + "; ".join(grade.isolation) + ".", WIDTH, break_on_hyphens=False
    )
    rest = " ".join(grade.skipped)
    hint = (
        "\nThe time limit of the grading was reached before checks for "
        f"{sum(grade.skipped.values())} points. Grade the rest with:\n"
        f"  make grade SERVER={folder} ARGS='--only {rest}'"
        if rest
        else ""
    )
    return (
        f"{hint}\n{grade.points} of {grade.of} points for {grade.server}, in "
        f"{grade.seconds:.0f} s. Repeat this grading with: ARGS='--seed {grade.seed}'\n{isolated}"
    )


def _finding(check: CheckOutcome, explained: set[str]) -> list[str]:
    found = check.finding
    if found is None:
        return []
    lines = ["", f"         >>> {found.title}  [{found.fault}]"]
    if found.follows:
        lines.append(
            f"             Fault [{found.follows}] above may be the cause: this costs no points."
        )
    told = [f"Seen: {found.seen}.", found.meaning, f"Read: {found.read}"]
    if found.fault in explained:
        told[1:] = ["(Explained above.)"]
    explained.add(found.fault)
    for text in told:
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 13,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    if found.proof:
        lines.append(f"{' ' * 13}The proof ({found.proof_kind}):")
        lines += [" " * 15 + line for line in found.proof]
    return [*lines, ""]
