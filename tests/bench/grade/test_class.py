# SPDX-License-Identifier: MIT
"""`grade-all` grades a class, continues after a kill, and finds similar submissions. It writes the
CSV, Moodle's worksheet and the pages."""

import csv
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
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
from bench.grade.cohort.run import ClassGrading, ClassRecord, Graded, now, open_record
from bench.grade.cohort.similar import SOLUTION, Similarity, SimilarPair, compare
from bench.grade.findings import HAS_ASSEMBLER, OVER, CheckOutcome, FaultFound, Grade, StageOutcome
from bench.host.process import SignalWatch
from bench.host.project import ROOT
from bench.records.errors import UserError

from ..accessible import hindrances, opened
from ..commands import run
from .test_submissions import zipped

SKELETON = (ROOT / "course" / "own" / "main.c").read_text()
BROKEN = "int main(void) { return 0 }\n"


def words(folder: Path, *more: str) -> list[str]:
    command = [sys.executable, "-m", "bench", "grade-all", str(folder), "--only", "serves"]
    return [*command, *more]


def grade_all(folder: Path, *more: str) -> Path:
    """Grade a class and return the folder of the results."""
    run(*words(folder, *more))
    return folder.with_name(f"{folder.name}-grades")


def hand_in(folder: Path, student: str, text: str) -> None:
    """Write the main.c of a student, or replace it."""
    (folder / student).mkdir(parents=True, exist_ok=True)
    (folder / student / "main.c").write_text(text)


def rows(results: Path) -> dict[str, dict[str, str]]:
    """Return the lines of the CSV by student."""
    text = (results / "grades.csv").read_text(encoding="utf-8-sig")
    return {row["id"]: row for row in csv.DictReader(text.splitlines())}


def test_a_class_with_hostile_submissions_then_again_with_one_changed(tmp_path: Path) -> None:
    """The grader grades equal submissions once, refuses hostile submissions, and in the second run
    grades only the changed submission. About 8 s."""
    folder = tmp_path / "class"
    hand_in(folder, "ada", SKELETON)
    hand_in(folder, "ben", SKELETON)
    hand_in(folder, "=cmd|'calc'!A0", BROKEN)
    (folder / "eve").symlink_to("/etc")
    zipped(folder / "mal.zip", {"../../mal.c": b"x", "main.c": BROKEN.encode()})
    (folder / "tom").mkdir()

    results = grade_all(folder)
    found = rows(results)
    assert found["ada"]["points"] == found["ben"]["points"] == "3"
    assert found["ada"]["faults"] == "fixed-answer"
    assert found["'=cmd|'calc'!A0"]["faults"] == "does-not-compile"
    assert len({found[name]["of"] for name in ("ada", "'=cmd|'calc'!A0")}) == 1
    for name, state in (("eve", "refused"), ("mal", "refused"), ("tom", "no main.c")):
        assert found[name]["state"] == state
        assert found[name]["reason"]
    assert not list(tmp_path.rglob("mal.c"))
    record = ClassRecord(results)
    assert record.students["ben"][0].same_as == "ada"
    assert {one[0].seed for one in record.students.values()} == {record.runs[0].seed}
    assert "ada" not in (results / "students" / page_name("ben")).read_text()
    pages = {page.name for page in (results / "students").iterdir()}
    assert pages == {page_name(name) for name in record.students}

    hand_in(folder, "ben", BROKEN)
    grade_all(folder)
    record = ClassRecord(results)
    grades = [(one.run, one.grade.points) for one in record.history("ben") if one.grade]
    assert grades == [(1, 3), (2, 0)]
    assert [len(one) for name, one in record.students.items() if name != "ben"] == [1] * 5
    assert record.runs[0].seed != record.runs[1].seed


def test_a_run_that_was_killed_is_continued_with_its_seed(tmp_path: Path) -> None:
    """After `kill -9` between two grades, the next command continues the run. About 8 s."""
    folder, results = tmp_path / "class", tmp_path / "class-grades"
    for name in ("ada", "ben"):
        hand_in(folder, name, f"{SKELETON}/* {name} */\n")
    killed = subprocess.Popen(words(folder), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert any("[  1/2]" in line for line in killed.stdout)
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=20)
    killed.stdout.close()
    temporary = Path((results / ".temporary").read_text().strip())
    assert temporary.is_dir()
    deadline = time.monotonic() + 20  # the kernel ends the grader when its parent has ended
    while str(temporary) in processes():
        assert time.monotonic() < deadline
        time.sleep(0.05)

    grade_all(folder)
    record = ClassRecord(results)
    assert len(record.runs) == 1
    assert record.runs[0].finished
    assert {name: len(one) for name, one in record.students.items()} == {"ada": 1, "ben": 1}
    assert not temporary.exists()


def processes() -> str:
    return run("ps", "-eo", "args").stdout


def test_a_line_that_was_not_written_whole_is_not_read(tmp_path: Path) -> None:
    one = Graded(student="ada", run=1, seed=1, when=now())
    with open_record(tmp_path) as record:
        record.begin(1)
        record.add(one)
    with (tmp_path / "grades.jsonl").open("a") as file:
        file.write(one.model_dump_json()[:40])
    with open_record(tmp_path) as record:
        record.add(one)
    assert ClassRecord(tmp_path).students == {"ada": [one, one]}


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    refused = pytest.raises(UserError, match="another process")
    with open_record(tmp_path), refused, open_record(tmp_path):
        pass


def test_checks_that_the_time_limit_left_out_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CSV of a class names the points of the checks that the time limit left out."""
    late = CheckOutcome(check="c", points=0, of=7, came="not tried", note=OVER)
    other = CheckOutcome(check="d", points=1, of=1, came="right", note=HAS_ASSEMBLER)
    stages = [StageOutcome(stage=name, title="", checks=[late, other]) for name in ("load", "ends")]
    grade = Grade(server="mine", points=0, of=16, seed=1, seconds=55, isolation=[], stages=stages,
                  faults=[])  # fmt: skip
    grader = tmp_path / "grader"
    grader.write_text(f"#!/bin/sh\nprintf '%s' '{grade.model_dump_json()}'\n")
    grader.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(grader))
    said: list[str] = []
    with SignalWatch() as watch, open_record(tmp_path / "results") as record:
        grading = ClassGrading(record, record.begin(1), tmp_path, watch, said.append)
        same = {"run": 1, "seed": 1, "key": "key", "server": tmp_path}
        grading.grade([Graded(student=name, **same) for name in ("ada", "ben")])
        for one in record.latest(["ada", "ben"]):
            late_words = "the time limit was reached before checks for 14 points"
            assert one.reason == f"{late_words}; {HAS_ASSEMBLER}"
            assert one.reason in table([one])
    assert all("before checks for 14 points" in line for line in said)


def test_results_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "grades"):
        with pytest.raises(UserError, match=f"{folder}.*--into"), open_record(folder):
            pass


def test_many_copies_are_shown_as_a_group() -> None:
    names = [("ada", "bob", 100), ("bob", "dan", 95), ("dan", "eve", 60), ("finn", "gil", 99)]
    pairs = [
        SimilarPair(one=one, other=other, share_of_one=share, share_of_other=100)
        for one, other, share in names
    ]
    similar = Similarity(pairs=pairs)
    assert similar.groups == [["ada", "bob", "dan"]]
    assert similar.others == pairs[2:]


@pytest.mark.skipif(find_spec("copydetect") is None, reason="scripts/setup.sh similar installs it")
def test_a_copy_with_other_names_is_similar_and_two_servers_are_not(tmp_path: Path) -> None:
    """A copy of the solution with other names is similar. The project's servers are not similar,
    because the comparison ignores the project's own code. About 2 s."""
    solution = (ROOT / SOLUTION).read_text()
    servers = {name: tmp_path / name for name in ("copy", "07_epoll", "03_preforking")}
    for name, server in servers.items():
        source = ROOT / name / "main.c"
        renamed = solution.replace("client", "guest").replace("    ", "  ")
        hand_in(tmp_path, server.name, source.read_text() if source.exists() else renamed)
    work = tmp_path / "work"
    work.mkdir()
    with SignalWatch() as watch:
        similar = compare(servers, work, watch)
    assert [(one.one, one.share_of_one > 80) for one in similar.pairs] == [("copy", True)], similar
    assert similar.little == {"07_epoll": 0, "03_preforking": 0}
    shutil.rmtree(work)


def graded(student: str, points: int, **found: str) -> Graded:
    """Return a grade with findings. `found` maps each fault to the fault that caused it, or ""."""
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
    counted = [(one.fault, students) for one, students in faults(class_)]
    assert counted == [("leak", ["a", "b"]), ("crash", ["a"])]


def test_the_distribution_has_each_student_with_a_grade() -> None:
    none = Graded(student="e", run=1, seed=1, when=now(), state="refused")
    bars = distribution([graded("a", 0), graded("b", 9), graded("c", 99), graded("d", 100), none])
    filled = {label: count for label, count in bars.items() if count}
    assert filled == {"0 to 9": 2, "90 to 99": 1, "100": 1}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_of_the_csv_is_a_formula(text: str) -> None:
    one = Graded(student=text, run=1, seed=1, when=now(), state=text, reason=text)
    head, row = list(csv.reader(table([one]).splitlines(keepends=True)))[:2]
    assert tuple(head) == COLUMNS
    assert not any(part.startswith(text) for part in row)


def test_a_worksheet_is_filled_by_the_number_of_moodle() -> None:
    """The grader fills the rows by Moodle's number, and names a missing column that Moodle's
    importer needs (importgradeslib.php)."""
    head = "Identifier,Grade,Maximum grade,Last modified (grade)"
    text = f"{head}\nParticipant 7,,10,-\nParticipant 77,5,10,-\n"
    filled = worksheet(text, [graded("Ada_7", 31), graded("project-ada77", 100)])
    assert filled.splitlines() == [head, "Participant 7,3.10,10,-", "Participant 77,5,10,-"]
    for column in ("Identifier", "Grade", "Last modified (grade)"):
        with pytest.raises(UserError, match=re.escape(column)):
            worksheet(text.replace(column, "Bewertung", 1), [])


@pytest.mark.slow
@pytest.mark.browser
def test_the_pages_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """The pages of a class fetch nothing, run no script of a student, and are accessible."""
    hostile = "<script>document.title = 'run'</script>"
    alike = [
        SimilarPair(one=hostile, other=name, share_of_one=100, share_of_other=100)
        for name in ("ada", "bob")
    ]
    with open_record(tmp_path) as record:
        record.begin()
        for one in (graded(hostile, 31, leak=""), graded(hostile, 90), graded("ada", 100)):
            record.add(one)
        write(record, [hostile, "ada"], Similarity(about=hostile, pairs=alike), hostile)
    for name, rows in (("index.html", 14), (f"students/{page_name(hostile)}", 2)):
        address = (tmp_path / name).as_uri()
        with opened(browser, address, viewport={"width": 1280, "height": 800}) as page:
            page.goto(address)
            assert page.locator("tbody tr").count() == rows
            assert page.title() != "run"
            assert hindrances(page) == []
