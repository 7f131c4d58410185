# SPDX-License-Identifier: MIT
"""Grade a class: one submission after another, each by `zerohttpd grade` in a process of its own.

A submission that cannot be graded has a line with its reason and stops nothing. Submissions that
have not changed since their last grade are not graded again.
"""

import hashlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from bench.grade.cohort.record import GRADED, ClassRecord, ClassRun, Graded, now
from bench.grade.cohort.submissions import NotGraded, Submission, collect, digest, printable
from bench.grade.stage import Grade
from bench.host.process import Child
from bench.host.project import ROOT, source_digest
from bench.host.signals import SignalWatch

MOST_SECONDS = 170.0
"""The time limit of a grading: its own limit is 55 s, and that of each of its compilers 30 s."""
USUAL_SECONDS = 25.0
"""The expected duration until one submission has been graded."""
PREFIX = "zerohttpd-class-"


@dataclass(frozen=True)
class Prepared:
    """A submission whose server has been copied, or the reason why there is none."""

    student: str
    server: Path | None
    key: str = ""
    state: str = GRADED
    reason: str = ""


@dataclass
class ClassGrading:
    """A run over the submissions of a class."""

    record: ClassRecord
    run: ClassRun
    folder: Path
    """A temporary folder, which this user alone may read."""
    watch: SignalWatch
    say: Callable[[str], None]
    only: Sequence[str] = ()
    again: bool = False
    """Grade also what has not changed since an earlier run."""
    _seconds: list[float] = field(default_factory=list)

    def prepare(self, submissions: Sequence[Submission]) -> list[Prepared]:
        """Copy the server of each submission. Raises Interrupted."""
        grader = f"{source_digest()} {' '.join(self.only)}"
        found = []
        for number, submission in enumerate(submissions):
            self.watch.check()
            try:
                server = collect(submission, self.folder / "servers" / str(number))
                key = hashlib.sha256(f"{digest(server)} {grader}".encode()).hexdigest()[:16]
                found.append(Prepared(submission.student, server, key))
            except NotGraded as no:
                found.append(Prepared(submission.student, None, "", no.state, str(no)))
        return found

    def grade(self, submissions: Sequence[Prepared]) -> None:
        """Grade what is missing or changed. Raises Interrupted; all earlier grades are recorded."""
        todo = [one for one in submissions if not self._is_done(one)]
        if len(todo) < len(submissions):
            self.say(f"{len(submissions) - len(todo)} have not changed since their last grade")
        for number, one in enumerate(todo, 1):
            graded = self._grade(one)
            self.record.add(graded)
            left = [other for other in todo[number:] if other.server]
            self.say(f"[{number:>3}/{len(todo)}] {_line(graded)}{self._left(len(left))}")

    def _is_done(self, one: Prepared) -> bool:
        """Return whether the last grade of this student is for these files."""
        last = next(iter(self.record.latest([one.student])), None)
        if last is None or (self.again and last.run != self.run.number):
            return False
        if one.server is None:
            return (last.state, last.reason) == (one.state, one.reason)
        return last.state == GRADED and last.key == one.key

    def _grade(self, one: Prepared) -> Graded:
        head = Graded(
            student=one.student, run=self.run.number, seed=self.run.seed, when=now(), key=one.key
        )
        if one.server is None:
            return head.model_copy(update={"state": one.state, "reason": one.reason})
        every = (grades[-1] for grades in self.record.students.values() if grades)
        same_files = (g for g in every if g.key == one.key and g.run == self.run.number)
        if twin := next((g for g in same_files if g.state == GRADED), None):
            same = twin.same_as or twin.student
            update = {"grade": twin.grade, "same_as": same, "reason": twin.reason}
            return head.model_copy(update=update)
        begin = time.monotonic()
        fields = self._graded_by_child(one.server)
        seconds = round(time.monotonic() - begin, 1)
        self._seconds.append(seconds)
        return head.model_copy(update={**fields, "seconds": seconds})

    def _graded_by_child(self, server: Path) -> dict[str, object]:
        """Run `zerohttpd grade`; return the fields of Graded that it determines."""
        words = ["-m", "bench", "grade", str(server), "--json", "--seed", str(self.run.seed)]
        only = ["--only", *self.only] if self.only else []
        # Other users may pass through this folder, as the graded program does.
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as room:
            Path(room).chmod(0o711)
            child = Child(["env", f"TMPDIR={room}", sys.executable, *words, *only], cwd=ROOT)
            try:
                in_time = child.wait(MOST_SECONDS, self.watch)
            finally:
                child.end(0)  # the processes of its namespace are killed with it
        status = child.exit_status
        if not in_time:
            return {"state": "stopped", "reason": f"not graded within {MOST_SECONDS:.0f} s"}
        try:
            if status == 0:
                grade = Grade.model_validate_json(child.stdout)
                return {"grade": grade, "reason": grade.remarks}
            why = child.stderr.strip().splitlines()[-1:]
        except ValidationError:
            why = ["the grader printed no valid result"]
        said = " ".join(why).removeprefix("grade: ")
        reason = printable(said.replace(f"{server}/", "").replace(str(server), "the folder"))
        return {"state": "not graded", "reason": reason[:300] or f"exit status {status}"}

    def _left(self, count: int) -> str:
        """Return the words for the time that this many submissions still take."""
        seconds = count * (statistics.mean(self._seconds) if self._seconds else USUAL_SECONDS)
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


@contextmanager
def work_folder(output: Path) -> Iterator[Path]:
    """Return a temporary folder. It first removes the folder of a killed run, whose path is in the
    output folder."""
    note = output / ".temporary"
    if note.is_file() and not note.is_symlink():
        old = Path(note.read_text().strip())
        if old.parent == Path(tempfile.gettempdir()) and old.name.startswith(PREFIX):
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        note.write_text(name + "\n")
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "servers").mkdir(mode=0o700)
        try:
            yield folder
        finally:
            note.unlink(missing_ok=True)
