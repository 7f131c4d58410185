# SPDX-License-Identifier: MIT
"""A copy of the project with a fault in it.

It lacks whatever would give the fault away: course/faults/, the tests of the faults,
docs/teaching/instructor/, and git's history; and the solution of the skeleton. The tests that need
these are not in it, either. All else works in it as it does here: make, the tests, the timeline,
the report.
"""

import contextlib
import difflib
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from bench.deploy.pack import project_files
from bench.faults.catalogue import ORIGINAL
from bench.host.project import ROOT
from bench.records.errors import UserError

LEFT_OUT = (
    *("course/faults/*", "course/own/solution.c", "docs/teaching/instructor/*", ".github/*"),
    *(
        f"tests/bench/{name}"
        for name in ("faults/*", "grade/*", "course/*", "book/test_site.py", "book/test_browser.py")
    ),
)
SOURCES = ("lib/**/*.[ch]", "[0-9][0-9]_*/*.[ch]")
"""What a patch may change."""
OWN = (
    *("0[1-7]_*", ".*", "bench", "course", "deploy", "docs", "floors", "lab", "lib", "public"),
    *("requirements", "scripts", "templates", "tests"),
)
"""The folders of the project. Others in the top folder, such as 08_mine, are the user's."""
CONTEXT = 1
"""Lines around a change: few, so that a patch outlives what is done to its neighbours."""


def make_copy(folder: Path) -> None:
    """Copy the project into a folder that is not there yet, or empty. Raises UserError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already: name another one (INTO=...), or remove it")
    try:
        for name in project_files(ROOT, only_public=False):
            if not _is_own(name) or any(fnmatch(name, pattern) for pattern in LEFT_OUT):
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # git lists new files that are soon gone
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        (folder / ORIGINAL).write_text(f"{ROOT}\n", encoding="utf-8")
        if (ROOT / ".venv" / ".complete").exists():
            _lend_packages(folder)
    except OSError as error:
        raise UserError(f"cannot make the copy: {error}") from error


def _is_own(name: str) -> bool:
    folder, slash, _ = name.partition("/")
    return not slash or any(fnmatch(folder, pattern) for pattern in OWN)


def _lend_packages(folder: Path) -> None:
    """A .venv of its own, which finds the packages of ours, but bench/ and lab/ in the copy.

    A file *.pth adds the folders that it names to Python's path; what lies in these is not read
    for more of such files, so that our own entry, which leads to this project, has no effect.
    """
    place = folder / ".venv"
    venv.EnvBuilder(symlinks=True).create(place)
    packages = next(place.glob("lib/python*/site-packages"))
    (packages / "lent.pth").write_text(f"{folder.resolve()}\n{sysconfig.get_path('purelib')}\n")
    shutil.copy(ROOT / "scripts" / "zerohttpd", place / "bin")
    for stamp in (ROOT / ".venv").glob(".[ci]*"):
        shutil.copy2(stamp, place)


def apply(patch: Path, folder: Path) -> None:
    """Put a patch into a copy. Raises UserError if it does not fit, every line of it."""
    command = ["patch", "--strip=1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch"]
    try:
        with patch.open() as lines:
            done = subprocess.run(
                [*command, f"--directory={folder}"], stdin=lines, capture_output=True, text=True
            )
    except OSError as error:
        raise UserError(f"cannot run patch: {error}") from error
    if done.returncode != 0:
        raise UserError(f"{patch.name} does not fit any more: {done.stdout}{done.stderr}")


def difference(folder: Path) -> str:
    """What differs in the C sources of a copy, as a patch. Raises UserError."""
    try:
        return "".join(_differences(folder))
    except OSError as error:
        raise UserError(f"cannot compare with {folder}: {error}") from error


def _differences(folder: Path) -> Iterator[str]:
    for path in sorted({path for pattern in SOURCES for path in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT)
        before, after = path.read_text(), (folder / name).read_text()
        yield from difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
            n=CONTEXT,
        )
