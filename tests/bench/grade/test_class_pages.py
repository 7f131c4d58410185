# SPDX-License-Identifier: MIT
"""The CSV, Moodle's worksheet and the pages of a class."""

import csv
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bench.grade.cohort.pages import (
    COLUMNS,
    distribution,
    faults,
    page_name,
    table,
    worksheet,
    write,
)
from bench.grade.cohort.record import ClassRecord, Graded, now
from bench.grade.cohort.similar import Similarity
from bench.grade.stage import CheckOutcome, FaultFound, Grade, StageOutcome
from bench.records.errors import UserError

from ..accessible import hindrances, opened


def graded(student: str, points: int, **found: str) -> Graded:
    """Return a grade with findings: the names of faults, and the fault that each follows."""
    checks = [
        CheckOutcome(
            check="c", points=points, of=100, came="failed",
            finding=FaultFound(fault=name, title=name, meaning="", read="", seen="", follows=cause),
        )
        for name, cause in found.items()
    ]  # fmt: skip
    grade = Grade(
        server="mine", points=points, of=100, seed=1, seconds=1, isolation=[], faults=[*found],
        stages=[StageOutcome(stage="s", title="s", checks=checks)],
    )  # fmt: skip
    return Graded(student=student, run=1, seed=1, when=now(), grade=grade)


def test_faults_are_counted_without_those_that_follow_from_another() -> None:
    class_ = [
        graded("a", 31, leak="", crash=""),
        graded("b", 90, leak=""),
        graded("c", 5, crash="leak"),
    ]
    counted = [(one.name, one.students) for one in faults(class_)]
    assert counted == [("leak", ["a", "b"]), ("crash", ["a"])]


def test_the_distribution_has_each_student_with_a_grade() -> None:
    none = Graded(student="e", run=1, seed=1, when=now(), state="refused")
    bars = distribution([graded("a", 0), graded("b", 9), graded("c", 99), graded("d", 100), none])
    assert {bar.label: bar.count for bar in bars if bar.count} == {
        "0 to 9": 2,
        "90 to 99": 1,
        "100": 1,
    }


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_of_the_csv_is_a_formula(text: str) -> None:
    one = Graded(student=text, run=1, seed=1, when=now(), state=text, reason=text)
    head, row = list(csv.reader(table([one]).splitlines(keepends=True)))[:2]
    assert tuple(head) == COLUMNS
    assert not any(part.startswith(text) for part in row)


def test_a_worksheet_is_filled_by_the_number_of_moodle() -> None:
    text = "Identifier,Grade,Maximum grade\nParticipant 7,,10\nParticipant 77,5,10\n"
    filled = worksheet(text, [graded("Ada_7", 31), graded("project-ada77", 100)])
    assert filled.split() == ["Identifier,Grade,Maximum", "grade", *(
        "Participant", "7,3.10,10", "Participant", "77,5,10")]  # fmt: skip
    with pytest.raises(UserError, match="Identifier"):
        worksheet("Bewertung\n1\n", [])


@pytest.mark.slow
@pytest.mark.browser
def test_the_pages_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """The pages fetch nothing, run no script of a student, and are readable."""
    hostile = "<script>document.title = 'run'</script>"
    with ClassRecord(tmp_path) as record:
        record.begin()
        for one in (graded(hostile, 31, leak=""), graded(hostile, 90), graded("ada", 100)):
            record.add(one)
        write(record, [hostile, "ada"], Similarity(about=hostile), hostile)
    for name, rows in (("index.html", 14), (f"students/{page_name(hostile)}", 2)):
        with opened(browser, viewport={"width": 1280, "height": 800}) as (page, events):
            page.goto((tmp_path / name).as_uri())
            assert events == [(tmp_path / name).as_uri()]
            assert page.locator("tbody tr").count() == rows
            assert page.title() != "run"
            assert hindrances(page) == []
