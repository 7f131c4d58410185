# SPDX-License-Identifier: MIT
"""The archive for students has no answer, and works. Eight seconds, and a minute for the slow
test, which builds and grades."""

import gzip
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from bench.faults import copying, student
from bench.faults.copying import fault, numbers
from bench.host.project import ROOT
from bench.live.room import questions

from ..commands import run

TEACHING = ROOT / "docs" / "teaching"
LETTERS = 30
"""Shorter sentences and lines may be anywhere by chance."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the archive unpacks to, with the packages of this project."""
    place = tmp_path_factory.mktemp("students")
    assert student.run(["--output", str(place / "course" / "all.tar.gz")]) == 0
    with tarfile.open(place / "course" / "all.tar.gz") as tar:
        tar.extractall(place)
    folder = place / student.NAME
    copying._lend_packages(folder)
    return folder


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and ".venv" not in path.parts]


def _flat(text: str) -> str:
    """Return a text on one line, without the beginnings of comments and quotations."""
    return " ".join(re.sub(r"(?m)^[ \t]*(?:\*|#|//|>)+", "", text).split())


def _sentences(text: str) -> set[str]:
    """Return the sentences and the entries of tables that are long enough."""
    prose = re.sub(r"(?ms)^```.*?^```$|^:: .*?$|<!--|-->", "", text)
    blocks = re.split(r"\n\s*\n|\n(?=[-|])", prose)
    parts = [one for block in blocks for one in re.split(r"(?<=[.:?!])\s|\|", _flat(block))]
    return {one.strip() for one in parts if len(one.strip()) >= LETTERS}


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if len(line.strip()) >= LETTERS}


def _answers() -> set[str]:
    """Return the sentences and lines of code of all answers, without the questions that the sheets
    ask as well, and without code that the servers or the skeleton have."""
    sheets = "".join(_flat(file.read_text()) for file in (TEACHING / "sheets").glob("*.md"))
    patterns = (
        "lib/**/*.[ch]",
        "ops/*.[ch]",
        "floors/*.[ch]",
        "[0-9][0-9]_*/*.[ch]",
        "course/own/main.c",
    )
    sources = "".join(file.read_text() for name in patterns for file in ROOT.glob(name))
    code = [(ROOT / "course" / "own" / "solution.c").read_text()]
    prose = [file.read_text() for file in (TEACHING / "instructor").glob("*.md")]
    prose += [question.because for question in questions()]
    for one in map(fault, numbers()):
        code += re.findall(r"(?m)^\+([^+].*)$", one.patch.read_text())
        prose += (*one.hints, one.explanation, one.incident.what if one.incident else "")
    texts = set().union(*map(_sentences, prose))
    return {one for one in texts if one not in sheets} | {
        one for one in _lines("\n".join(code)) if one not in sources
    }


def test_no_word_of_an_answer_is_in_it(copy: Path) -> None:
    text = "\n".join(_flat(path.read_text(errors="replace")) for path in _files(copy))
    answers = _answers()
    assert len(answers) > 500
    found = sorted(answer for answer in answers if answer in text)
    assert not found, "\n".join(found)


def test_it_has_no_file_of_an_answer_and_no_place_of_this_machine(copy: Path) -> None:
    names = {path.relative_to(copy).as_posix() for path in _files(copy)}
    assert not [name for name in names if "instructor" in name or "solution" in name]
    assert not [name for name in names if name.endswith(".patch") and "faults" in name]
    assert not {".git", copying.ORIGINAL} & {path.name for path in copy.iterdir()}
    sheets = (TEACHING / "sheets").glob("*.md")
    assert {f"docs/teaching/sheets/{sheet.name}" for sheet in sheets} <= names
    assert not [path for path in _files(copy) if str(ROOT).encode() in path.read_bytes()]


def test_each_ticket_and_patch_is_in_it(copy: Path) -> None:
    for one in map(fault, numbers()):
        ticket = copying.declaration(
            copying.Ticket, copy / "course" / "faults" / f"{one.number}.toml", number=one.number
        )
        assert (ticket.server, ticket.complaint) == (one.server, one.complaint)
        packed = copy / "course" / "faults" / f"{one.patch.name}.gz"
        assert gzip.decompress(packed.read_bytes()) == one.patch.read_bytes()


def test_a_fault_is_made_there_as_here(copy: Path, tmp_path: Path) -> None:
    number = "07"
    made = _zerohttpd(copy, "fault", number, "--into", tmp_path / "fault")
    assert "ask your lecturer" in made.stdout
    there, here = (
        re.findall(r"^[-+][^-+].*", text, re.MULTILINE)
        for text in (copying.difference(tmp_path / "fault"), fault(number).patch.read_text())
    )
    assert there == here
    for hint in ("1", "answer"):
        refused = _zerohttpd(copy, "fault", number, "--hint", hint, status=2)
        assert "ask your lecturer" in refused.stderr


def test_only_the_chosen_faults_are_in_it(tmp_path: Path) -> None:
    archive = tmp_path / "two.tar.gz"
    assert student.run(["--faults", "1,08", "--output", str(archive)]) == 0
    with tarfile.open(archive) as tar:
        faults = {Path(name).stem for name in tar.getnames() if "/course/faults/" in name}
    assert {name[:2] for name in faults} == {"01", "08"}


def test_its_sheets_are_made_without_slides(copy: Path, tmp_path: Path) -> None:
    _zerohttpd(copy, "slides", "--output", tmp_path)
    assert {path.name for path in tmp_path.glob("*.html")} == {"sheets.html"}


@pytest.mark.slow
def test_it_builds_and_grades(copy: Path) -> None:
    # The other builds of the library are for stages that are not run.
    only = ["BUILD_GRADER=:", "SERVER=01_iterative", "ARGS=--only serves"]
    for words in (["all"], ["grade", *only]):
        made = run("make", "--silent", "SETUP=true", *words, cwd=copy)
    assert re.search(r"\b20 of \d+ points", made.stdout), made.stdout


def _zerohttpd(copy: Path, *words: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    return run(copy / ".venv" / "bin" / "zerohttpd", *words, cwd=copy, status=status)
