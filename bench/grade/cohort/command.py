# SPDX-License-Identifier: MIT
"""The command `zerohttpd grade-all`, which `make grade-all` runs."""

import argparse
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.grade.building import require_limits
from bench.grade.cohort.pages import worksheet, write
from bench.grade.cohort.run import ClassGrading, Graded, open_record, work_folder
from bench.grade.cohort.similar import Similarity, compare
from bench.grade.cohort.submissions import Submission, submissions
from bench.grade.command import SELECTABLE, add_only
from bench.host.process import SignalWatch
from bench.load.generators import AB
from bench.records.errors import Interrupted, UserError
from bench.records.store import replace
from bench.records.values import Parser, add_value, each_of, whole
from bench.records.words import plural

_say = partial(print, flush=True)


def run(words: Sequence[str]) -> int:
    """Grade a class and return 0, also without points. Raises UserError or Interrupted."""
    options = _parser().parse_args(words)
    only = each_of("stage or check", options.only, SELECTABLE)
    folder = Path(options.folder).resolve()
    output = (options.into or folder.with_name(f"{folder.name}-grades")).resolve()
    found = _submissions(folder, output)
    if options.moodle:
        _worksheet(options.moodle, [])  # report an error now, not after the grading
    AB.require()
    require_limits()
    command = shlex.join(["zerohttpd", "grade-all", *words])
    with SignalWatch() as watch, open_record(output) as record, work_folder(output) as work:
        this = record.begin(options.seed)
        _say(f"{len(found)} submissions, run {this.number}, seed {this.seed}, into {output}")
        grading = ClassGrading(record, this, work, watch, _say, only, options.again)
        students = [one.student for one in found]
        similar = Similarity(about="The submissions are not compared: this run was interrupted.")
        try:
            prepared = grading.prepare(found)
            grading.grade(prepared)
            similar = _similar(prepared, work, watch)
            record.finish()
        except Interrupted:
            _say("Interrupted. Repeat the command to continue this run.")
            raise
        finally:
            write(record, students, similar, command)
        if options.moodle:
            replace(output / "moodle.csv", _worksheet(options.moodle, record.latest(students)))
    groups, pairs = plural(len(similar.groups), "group"), plural(len(similar.others), "other pair")
    _say(f"Similar submissions: {groups} and {pairs}. Open {output / 'index.html'}")
    return 0


def _submissions(folder: Path, output: Path) -> list[Submission]:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give the folder with all submissions")
    if output.is_relative_to(folder):
        raise UserError(f"--into: {output} is in the folder of submissions; give another folder")
    try:
        found, hidden = submissions(folder)
    except OSError as error:
        raise UserError(f"the submissions cannot be read: {error}") from error
    if not found:
        raise UserError(f"{folder} has no submission: no folder, archive or C file")
    if hidden:
        _say(f"Skipped, because the name begins with a dot: {', '.join(hidden)}")
    return found


def _worksheet(file: Path, grades: Sequence[Graded]) -> str:
    """Return Moodle's worksheet with these grades. Raises UserError."""
    try:
        return worksheet(file.read_text(encoding="utf-8-sig"), grades)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        what = "give the grading worksheet that Moodle exports as CSV"
        raise UserError(f"--moodle: {file} cannot be read ({why}); {what}") from error


def _similar(prepared: Sequence[Graded], work: Path, watch: SignalWatch) -> Similarity:
    """Compare the submissions; of those with the same files, compare only the first."""
    servers = {one.key: one for one in reversed(prepared) if one.server}
    first = sorted(servers.values(), key=lambda one: one.student)
    room = work / "similar"
    room.mkdir()
    return compare({one.student: one.server for one in first if one.server}, room, watch)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="zerohttpd grade-all",
        description="Grade the submissions of a class, one after another. A second call grades "
        "only submissions that are new or have changed.",
    )
    add = parser.add_argument
    add(
        "folder",
        metavar="FOLDER",
        help="folder with a folder, an archive or a C file for each student",
    )
    add(
        "--into",
        type=Path,
        metavar="FOLDER",
        help="folder of the results and of the earlier grades (default: FOLDER-grades)",
    )
    moodle = "Moodle's grading worksheet (CSV); write it with the grades to moodle.csv, for upload"
    add("--moodle", type=Path, metavar="FILE", help=moodle)
    seeds = "seed of all requests (default: a new one each run)"
    add_value(parser, "--seed", whole, "2024", metavar="N", help=seeds)
    add("--again", action="store_true", help="also grade unchanged submissions, with the new seed")
    add_only(parser)
    return parser
