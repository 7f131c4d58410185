# SPDX-License-Identifier: MIT
"""Grade a class: one submission after another, each by a process `zerohttpd grade`. The record is a
folder with the runs of a class and all grades of each student.

If a submission cannot be graded, its line gives the reason, and the run continues. Without --again,
a submission with a grade is graded again only if its files, the project or --only have changed.
Each grade is appended to grades.jsonl as a line, so a killed run loses only the current grade.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from bench.grade.cohort.submissions import NotGraded, Submission, collect, digest, printable
from bench.grade.findings import FaultFound, Grade
from bench.host.process import Child, SignalWatch, last_line
from bench.host.project import ROOT, source_digest
from bench.records.errors import UserError
from bench.records.store import alone, record, replace

GRADED = "graded"
MOST_SECONDS = 170.0
"""The time limit of a grading: longer than SERIAL_SECONDS, the grader's own limit."""
USUAL_SECONDS = 25.0
"""The estimated time to grade the first submission."""
PREFIX, REMOVE_SECONDS = "zerohttpd-class-", 5.0


def now() -> datetime:
    """Return the current time without fractions of a second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


class ClassRun(BaseModel):
    """A run over all submissions. All gradings of the run have the same seed."""

    number: int
    seed: int
    started: datetime
    finished: datetime | None = None
    """None: the run has not finished. The next command continues it, unless --seed is another."""


class ClassRuns(BaseModel):
    """The content of runs.json."""

    schema_version: int = 1
    runs: list[ClassRun] = []


class Graded(BaseModel):
    """The grade of a student in one run, or the reason for no grade."""

    student: str
    run: int
    seed: int
    when: datetime = Field(default_factory=now)
    key: str = ""
    """A hash of the submission, the project and the selected checks; empty without a server."""
    state: str = GRADED  # `graded`, or the reason for no grade in a word or two.
    reason: str = ""
    """The reason for no grade, or remarks on the grade (skipped checks, assembler code)."""
    seconds: float = 0
    same_as: str = ""
    """The student who handed in the same files and whose grade is used, or an empty string."""
    grade: Grade | None = None
    server: Path | None = Field(None, exclude=True)
    """The copy of the server during a run; None if the submission has no server."""

    @property
    def findings(self) -> list[FaultFound]:
        """Return one finding for each fault that is not a consequence of another fault."""
        if self.grade is None:
            return []
        checks = (check for stage in self.grade.stages for check in stage.checks)
        found = [c.finding for c in checks if c.finding and not c.finding.follows]
        return list({one.fault: one for one in found}.values())

    @property
    def percent(self) -> int | None:
        """Return the points as a percentage of the points that this machine allows."""
        return round(100 * self.grade.points / self.grade.of) if self.grade else None


@contextlib.contextmanager
def open_record(folder: Path) -> Iterator["ClassRecord"]:
    """Yield the record in a folder, which is created if it does not exist. Raises UserError, e.g.
    if another command uses the record."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(alone(folder))
        except OSError as error:  # e.g. the folder belongs to root after an earlier run
            raise UserError(f"cannot write results: {error}; --into names a folder") from error
        yield ClassRecord(folder)


class ClassRecord:
    """The record of a class in a folder."""

    def __init__(self, folder: Path) -> None:
        """Read runs.json, and grades.jsonl without incomplete lines. Raises UserError."""
        self.folder = folder
        self.students: dict[str, list[Graded]] = defaultdict(list)
        """All grades of each student, the oldest first."""
        self.runs: list[ClassRun] = []
        self._lines = folder / "grades.jsonl"
        self._runs_file = folder / "runs.json"
        if self._runs_file.exists():
            what = "list of the runs of a class"
            self.runs = record(ClassRuns, self._runs_file, what, newest=1).runs
        lines = self._lines.read_bytes().split(b"\n") if self._lines.exists() else []
        for line in lines:
            with contextlib.suppress(ValidationError):
                found = Graded.model_validate_json(line)
                self.students[found.student].append(found)

    def begin(self, seed: int | None = None) -> ClassRun:
        """Return the unfinished run if its seed is `seed` (None: any seed), otherwise a new run."""
        if self.runs and self.runs[-1].finished is None and seed in (None, self.runs[-1].seed):
            return self.runs[-1]
        drawn = secrets.randbelow(10**9) if seed is None else seed
        self.runs.append(ClassRun(number=len(self.runs) + 1, seed=drawn, started=now()))
        self._save_runs()
        return self.runs[-1]

    def finish(self) -> None:
        """Record that the last run has graded all submissions."""
        self.runs[-1].finished = now()
        self._save_runs()

    def add(self, graded: Graded) -> None:
        """Append a grade, and write it to the disk."""
        self.students[graded.student].append(graded)
        with self._lines.open("ab") as file:
            # The line before may be incomplete, because its run was killed.
            file.write(b"\n" + graded.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def latest(self, students: Sequence[str]) -> list[Graded]:
        """Return the last grade of each of these students, if there is one."""
        return [self.students[name][-1] for name in students if self.students.get(name)]

    def history(self, student: str) -> Iterator[Graded]:
        """Return the student's records that have a grade, the oldest first."""
        return (one for one in self.students[student] if one.grade)

    def _save_runs(self) -> None:
        replace(self._runs_file, ClassRuns(runs=self.runs).model_dump_json(indent=2) + "\n")


@dataclass
class ClassGrading:
    """A run over the submissions of a class."""

    record: ClassRecord
    run: ClassRun
    folder: Path  # A temporary folder that only this user may read.
    watch: SignalWatch
    say: Callable[[str], None]
    only: Sequence[str] = ()
    again: bool = False
    """Whether to grade also submissions that have not changed since an earlier run."""
    _seconds: list[float] = field(default_factory=list)

    def prepare(self, submissions: Sequence[Submission]) -> list[Graded]:
        """Copy the servers. Return the grades, without points. Raises Interrupted."""
        grader = f"{source_digest()} {' '.join(self.only)}"
        found = []
        for number, submission in enumerate(submissions):
            self.watch.check()
            one = Graded(student=submission.student, run=self.run.number, seed=self.run.seed)
            try:
                one.server = collect(submission, self.folder / "servers" / str(number))
                what = f"{digest(one.server)} {grader}"
                one.key = hashlib.sha256(what.encode()).hexdigest()[:16]
            except NotGraded as no:
                one.state, one.reason = no.state, str(no)
            found.append(one)
        return found

    def grade(self, submissions: Sequence[Graded]) -> None:
        """Grade the submissions that have no valid grade (`_is_done`). Raises Interrupted."""
        todo = [one for one in submissions if not self._is_done(one)]
        if len(todo) < len(submissions):
            self.say(f"{len(submissions) - len(todo)} have not changed since their last grade")
        for number, one in enumerate(todo, 1):
            self._grade(one)
            self.record.add(one)
            left = [other for other in todo[number:] if other.server]
            self.say(f"[{number:>3}/{len(todo)}] {_line(one)}{self._left(len(left))}")

    def _is_done(self, one: Graded) -> bool:
        """Return whether the last grade of this student is still valid: see `key` and `again`."""
        last = next(iter(self.record.latest([one.student])), None)
        if last is None or (self.again and last.run != self.run.number):
            return False
        if one.server is None:
            return (last.state, last.reason) == (one.state, one.reason)
        return last.state == GRADED and last.key == one.key

    def _grade(self, one: Graded) -> None:
        """Fill in the grade. Submissions with the same files get the same grade."""
        one.when = now()
        if one.server is None:
            return
        every = (grades[-1] for grades in self.record.students.values() if grades)
        same_files = (g for g in every if g.key == one.key and g.run == self.run.number)
        if twin := next((g for g in same_files if g.state == GRADED), None):
            one.grade, one.reason = twin.grade, twin.reason
            one.same_as = twin.same_as or twin.student
            return
        begin = time.monotonic()
        self._grade_in_child(one, one.server)
        one.seconds = round(time.monotonic() - begin, 1)
        self._seconds.append(one.seconds)

    def _grade_in_child(self, one: Graded, server: Path) -> None:
        """Run `zerohttpd grade` and fill in its results."""
        words = ["-m", "bench", "grade", str(server), "--json", "--seed", str(self.run.seed)]
        only = ["--only", *self.only] if self.only else []
        # Permission x for all users, because the graded program runs as another user.
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as room:
            Path(room).chmod(0o711)
            child = Child(["env", f"TMPDIR={room}", sys.executable, *words, *only], cwd=ROOT)
            try:
                in_time = child.wait(MOST_SECONDS, self.watch)
            finally:
                child.end(0)  # this also kills the processes of its namespace
        if not in_time:
            one.state, one.reason = "stopped", f"not graded within {MOST_SECONDS:.0f} s"
            return
        why = last_line(child.stderr)
        try:
            if child.exit_status == 0:
                one.grade = Grade.model_validate_json(child.stdout)
                one.reason = one.grade.remarks
                return
        except ValidationError:
            why = "the grader printed no valid result"
        said = why.removeprefix("grade: ").replace(f"{server}/", "")
        reason = printable(said.replace(str(server), "the folder"))[:300]
        one.state, one.reason = "not graded", reason or f"exit status {child.exit_status}"

    def _left(self, count: int) -> str:
        """Return a text with the time to grade this many submissions."""
        seconds = count * statistics.mean(self._seconds or [USUAL_SECONDS])
        if not count:
            return ""
        return f"; {seconds / 60:.0f} min left" if seconds >= 90 else f"; {seconds:.0f} s left"


def _line(graded: Graded) -> str:
    """Return the result of a submission in a line."""
    if graded.grade is None:
        return f"{graded.student}: {graded.state}: {graded.reason}"
    points = f"{graded.student}: {graded.grade.points} of {graded.grade.of}"
    how = f"same files as {graded.same_as}" if graded.same_as else f"{graded.seconds:.0f} s"
    return ", ".join(text for text in (points, how, graded.reason) if text)


def removed(folder: Path) -> bool:
    """Remove a folder; return whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@contextlib.contextmanager
def work_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder, and record its path in the file .temporary of the output folder.
    First remove the temporary folder of a killed run."""
    note = output / ".temporary"
    if note.is_file() and not note.is_symlink():
        old = Path(note.read_text().strip())
        if old.parent == Path(tempfile.gettempdir()) and old.name.startswith(PREFIX):
            # A process of the killed run may still write.
            SignalWatch().until(partial(removed, old), REMOVE_SECONDS)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        note.write_text(name + "\n")
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "servers").mkdir(mode=0o700)
        try:
            yield folder
        finally:
            note.unlink(missing_ok=True)
