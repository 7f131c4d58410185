# SPDX-License-Identifier: MIT
"""The commands of the sheets are parsed, and each run has its line of expected figures."""

import pytest

from bench.book.expected import SHEETS, measure, sweep_words, table
from bench.records.errors import UserError

from ..report.conftest import recorded


@pytest.mark.parametrize("sheet", SHEETS)
def test_the_sheets_command_is_taken(sheet: str) -> None:
    words = sweep_words(sheet)
    assert "--servers" in words
    assert "--levels" in words


def test_each_run_has_a_line_and_a_floor_is_the_first_of_its_architecture() -> None:
    results = recorded("version3")
    lines = table("1-floor", results).splitlines()[4:]
    assert len(lines) == len(results.runs)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [name.partition(",")[0] for name, *_ in cells]
    for floor in {name for name in names if name.startswith("floor-")}:
        assert names.index(floor) < names.index(floor.removeprefix("floor-"))
        first = cells[names.index(floor)]
        assert first[1].startswith("no figure") or first[3] == "1.00"


def test_what_was_not_held_has_no_figure() -> None:
    results = recorded("version1_failed")
    failed = [one for one in results.runs if one.state != "held"]
    assert failed
    assert table("5-idle", results).count("no figure: ") >= len(failed)


def test_an_unknown_sheet_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"unknown sheet: 6-fault\. Known: 1-floor, 4-redis, 5-idle"
    ):
        measure(["6-fault"])
