# SPDX-License-Identifier: MIT
"""The command `zerohttpd grade`, which `make grade` runs: it runs all or some checks within a time
limit, and prints the results by stage."""

import argparse
import json
import os
import random
import secrets
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.grade import sandbox
from bench.grade.attempts import CheckRunner, own_redis
from bench.grade.building import Built, compiled, folder_of, make_site, require_limits
from bench.grade.findings import CheckOutcome, Grade, StageOutcome
from bench.grade.scene import Scene
from bench.grade.stages import STAGES
from bench.grade.trying import World
from bench.host.process import SignalWatch, raise_descriptors
from bench.load.generators import AB
from bench.records.errors import UserError
from bench.records.values import Parser, add_value, each_of, whole

NAMES = [stage.name for stage in STAGES]
SELECTABLE = list(dict.fromkeys([*NAMES, *(one.name for stage in STAGES for one in stage.checks)]))
"""The names that --only accepts."""
SIGNS = {"right": "ok", "failed": "NO", "follows": "->", "by nature": "--", "not tried": ".."}
WIDTH = 92
BUDGET_SECONDS, SERIAL_SECONDS = 55.0, 110.0
"""The time limits of an examination with its own namespaces (`apart`), and without. Without
namespaces, the checks run one after another."""


def run(words: Sequence[str]) -> int:
    """Grade a server and return 0, also without points. Raises UserError or Interrupted."""
    options = _parser().parse_args(words)
    if options.schema:
        print(json.dumps(Grade.model_json_schema(), indent=2))
        return 0
    if options.server is None:
        raise UserError("no server is named; give its folder, e.g. zerohttpd grade 08_mine")
    only = each_of("stage or check", options.only, SELECTABLE)
    source = folder_of(options.server)
    AB.require()
    sandbox.enter(["-m", "bench", "grade", *words])
    raise_descriptors()  # the usual limit is 1,024, but one check has 1,100 clients
    require_limits()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)

    explained: set[str] = set()

    def told(outcome: StageOutcome) -> None:
        if not options.json:
            print(stage_text(outcome, explained), flush=True)

    with SignalWatch() as watch:
        grade = examine(source, seed, watch, only, told)
    end = grade.model_dump_json(indent=2) if options.json else end_text(grade, options.server, only)
    print(end)
    return 0


def examine(
    source: Path,
    seed: int,
    watch: SignalWatch,
    only: Sequence[str],
    told: Callable[[StageOutcome], None],
) -> Grade:
    """Grade a server. `only`: names of stages and checks; empty: all. Call `told` with the outcome
    of each finished stage. Raises UserError, Interrupted."""
    begun = time.monotonic()
    end = begun + (BUDGET_SECONDS if sandbox.apart() else SERIAL_SECONDS)
    selected = [one for stage in STAGES if (one := stage.part(only)).checks]
    with tempfile.TemporaryDirectory(prefix="zerohttpd-grade-") as name:
        folder = Path(name)
        os.umask(0o022)  # the servers' users must read the files of the compiler's user
        folder.chmod(0o755)
        (folder / "project").mkdir()
        built = Built(source, folder / "project")
        server, outcome = compiled(built)
        stages = [outcome]
        told(outcome)
        if server is None:
            stages += [one.untried() for one in selected]
        else:
            with own_redis(watch) as store:
                dice = random.Random(seed)
                scene = Scene(
                    server=server,
                    site=make_site(folder / "site", dice),
                    redis=store,
                    dice=dice,
                    watch=watch,
                    folder=folder,
                    stalled_by=built.stalled_by,
                    built=built,
                    left=lambda: end - time.monotonic(),
                )
                for outcome in World(CheckRunner(scene, seed), selected).outcomes(STAGES):
                    stages.append(outcome)
                    told(outcome)
    checks = [check for stage in stages for check in stage.checks]
    return Grade(
        server=built.name,
        points=sum(check.points for check in checks),
        of=sum(check.of for check in checks),
        seed=seed,
        seconds=round(time.monotonic() - begun, 1),
        isolation=sandbox.isolation(),
        stages=stages,
        faults=list(dict.fromkeys(c.finding.fault for c in checks if c.finding)),
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
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
    seeds = "seed of the random files and requests, to repeat a grading (default: a new seed)"
    add_value(parser, "--seed", whole, "2024", metavar="N", help=seeds)
    add_only(parser)
    add("--json", action="store_true", help="print the whole grade as JSON, for other programs")
    add("--schema", action="store_true", help="print the JSON Schema of the output of --json")
    return parser


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects stages and checks."""
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"grade only these stages (default: all): {', '.join(NAMES)}; or only these checks, "
        'e.g. "a big file"',
    )


def stage_text(outcome: StageOutcome, explained: set[str]) -> str:
    """Return the text of a finished stage. `explained`: the faults that the report has already
    explained; this function adds the faults of this stage."""
    lines = ["", f"{outcome.points:>3} of {outcome.of:<3} {outcome.title}"]
    results = {(check.came, check.note) for check in outcome.checks}
    if len(results) == 1 and outcome.checks[0].came == "not tried":
        return f"\n{lines[1]}: not tried, {outcome.checks[0].note}"
    for check in outcome.checks:
        note = f"   {check.note}" if check.note else ""
        lines.append(f"     {SIGNS[check.came]}  {check.check} ({check.points}/{check.of}){note}")
        lines += _finding(check, explained)
    # Output of the graded program must not move the cursor or hide text of the report.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def end_text(grade: Grade, folder: str, only: Sequence[str]) -> str:
    """Return the last part of the report; `folder` and `only`: from the command line."""
    isolated = f"The server ran with {'; '.join(grade.isolation)}."
    hint = (
        "\nThe time limit of the grading was reached before checks for "
        f"{sum(grade.skipped.values())} points. Run these checks with:\n"
        f"  make grade SERVER={folder} ARGS='--only {' '.join(grade.skipped)}'"
    )
    quoted = [f'"{name}"' if " " in name else name for name in only]
    again = " ".join([f"--seed {grade.seed}", *(["--only", *quoted] if only else [])])
    return (
        f"{hint if grade.skipped else ''}\n{grade.points} of {grade.of} points for "
        f"{grade.server}, in {grade.seconds:.0f} s. Repeat this grading with: ARGS='{again}'\n"
        + textwrap.fill(isolated, WIDTH, break_on_hyphens=False)
    )


def _finding(check: CheckOutcome, explained: set[str]) -> list[str]:
    found = check.finding
    if found is None:
        return []
    lines = ["", f"         >>> {found.title}  [{found.fault}]"]
    if found.follows:
        free = ", so this one costs no points" if check.points else ""
        lines.append(f"             Fault [{found.follows}] may be the cause{free}.")
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
