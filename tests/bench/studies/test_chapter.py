# SPDX-License-Identifier: MIT
"""docs/reference/reference-servers.md agrees with each reference server's own file.
tests/bench/subjects/test_strangers.py checks what is visible while it serves."""

import pytest

from bench.host.project import ROOT
from bench.studies.study import published, study
from bench.subjects import declared

CHAPTER = (ROOT / "docs" / "reference" / "reference-servers.md").read_text()
NUMBERS = {folder.name[3:]: folder.name[:2] for folder in ROOT.glob("0[1-7]_*")}


def span(at_least: int, at_most: int) -> str:
    return str(at_least) if at_least == at_most else f"{at_least} to {at_most}"


@pytest.mark.parametrize("name", declared.names())
def test_the_table_has_each_peer_as_it_is_declared(name: str) -> None:
    said = declared.stranger(name).said
    assert said.serving
    cells = (
        name,
        ", ".join(f"{NUMBERS[like]} {like}" for like in said.resembles),
        said.how,
        span(*said.serving.processes),
        span(*said.serving.threads),
        ", ".join(f"`{call}`" for call in said.serving.calls),
    )
    assert f"| {' | '.join(cells)} |\n" in CHAPTER


def test_the_table_has_no_other_peer() -> None:
    table = CHAPTER.split("| peer |", 1)[1].split("\n\n", 1)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert rows == declared.names()


@pytest.mark.parametrize("name", published())
def test_each_study_is_told_of(name: str) -> None:
    assert f"| `{name}` |" in CHAPTER
    assert study(name).title
