# SPDX-License-Identifier: MIT
"""docs/teaching/grading.md: its table matches the JSON, and its scripts work as described."""

import csv
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from bench.grade.exam import BUILD_POINTS
from bench.grade.stage import Grade
from bench.grade.stages import STAGES
from bench.host.project import ROOT

from ..commands import bench, run
from .conftest import LOAD

TEXT = (ROOT / "docs" / "teaching" / "grading.md").read_text()
SKELETON = ROOT / "course" / "own" / "main.c"
MAKE = 'make() {{ command make SETUP=true ZEROHTTPD="{python} -m bench" "$@"; }}; export -f make\n'
LAZY_POINTS = 3
"""The points of an unchanged skeleton: it compiles."""


def script(beginning: str, place: str) -> str:
    """Return the block of the text that begins so; `place` is its path of the project's folder."""
    found = next(b for b in re.findall(r"(?s)```sh\n(.*?)```", TEXT) if b.startswith(beginning))
    assert place in found
    return str(found.replace(place, str(ROOT)))


def shell(text: str, folder: Path) -> str:
    """Return what it prints; this project's own commands are used instead of `make`."""
    return run("bash", "-c", MAKE.format(python=sys.executable) + text, cwd=folder).stdout


def test_each_field_of_the_json_is_told() -> None:
    schema = Grade.model_json_schema()
    told = set(re.findall(r"`(\w+)`", TEXT.partition("| field |")[2].partition("\n\n")[0]))
    kinds = [schema, *schema["$defs"].values()]
    assert {name for kind in kinds for name in kind["properties"]} <= told


def test_whoever_serves_no_file_gets_no_stage(tmp_path: Path) -> None:
    """A server that serves no file gets no stage: a program that only prints Hello once had 18 of
    18."""
    tmp_path.chmod(0o755)
    (tmp_path / "08_mine").mkdir()
    shutil.copy(SKELETON, tmp_path / "08_mine" / "main.c")
    words = ("--json", "--only", "serves", "races", "leaves-nothing", "ends")
    done = bench("grade", tmp_path / "08_mine", *words)
    found = Grade.model_validate_json(done.stdout)
    assert (found.points, len(found.stages)) == (BUILD_POINTS, 5), done.stdout
    assert found.faults == ["fixed-answer"], done.stdout


def test_the_schema_is_printed() -> None:
    assert json.loads(bench("grade", "--schema").stdout) == Grade.model_json_schema()


def test_each_stage_is_named() -> None:
    for stage in STAGES:
        assert re.search(rf"`{stage.name}`|--only {stage.name}\b", TEXT), stage.name


def test_the_points_of_each_stage_are_those_of_the_grader() -> None:
    table = TEXT.partition("| stage | `--only` | points |")[2].partition("\n\n")[0]
    told = {name: int(n) for name, n in re.findall(r"\| (?:`([\w-]+)`)? *\| (\d+) \|", table)}
    points = {stage.name: sum(check.points for check in stage.checks) for stage in STAGES}
    assert told == {"": BUILD_POINTS, **points}
    assert sum(told.values()) == 100


@LOAD
def test_a_worksheet_of_moodle_is_filled_and_a_folder_of_another_name_stops_nothing(
    tmp_path: Path,
) -> None:
    """About 10 s, and a minute if the libraries with sanitizers are not built yet."""
    folder = tmp_path / "submissions"
    for place in ("Ada Lovelace_4711", "Charles Babbage_12", "Conor O'Brien_13"):
        name = "08_cy" if place.startswith("Charles") else "08_mine"
        server = folder / f"{place}_assignsubmission_file" / name
        server.mkdir(parents=True)
        shutil.copy(SKELETON, server / "main.c")
    broken = folder / "Ada Lovelace_4711_assignsubmission_file" / "08_mine" / "main.c"
    broken.write_text("int main(void) { return 0 }\n")
    (tmp_path / "worksheet.csv").write_text(
        "\ufeffIdentifier,Full name,Grade,Maximum grade,Last modified (grade)\n"
        'Participant 4711,"Lovelace, Ada",,100.00,-\nParticipant 12,Charles Babbage,,50.00,-\n'
        "Participant 13,Conor O'Brien,,100.00,-\nParticipant 14,Ida Rhodes,7.00,100.00,-\n"
    )
    shell(script("make -s -C ~/zerohttpd grade-all", "~/zerohttpd"), tmp_path)
    rows = list(csv.reader(io.StringIO((tmp_path / "submissions-grades/moodle.csv").read_text())))
    assert rows[0][:3] == ["Identifier", "Full name", "Grade"]
    assert [row[2] for row in rows[1:]] == ["0.00", f"{LAZY_POINTS / 2:.2f}", "3.00", "7.00"]


@LOAD
def test_an_evaluation_of_the_virtual_programming_lab_gives_a_grade(tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    tmp_path.chmod(0o755)
    shutil.copy(SKELETON, tmp_path / "main.c")
    shell(script("#!/bin/sh\nmkdir", "/opt/zerohttpd"), tmp_path)
    said = shell("bash vpl_execution", tmp_path)
    assert f"Grade :=>> {LAZY_POINTS}" in said.splitlines()
    assert "Comment :=>> You answer before you have read the request: " in said
