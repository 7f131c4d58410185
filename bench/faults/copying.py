# SPDX-License-Identifier: MIT
"""Copy the project, and plant a fault of course/faults/: NN.patch makes the fault, and NN.toml
describes it. The copy lacks what would reveal the fault, e.g. course/faults/, the tests of the
faults and of the grader, docs/teaching/instructor/ and git's history. The copy also lacks the
skeleton's solution. In the copy, these help to find the fault: make, the tests and the benchmark.
"""

import contextlib
import difflib
import gzip
import hashlib
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from bench.deploy.pack import project_files
from bench.host.project import ROOT, declaration
from bench.records.errors import UserError
from bench.studies.study import EXPERIMENTS, DeclaredStudy
from bench.subjects.running import CHANGED

FOLDER = ROOT / "course" / "faults"
STEPS = 3
"""The number of hints before the explanation."""
ORIGINAL = ".original"
"""A file in each copy; it contains the path of the original folder."""


class Incident(BaseModel):
    """A real program in which this fault occurred, with a link."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    what: str
    link: str = Field(pattern="^https://")


class Proof(BaseModel):
    """The tests below tests/e2e/ that show the fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    breaks: str  # FILE::TEST: a test that fails if the server has the fault.
    says: str  # A pattern that the failure message of this test must match.
    still: tuple[str, ...] = Field(min_length=1)
    """Related tests that pass although the server has the fault."""


class Ticket(BaseModel):
    """The part of NN.toml for the student. A copy for students has only this part."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    number: str = Field(pattern="^[0-9]{2}$")
    server: str  # The server in which students search for the fault.
    complaint: str  # The symptom, in the words of a user.

    @property
    def patch(self) -> Path:
        """Return the path of the patch: a unified diff against this project."""
        plain = FOLDER / f"{self.number}.patch"
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    @property
    def has_answer(self) -> bool:
        """Return whether the hints and the answer are here; if not, the patch is compressed."""
        return self.patch.suffix != ".gz"


class Fault(Ticket):
    """The whole content of NN.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str  # The name of the fault, which students see only with the explanation.
    hints: tuple[str, ...] = Field(min_length=STEPS, max_length=STEPS)
    explanation: str
    incident: Incident | None = None
    check: Proof


def numbers() -> list[str]:
    """Return the numbers of the existing faults: "01", "02" ..."""
    return sorted(path.stem for path in FOLDER.glob("[0-9][0-9].toml"))


def ticket_of(number: str) -> Ticket:
    """Return the ticket of the fault with this number, e.g. "7" or "07". Raises UserError."""
    known = _known()
    wanted = number.zfill(2)
    if wanted not in known:
        raise UserError(f"there is no fault {number}: give a number from {known[0]} to {known[-1]}")
    return declaration(Ticket, FOLDER / f"{wanted}.toml", number=wanted)


def fault(number: str) -> Fault:
    """Return the whole fault with this number. Raises UserError, also in a copy for students."""
    ticket = ticket_of(number)
    if not ticket.has_answer:
        raise UserError("this copy for students has no hints and no answers: ask your lecturer")
    return declaration(Fault, FOLDER / f"{ticket.number}.toml", number=ticket.number)


def number_for(student: str) -> str:
    """Return the number of the fault for a student's id; the same id always gets the same fault.
    Raises UserError."""
    known = _known()
    drawn = hashlib.sha256(student.strip().lower().encode()).digest()
    return known[int.from_bytes(drawn, "big") % len(known)]


def _known() -> list[str]:
    """Return the numbers of the faults. Raises UserError with the reason if there are none."""
    if known := numbers():
        return known
    try:
        original = (ROOT / ORIGINAL).read_text(encoding="utf-8").strip()
    except OSError:
        raise UserError(f"there are no faults in {FOLDER}") from None
    raise UserError(f"this copy has a fault; run `make fault` in the original folder: {original}")


LEFT_OUT = (
    *("course/faults/*", "course/own/solution.c", "course/questions.toml"),
    *("docs/teaching/instructor/*", ".github/*", "tests/bench/faults/*", "tests/bench/grade/*"),
    *("tests/bench/course/*", "tests/bench/live/test_room.py", "tests/bench/book/test_site.py"),
    *("tests/bench/book/test_browser.py", "tests/mutants/*"),
)
SOURCES = ("lib/**/*.[ch]", "ops/*.[ch]", "[0-9][0-9]_*/*.[ch]")
"""The files that a patch may change."""
OWN = (
    *("0[1-7]_*", "08_io_uring", "09_multicore", "10_coroutines", ".*", "bench", "course"),
    *("deploy", "docs", "baselines", "lab", "lib", "ops"),
    *("public", "requirements", "scripts", "templates", "tests"),
)
"""The folders of the project. Other folders, such as 08_mine, belong to the user."""
CONTEXT = 1
"""The number of context lines in a patch: few, so that a patch applies after nearby changes."""


def make_copy(folder: Path) -> None:
    """Copy the project into a new or empty folder. Raises UserError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already: choose another folder (INTO=...), or remove it")
    try:
        copy_files(folder)
        (folder / ORIGINAL).write_text(f"{ROOT}\n", encoding="utf-8")
        if (ROOT / ".venv" / ".complete").exists():
            _lend_packages(folder)
    except OSError as error:
        raise UserError(f"cannot make the copy: {error}") from error


def copy_files(folder: Path) -> None:
    """Copy the project's files, without files that would reveal a fault or an answer. Raises
    UserError, OSError."""
    for name in filter(is_copied, project_files(ROOT, only_public=False)):
        with contextlib.suppress(FileNotFoundError):  # git may list a removed file
            _copy(name, folder)


def is_copied(name: str) -> bool:
    """Return whether a file belongs to the project, and reveals no fault and no answer."""
    top, slash, _ = name.partition("/")
    is_own = not slash or any(fnmatch(top, pattern) for pattern in OWN)
    return is_own and not any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def _copy(name: str | Path, folder: Path) -> None:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / name, target, follow_symlinks=False)


def _lend_packages(folder: Path) -> None:
    """Create a .venv in the copy with the packages of this project, but with bench/ and lab/ of the
    copy.

    A file *.pth lists folders, which Python adds to its path. Python reads no *.pth file in these
    folders, so this project's entry has no effect in the copy."""
    place = folder / ".venv"
    venv.EnvBuilder(symlinks=True).create(place)
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "lent.pth").write_text(f"{folder.resolve()}\n{sysconfig.get_path('purelib')}\n")
    shutil.copy(ROOT / "scripts" / "zerohttpd", place / "bin")
    for stamp in (ROOT / ".venv").glob(".[ci]*"):
        shutil.copy2(stamp, place)


def apply(patch: Path, folder: Path) -> None:
    """Apply a patch to a copy. Raises UserError if the patch does not apply."""
    command = ["patch", "--strip=1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch"]
    try:
        lines = patch.read_bytes()
        text = (gzip.decompress(lines) if patch.suffix == ".gz" else lines).decode("utf-8")
        done = subprocess.run(
            [*command, f"--directory={folder}"], input=text, capture_output=True, text=True
        )
    except OSError as error:
        raise UserError(f"cannot run patch: {error}") from error
    if done.returncode != 0:
        raise UserError(f"{patch.name} does not apply: {done.stdout}{done.stderr}")


def difference(folder: Path) -> str:
    """Return the differences in the C sources of a copy as a patch. Raises UserError."""
    found: list[str] = []
    try:
        for name in _files(SOURCES):
            before, after = (
                (root / name).read_text().splitlines(keepends=True) for root in (ROOT, folder)
            )
            found += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=CONTEXT)
    except OSError as error:
        raise UserError(f"cannot compare with {folder}: {error}") from error
    return "".join(found)


def _files(patterns: Iterable[str]) -> list[Path]:
    """Return the project's files that match a pattern, relative to its folder."""
    return sorted({path.relative_to(ROOT) for one in patterns for path in ROOT.glob(one)})


# ---- The experiments of course/experiments/: NAME.patch changes a server, NAME.toml has the
# question and the answer. The changed servers are built in addition to the usual servers, so that a
# sweep can measure both alternately.


NEEDED = (*SOURCES, "[0-9][0-9]_*/ldflags", "lib/*.h", "Makefile", "pyproject.toml")
"""The sources of a server."""
STAMP = "built-from"


def built(chosen: DeclaredStudy) -> Path:
    """Return the folder of an experiment's servers. Build them if they are missing, or if the
    sources have changed. Raises UserError."""
    folder = CHANGED / chosen.name
    stamp, digest = folder / STAMP, _digest(chosen)
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(folder, ignore_errors=True)
        for name in _files(NEEDED):
            _copy(name, folder)
        # If the project's own build is copied, make compiles only the changed files.
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(ROOT / "build" / "release", folder / "build" / "release")
        apply(EXPERIMENTS / f"{chosen.name}.patch", folder)
        command = ["make", "--silent", *chosen.subjects]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise UserError(f"experiment {chosen.name} does not build: {done.stderr.strip()}")
        stamp.write_text(digest)
    return folder


def _digest(chosen: DeclaredStudy) -> str:
    """Return a hash of the experiment's files and of the sources."""
    found = hashlib.sha256()
    own = (EXPERIMENTS / f"{chosen.name}.{kind}" for kind in ("patch", "toml"))
    for path in (*own, *_files(NEEDED)):
        found.update((ROOT / path).read_bytes())
    return found.hexdigest()
