# SPDX-License-Identifier: MIT
"""The grader copies submissions from Moodle and GitHub Classroom, and refuses hostile files."""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.grade.cohort.submissions import (
    MOST_PACKED,
    MOST_UNPACKED,
    SERVER,
    NotGraded,
    Submission,
    collect,
    digest,
    printable,
    submissions,
)
from bench.host.project import ROOT

from ..commands import run

TEXT = b"int main(void) { return 0; }\n"


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a compressed zip with these files, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    """Write a tar.gz with these files and symbolic links, and return its path."""
    with tarfile.open(path, "w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sparse_tar(path: Path, size: int) -> Path:
    """Write a tar with a sparse main.c of this size (only a hole), and return the tar's path."""
    member = tarfile.TarInfo("main.c")
    member.type = tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[483:494] = b"%011o" % size  # the size with holes
    head[148:156] = b"        "  # the checksum is computed with blanks in its own field
    head[148:154] = b"%06o" % sum(head)
    path.write_bytes(head + bytes(2 * tarfile.BLOCKSIZE))
    return path


def only(folder: Path) -> Submission:
    (found,), _ = submissions(folder)
    return found


def server_of(folder: Path, into: Path) -> Path:
    """Copy the server of the folder's only submission, and return the copy's path."""
    return collect(only(folder), into)


def written(path: Path, content: bytes = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


LAYOUTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "folder": ("ada", lambda at: written(at / "ada" / "main.c")),
    "folder in a folder": ("ada", lambda at: written(at / "ada" / SERVER / "main.c")),
    "C file": ("ada", lambda at: written(at / "ada.c")),
    "C file of another name": ("ada", lambda at: written(at / "ada" / "server.c")),
    "tar": ("ada", lambda at: tarred(at / "ada.tar.gz", {f"./{SERVER}/main.c": TEXT})),
    "zip": ("ada", lambda at: zipped(at / "ada.ZIP", {f"{SERVER}/main.c": TEXT})),
    "Moodle": (
        "Ada Lovelace_47",
        lambda at: written(at / "Ada Lovelace_47_assignsubmission_file" / "main.c"),
    ),
    "Moodle, flat": (
        "Ada Lovelace_47",
        lambda at: written(at / "Ada Lovelace_47_assignsubmission_file_main.c"),
    ),
    "Moodle, flat archive": (
        "Ada Lovelace_47",
        lambda at: zipped(at / "Ada Lovelace_47_assignsubmission_file_x.zip", {"main.c": TEXT}),
    ),
}


def made(make: Callable[[Path], object], place: Path) -> Path:
    """Return a folder of submissions, after the function `make` has filled it."""
    folder = place / "class"
    folder.mkdir()
    make(folder)
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_gives_the_server(layout: str, tmp_path: Path) -> None:
    student, make = LAYOUTS[layout]
    folder = made(make, tmp_path)
    assert only(folder).student == student
    server = server_of(folder, tmp_path / "out")
    assert server.name == SERVER
    assert [file.name for file in server.iterdir()] == ["main.c"]
    assert (server / "main.c").read_bytes() == TEXT


def test_the_clone_of_a_whole_project_gives_only_the_student_s_server(tmp_path: Path) -> None:
    """The grader copies only the student's server from a clone of this project. `gh
    classroom clone student-repos` makes these clones."""
    clone = tmp_path / "class" / "project-ada"
    clone.mkdir(parents=True)
    files = run("git", "-c", "safe.directory=*", "ls-files", "*.c", "*.h").stdout.split()
    for name in files:
        written(clone / name, (ROOT / name).read_bytes())
    written(clone / ".git" / "big", b"x" * (1 << 20))
    written(clone / SERVER / "main.c")
    assert (server_of(tmp_path / "class", tmp_path / "out") / "main.c").read_bytes() == TEXT


def test_the_parts_of_a_student_are_one_submission(tmp_path: Path) -> None:
    for name in ("main.c", "util.c"):
        written(tmp_path / "class" / f"Ada_47_assignsubmission_file_{name}")
    for name in ("worksheet.csv", ".hidden"):
        written(tmp_path / "class" / name)
    server = server_of(tmp_path / "class", tmp_path / "out")
    assert sorted(file.name for file in server.iterdir()) == ["main.c", "util.c"]
    assert submissions(tmp_path / "class")[1] == [".hidden"]


BOMB = b"\0" * (MOST_UNPACKED + 1)
HOSTILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "link": ("refused", lambda at: (at / "eve").symlink_to("/etc")),
    "link to a file": ("no main.c", lambda at: _linked(at / "eve", "/etc/passwd")),
    "page": ("no main.c", lambda at: written(at / "Eve_7_assignsubmission_file_main.html")),
    "FIFO": ("no main.c", lambda at: _fifo(at / "eve")),
    "sparse file": ("refused", lambda at: _sparse(at / "eve" / "main.c", 1 << 40)),
    "large archive": ("refused", lambda at: _sparse(at / "eve.zip", MOST_PACKED + 1)),
    "large server": ("refused", lambda at: written(at / "eve" / "main.c", b" " * (2 << 20))),
    "program": ("refused", lambda at: zipped(at / "e.zip", {"main.c": TEXT, "mine": b"\x7fELF"})),
    "linker": ("refused", lambda at: zipped(at / "e.zip", {"main.c": TEXT, "ldflags": b"-T x"})),
    "zip out of its folder": ("refused", lambda at: zipped(at / "e.zip", {"../main.c": TEXT})),
    "zip with a Windows path": ("refused", lambda at: zipped(at / "e.zip", {"..\\main.c": TEXT})),
    "tar to the root": ("refused", lambda at: tarred(at / "e.tgz", {"/main.c": TEXT})),
    "tar through a link": (
        "no main.c",
        lambda at: tarred(at / "e.tgz", {"out/a": TEXT, "out/b": TEXT}, {"out": "/tmp"}),
    ),
    "zip bomb": ("refused", lambda at: zipped(at / "e.zip", {"main.c": BOMB})),
    "tar bomb": ("refused", lambda at: tarred(at / "e.tgz", {"main.c": BOMB})),
    "sparse tar": ("refused", lambda at: sparse_tar(at / "e.tar", MOST_UNPACKED + 1)),
    "too many files": (
        "refused",
        lambda at: zipped(at / "e.zip", {f"{n}.h": b"" for n in range(6000)}),
    ),
    "no zip": ("refused", lambda at: written(at / "e.zip", b"PK\3\4 no zip")),
    "cut tar": ("refused", lambda at: written(at / "e.tgz", b"\x1f\x8b\x08\0\0")),
    "long name": ("refused", lambda at: zipped(at / "e.zip", {"x" * 300 + ".c": TEXT})),
    "empty": ("no main.c", lambda at: (at / "eve").mkdir()),
    "two servers": (
        "unclear",
        lambda at: (written(at / "eve" / "a" / "main.c"), written(at / "eve" / "b" / "main.c")),
    ),
}


def _linked(folder: Path, target: str) -> None:
    folder.mkdir()
    (folder / "main.c").symlink_to(target)


def _fifo(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "main.c")


def _sparse(file: Path, size: int) -> None:
    written(file, b"")
    os.truncate(file, size)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_submission_has_a_reason_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    """The grader refuses a hostile submission with a reason, and leaves no file. 0.5 s."""
    state, make = HOSTILE[case]
    folder = made(make, tmp_path)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(NotGraded) as refused:
        server_of(folder, tmp_path / "out")
    assert (refused.value.state, bool(str(refused.value))) == (state, True)
    left = set(tmp_path.rglob("*")) - before
    assert {path for path in left if path.is_file() and SERVER not in path.parts} == set()


def test_names_of_students_are_printable_and_stay_different() -> None:
    names = ["Ünal 李", "a\nb", "a\\nb", "\u202eevil", os.fsdecode(b"\xff"), "\\udcff"]
    shown = [printable(name) for name in names]
    assert shown[0] == names[0]
    assert len(set(shown)) == len(names)
    assert all(name.isprintable() and name.encode() for name in shown)


def test_the_same_files_have_the_same_digest(tmp_path: Path) -> None:
    for name, content in (("one", TEXT), ("two", TEXT), ("other", TEXT + b" ")):
        written(tmp_path / name / "main.c", content)
    one, two, other = (digest(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two != other
