# SPDX-License-Identifier: MIT
"""Each function or constant that a document names exists, even after a renaming."""

import re
from pathlib import Path

import pytest

from bench.grade.findings import FAULTS
from bench.host.project import ROOT

TEXTS = [
    ROOT / "docs" / "reference" / "glossary.md",
    *sorted((ROOT / "docs" / "tutorial" / "book").glob("*.md")),
    *sorted((ROOT / "course" / "faults").glob("*.toml")),
    *sorted((ROOT / "docs" / "teaching").glob("**/[!g]*.md")),
]
"""The checked texts; another test checks grading.md, whose names are JSON fields."""
SOURCES = (
    *("lib/**/*.[ch]", "ops/*.[ch]", "[01][0-9]_*/*.[ch]", "baselines/*.[ch]", "course/own/*.c"),
)
NOT_OURS = {
    *("SA_RESTART", "SO_LINGER", "SO_RCVBUF", "TCP_MAXSEG", "TIME_WAIT", "epoll_pwait"),
    *("io_uring_enter", "io_uring_disabled", "select", "writelines"),
}
"""Names of the operating system or of a tool."""
NAMED = re.compile(r"`(?:struct )?(\w+)(?:\(\))?`|\b([a-z]+(?:_[a-z]+)*)\(\)|\b([A-Z]+_[A-Z_]+)\b")
IN_A_FILE = re.compile(
    r"`?\b(\w+)(?:\(\))?`? (?:and `?(\w+)(?:\(\))?`? )?in (?:`?([\w/]+\.[ch])\b|(0[1-7])\b)"
)


def code(text: str) -> set[str]:
    """Return the words of C sources without their comments, because a comment may be outdated."""
    return set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))


def named(text: str) -> set[str]:
    """Return the names in a text: words with an underscore, or with brackets after them."""
    prose = re.sub(r"(?ms)^## Try it$.*?(?=^#|^:: )|^```.*?^```$|^:: .*?$", "", text)
    found = {next(filter(None, names)) for names in NAMED.findall(prose)}
    return {name for name in found if "_" in name or f"{name}()" in prose}


@pytest.fixture(scope="module")
def known() -> set[str]:
    files = [file for pattern in SOURCES for file in ROOT.glob(pattern)]
    assert len(files) > 60
    folders = {file.parent.name for file in ROOT.glob("[01][0-9]_*/main.c")}
    return code("\n".join(file.read_text() for file in files)) | folders


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_each_name_in_a_text_exists(file: Path, known: set[str]) -> None:
    unknown = named(file.read_text()) - known - NOT_OURS
    figures = set(re.findall(r"`(\w+)` is (?:at |\d)", file.read_text()))
    figures |= set(re.findall(r"times `(\w+)`", file.read_text()))
    assert unknown - figures == set()


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_a_name_is_in_the_file_that_the_text_gives(file: Path) -> None:
    for name, also, path, number in IN_A_FILE.findall(file.read_text()):
        place = next(ROOT.glob(f"{number}_*/main.c")) if number else ROOT / path
        assert place.is_file(), path
        for word in filter(None, (name, also)):
            if "_" in word or f"{word}()" in file.read_text():
                assert word in code(place.read_text()), f"{place.parent.name} has no {word}"


def test_names_in_the_texts_of_the_grader_exist(known: set[str]) -> None:
    for name, fault in FAULTS.items():
        assert named(fault.read) - known - NOT_OURS == set(), name


def test_lines_to_read_are_those_of_the_files() -> None:
    """The length of each file in the reading list is wrong by at most 10 %."""
    text = (ROOT / "docs/tutorial/read-the-source.md").read_text()
    rows = re.findall(r"\| `([\w/.]+)` \| (\d+) \|", text)
    assert len(rows) > 10
    for file, lines in rows:
        assert len((ROOT / file).read_text().splitlines()) == pytest.approx(int(lines), rel=0.1)


def test_the_first_hour_has_time_for_its_reading() -> None:
    """The planned time suffices to read chapters (200 words/min) and servers (20 lines/min)."""
    text = (ROOT / "docs/tutorial/first-hour.md").read_text()
    begin, end = (
        int(re.findall(rf"\*\*Minute (\d+): {what}", text)[0]) for what in ("read", "write")
    )
    chapters = re.findall(r"\((book/\d\d-\w+\.md)\)", text)
    assert len(chapters) == 4
    words = "".join((ROOT / "docs/tutorial" / name).read_text() for name in chapters)
    servers = [
        "baselines/first.c",
        *(f"{name[5:-3].replace('-', '_')}/main.c" for name in chapters[1:]),
    ]
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in servers)
    assert lines / 20 + len(words.split()) / 200 <= end - begin
