# SPDX-License-Identifier: MIT
"""Find the submissions of a class, and copy the server of each submission into its own folder.

The submissions are untrusted. Therefore this module reads only regular files, follows no link, and
unpacks archives member by member, within limits of bytes and files.

Layouts: a folder, an archive or a C file for each student; `gh classroom clone student-repos`
(folders ASSIGNMENT-USER, clones of a repository); Moodle's "Download all submissions" with and
without "in folders" (NAME_NUMBER_assignsubmission_file/..., NAME_NUMBER_assignsubmission_file_...).
"""

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from bench.grade.building import refusal
from bench.host.project import ROOT

SERVER = "08_mine"
"""The folder that the students hand in, and the name under which each server is graded."""
MOODLE = re.compile(r"(.+_\d+)_assignsubmission_[a-z]+(?:_(.+))?", re.DOTALL)
SKIPPED = {".git", ".venv", "build", "node_modules", "__MACOSX"}
"""Folders that have no source files."""
NO_SUBMISSION = (".csv", ".json", ".html")
"""Endings of files that a lecturer may keep next to the submissions."""
MOST_UNPACKED = 64 << 20
"""The size limit of an unpacked submission, which may contain the whole project."""
MOST_PACKED = 16 << 20
"""The size limit of an archive, whose table of contents is read into memory."""
MOST_FILES = 5000
CHUNK = 1 << 16
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a machine without free disk space; the submission does not cause them."""


class NotGraded(Exception):
    """A submission cannot be graded. `state`: the reason in a word or two."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True)
class Submission:
    """The files and folders that a student has handed in."""

    student: str  # The printable name of the student, unique in the class.
    parts: tuple[tuple[str, Path], ...]  # Each part's name within the submission, and its path.


@dataclass
class Allowance:
    """The remaining bytes and files that a submission may have."""

    content: int = MOST_UNPACKED
    files: int = MOST_FILES

    def take(self, size: int, files: int = 0) -> None:
        """Subtract bytes and files. Raise NotGraded if too little is left."""
        self.content -= size
        self.files -= files
        if self.content < 0:
            raise NotGraded("refused", f"it has more than {MOST_UNPACKED >> 20} MB, unpacked")
        if self.files < 0:
            raise NotGraded("refused", f"it has more than {MOST_FILES} files")


class Limited:
    """A file whose read bytes are subtracted from an allowance."""

    def __init__(self, file: IO[bytes], allowance: Allowance) -> None:
        self._file, self._allowance = file, allowance

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises NotGraded."""
        found = self._file.read(size)
        self._allowance.take(len(found))
        return found


Readable = Limited | IO[bytes]
OPENED_BY: dict[str, Callable[[Path], object]] = {
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
    ".tar": lambda path: path.open("rb"),
}
ARCHIVES = (".zip", *OPENED_BY)


def printable(name: str) -> str:
    """Return a name with escapes in place of backslashes and unprintable characters. Different
    names have different results."""
    return "".join(
        c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "surrogatepass").decode()
        for c in name
    )


def submissions(folder: Path) -> tuple[list[Submission], list[str]]:
    """Return the submission of each student in a folder, and the names of hidden entries."""
    found: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    hidden = []
    for path in sorted(folder.iterdir()):
        if moodle := MOODLE.fullmatch(path.name):
            found[moodle[1]].append((moodle[2] or path.name, path))
        elif path.name.startswith("."):
            hidden.append(printable(path.name))
        elif not path.name.lower().endswith(NO_SUBMISSION):
            found[_student(path)].append((path.name, path))
    return [Submission(printable(name), tuple(parts)) for name, parts in found.items()], hidden


def _student(path: Path) -> str:
    """Return the name of a file or folder, without the ending of an archive or a C file."""
    if path.is_dir() and not path.is_symlink():
        return path.name
    ending = next((e for e in (*ARCHIVES, ".c") if path.name.lower().endswith(e)), "")
    return path.name[: len(path.name) - len(ending)] or path.name


def collect(submission: Submission, into: Path) -> Path:
    """Copy the server of a submission to `into`/SERVER; return this path. Raises NotGraded."""
    work = into / "parts"
    work.mkdir(parents=True)
    allowance = Allowance()
    try:
        for name, path in submission.parts:
            _copy_part(path, work if path.is_dir() else work / name, allowance)
        server = _server_in(work)
        if server is None:
            for number, archive in enumerate(_files(work, ARCHIVES)):
                unpack(archive, work / f"unpacked-{number}", allowance)
            server = _server_in(work) or _only_file(work)
        server.rename(into / SERVER)
    except OSError as error:  # e.g. a name that is too long, or a file without read permission
        if error.errno in NO_ROOM:
            raise
        raise NotGraded("refused", f"it cannot be copied: {error.strerror}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if reason := refusal(into / SERVER):
        raise NotGraded("refused", reason)
    return into / SERVER


def digest(folder: Path) -> str:
    """Return a hash of the names and contents of all files of a folder."""
    found = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        name = os.fsencode(file.relative_to(folder))
        found.update(b"%d %s%d " % (len(name), name, len(content)) + content)
    return found.hexdigest()[:16]


def _copy_part(path: Path, target: Path, allowance: Allowance) -> None:
    """Copy a file, or the regular files of a folder."""
    if path.is_symlink():
        raise NotGraded("refused", "it is a symbolic link")
    if not path.is_dir():
        _copy_file(path, target, allowance)
        return
    for here, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in files:
            source = Path(here, name)
            _copy_file(source, target / source.relative_to(path), allowance)


def _copy_file(source: Path, target: Path, allowance: Allowance) -> None:
    found = source.lstat()
    if not stat.S_ISREG(found.st_mode):
        return
    if source.name.lower().endswith(ARCHIVES) and found.st_size > MOST_PACKED:
        raise NotGraded("refused", f"its archive has more than {MOST_PACKED >> 20} MB")
    # After this check, a link or a FIFO may have replaced the file.
    opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as file:
        _write(Limited(file, allowance), target, allowance)


def _write(source: Readable, target: Path, allowance: Allowance) -> None:
    allowance.take(0, files=1)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while chunk := source.read(CHUNK):
            out.write(chunk)


def unpack(archive: Path, folder: Path, allowance: Allowance) -> None:
    """Unpack the regular files of an archive into a new folder. Raises NotGraded."""
    try:
        for name, source in _members(archive, allowance):
            target = _inside(folder, name)
            if source is not None:
                _write(source, target, allowance)
    except NotGraded:
        raise
    except Exception as error:  # a malformed archive can cause any exception of its library
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise
        what = printable(f"{type(error).__name__}: {error}")[:200]
        raise NotGraded("refused", f"its archive cannot be unpacked: {what}") from error


def _members(archive: Path, allowance: Allowance) -> Iterator[tuple[str, Readable | None]]:
    """Yield the name of each member of an archive, and its content if it is a regular file."""
    name = archive.name.lower()
    if name.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            for one in zipped.infolist():
                is_file = not one.is_dir() and not stat.S_ISLNK(one.external_attr >> 16)
                yield one.filename, Limited(zipped.open(one), allowance) if is_file else None
        return
    opener = next(opener for ending, opener in OPENED_BY.items() if name.endswith(ending))
    with cast(IO[bytes], opener(archive)) as file:
        # The archive is read as a stream, so that headers and skipped members count, too.
        limited = cast(IO[bytes], Limited(file, allowance))
        with tarfile.open(fileobj=limited, mode="r|") as opened:
            for member in opened:
                if member.issparse():  # the allowance does not count the zeros of holes
                    raise NotGraded("refused", "its archive has a sparse file")
                yield member.name, opened.extractfile(member) if member.isreg() else None


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a member of an archive. Raise NotGraded if it is not in the folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise NotGraded("refused", f"its archive has a path outside its folder: {printable(name)}")
    return folder / path


def _files(folder: Path, endings: Sequence[str]) -> list[Path]:
    """Return the files with one of these endings outside the project's own folders."""
    own = {path.parent.name for path in ROOT.glob("[0-9][0-9]_*/main.c")} - {SERVER}
    found = []
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - own - {"course", "baselines", "lib", "ops", "tests"})
        found += [Path(here, n) for n in sorted(files) if n.lower().endswith(tuple(endings))]
    return found


def _server_in(folder: Path) -> Path | None:
    """Return the folder with main.c: the folder named SERVER, otherwise the folder with the
    shortest path. Raise NotGraded if there are several."""
    found = [file.parent for file in _files(folder, ("main.c",)) if file.name == "main.c"]
    found = [one for one in found if one.name == SERVER] or found
    top = min((len(one.parts) for one in found), default=0)
    first = [one for one in found if len(one.parts) == top]
    if len(first) > 1:
        names = ", ".join(printable(str(one.relative_to(folder))) for one in first[:4])
        reason = f"several folders have a main.c: {names}; rename the right folder to {SERVER}"
        raise NotGraded("unclear", reason)
    return first[0] if first else None


def _only_file(folder: Path) -> Path:
    """Move the only C file to main.c in a new folder; return the folder. Raises NotGraded."""
    sources = _files(folder, (".c",))
    if len(sources) != 1:
        names = [printable(file.name) for file in sources or _files(folder, ("",))]
        there = f"it has {', '.join(names[:4])}" if names else "it has no regular file"
        raise NotGraded("no main.c", f"there is no main.c and no single C file; {there}")
    alone = folder / "alone"
    alone.mkdir()
    sources[0].rename(alone / "main.c")
    return alone
