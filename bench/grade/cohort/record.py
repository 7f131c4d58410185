# SPDX-License-Identifier: MIT
"""The record of a class: its runs, and each grade that a student has had, in a folder.

Grades are appended to a file, one line each, so that a run that is killed loses only the grade that
it was working on. `runs.json` is replaced as a whole.
"""

import contextlib
import fcntl
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ValidationError

from bench.grade.stage import FaultFound, Grade
from bench.records.errors import UserError
from bench.records.store import replace

GRADED = "graded"


class ClassRun(BaseModel):
    """A run over all submissions, which are graded with the same seed."""

    number: int
    seed: int
    started: datetime
    finished: datetime | None = None
    """None: it was interrupted, and the next run continues it."""


class ClassRuns(BaseModel):
    """The content of runs.json."""

    schema_version: int = 1
    runs: list[ClassRun] = []


class Graded(BaseModel):
    """The grade of a student in one run, or the reason why there is none."""

    student: str
    run: int
    seed: int
    when: datetime
    key: str = ""
    """A hash of the submission, the grader and the selected stages; empty: it has no server."""
    state: str = GRADED
    """`graded`, or the reason for no grade in a word or two."""
    reason: str = ""
    """The reason for no grade, or remarks on the grade: checks that did not run, assembler."""
    seconds: float = 0
    same_as: str = ""
    """The student with the same files, whose grade this is; empty: it was graded itself."""
    grade: Grade | None = None

    @property
    def findings(self) -> list[FaultFound]:
        """Return the findings that are not a consequence of another, one for each fault."""
        checks = (
            [check for stage in self.grade.stages for check in stage.checks] if self.grade else []
        )
        found = [c.finding for c in checks if c.finding and not c.finding.follows]
        return list({one.fault: one for one in found}.values())

    @property
    def percent(self) -> int | None:
        """Return the points as a percentage of those that this machine can give."""
        return round(100 * self.grade.points / self.grade.of) if self.grade else None


class ClassRecord:
    """The record in a folder. Use in a `with` block; a second command does not wait but fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.students: dict[str, list[Graded]] = defaultdict(list)
        """All grades of each student, the oldest first."""
        self._lines = folder / "grades.jsonl"
        self._runs_file = folder / "runs.json"
        self._lock = -1
        self.runs: list[ClassRun] = []

    def __enter__(self) -> "ClassRecord":
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:  # e.g. the folder of an earlier run as root
            raise UserError(f"cannot write results: {error}; --into names a folder") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            os.close(self._lock)
            raise UserError(f"another run writes into {self.folder}; wait for its end") from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def _read(self) -> None:
        """Read both files. An incomplete line is from a run that was killed."""
        if self._runs_file.exists():
            try:
                self.runs = ClassRuns.model_validate_json(self._runs_file.read_text()).runs
            except ValidationError as error:
                raise UserError(f"{self._runs_file} is not valid; use another folder") from error
        if self._lines.exists():
            for line in self._lines.read_bytes().split(b"\n"):
                with contextlib.suppress(ValidationError):
                    found = Graded.model_validate_json(line)
                    self.students[found.student].append(found)

    def begin(self, seed: int | None = None) -> ClassRun:
        """Return the run that was interrupted, or a new one with a new seed."""
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
        """Append a grade; it is on the disk when this returns."""
        self.students[graded.student].append(graded)
        with self._lines.open("ab") as file:
            # A line of a run that was killed may have no end.
            file.write(b"\n" + graded.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def latest(self, students: Sequence[str]) -> list[Graded]:
        """Return the last grade of each of these students who has one."""
        return [self.students[name][-1] for name in students if self.students.get(name)]

    def history(self, student: str) -> Iterator[Graded]:
        """Return the grades of a student with points, the oldest first."""
        return (one for one in self.students[student] if one.grade)

    def _save_runs(self) -> None:
        replace(self._runs_file, ClassRuns(runs=self.runs).model_dump_json(indent=2) + "\n")


def now() -> datetime:
    """Return the time, without fractions of a second."""
    return datetime.now(timezone.utc).replace(microsecond=0)
