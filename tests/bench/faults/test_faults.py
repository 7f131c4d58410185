# SPDX-License-Identifier: MIT
"""Each patch of "find the fault" and of an experiment applies and builds. A fault breaks the test
that it names. The server of an experiment passes the tests that the experiment names.

The test of tests/e2e/ that a fault breaks runs here on the server with the fault. The run of
tests/e2e/ itself shows that the test passes without the fault.
"""

import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.faults import copying
from bench.faults.command import COPIES, renew
from bench.faults.command import run as make_fault
from bench.faults.copying import STAMP, Fault, apply, built, difference, fault, make_copy, numbers
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, OPTIMISATIONS
from bench.records.errors import UserError
from bench.studies.study import EXPERIMENTS, study
from bench.subjects.running import changed
from bench.subjects.subject import discover

from ..commands import run

TIMEOUT_SECONDS = "6"
"""The timeout of a test in tests/e2e/, in seconds: some tests fail only after this time."""


def _build(chosen: Fault, folder: Path) -> None:
    """Build the server of a fault; reuse the objects that the patch does not change."""
    built = ROOT / "build" / "release"
    if built.exists():
        shutil.copytree(built, folder / "build" / "release")
    assert "warning" not in run("make", "--silent", chosen.server, cwd=folder).stderr


def _outcomes(chosen: Fault, folder: Path) -> dict[str, list[str]]:
    """Return the failures of each test of a fault, "" if it passed; skipped tests are left out."""
    report = folder / "build" / "report.xml"
    wanted = [f"tests/e2e/{test}" for test in (chosen.check.breaks, *chosen.check.still)]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"]
    options += ["--server", chosen.server, "--bin-dir", str(folder)]
    environment = {**os.environ, "TEST_TIMEOUT": TIMEOUT_SECONDS}
    words = (sys.executable, "-m", "pytest", *options, *wanted)
    done = run(*words, status=None, env=environment)
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            bad = [part for part in case if part.tag in ("failure", "error")]
            text = "\n".join(f"{part.get('message')}\n{part.text}" for part in bad)
            found.setdefault(str(case.get("name")), []).append(text)
    return found


def _of(test: str, outcomes: dict[str, list[str]]) -> list[str]:
    """Return the outcomes of FILE::TEST; a name without parameters means all its cases."""
    name = test.partition("::")[2]
    return [
        text
        for case, texts in outcomes.items()
        for text in texts
        if case == name or case.partition("[")[0] == name
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", numbers())
def test_a_fault_breaks_the_test_that_it_names(number: str, tmp_path: Path) -> None:
    chosen = fault(number)
    folder = tmp_path / "copy"
    make_copy(folder)
    apply(chosen.patch, folder)
    _build(chosen, folder)
    outcomes = _outcomes(chosen, folder)
    failures = [text for text in _of(chosen.check.breaks, outcomes) if text]
    assert failures, f"{chosen.check.breaks} passes: {outcomes}"
    assert any(re.search(chosen.check.says, text) for text in failures), failures
    for test in chosen.check.still:
        passed = _of(test, outcomes)
        assert passed, f"{test} did not run"
        assert not any(passed), passed


def test_there_are_fifteen_complete_faults() -> None:
    faults = [fault(number) for number in numbers()]
    assert [one.number for one in faults] == [f"{n:02}" for n in range(1, 16)]
    assert len({one.name for one in faults}) == 15
    for one in faults:
        changed = re.findall(r"^[-+][^-+]", one.patch.read_text(), re.MULTILINE)
        assert 1 <= len(changed) <= 30, f"{one.number} is not a small patch"
        run("patch", "--dry-run", "--strip=1", "--fuzz=0", f"--input={one.patch}", cwd=ROOT)
        tests = (ROOT / "tests/e2e" / one.check.breaks.partition("::")[0]).read_text()
        name = one.check.breaks.partition("::")[2].partition("[")[0]
        assert f"def {name}(" in tests


def test_a_student_s_id_always_draws_the_same_fault_and_a_class_draws_all() -> None:
    drawn = [copying.number_for(f"student{number}") for number in range(300)]
    assert drawn == [copying.number_for(f" Student{number}") for number in range(300)]
    assert set(drawn) == set(numbers())
    with pytest.raises(UserError):
        make_fault(["07", "--student", "ada"])


def test_the_ticket_hides_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ticket does not name the fault, and the copy has no patch, list of faults or history."""
    copy = tmp_path / "copy"
    assert make_fault(["4", "--into", str(copy)]) == 0
    said = capsys.readouterr().out.lower()
    assert "herd" not in said
    assert "prethreading" in said
    for gone in ("course/faults", "tests/bench/faults", ".git", "course/own/solution.c"):
        assert not (copy / gone).exists()
    assert (copy / "course" / "own" / "main.c").exists()
    assert not list(copy.rglob("*.orig"))
    for chosen in map(fault, numbers()):
        assert chosen.name not in chosen.complaint


def test_the_copy_is_a_project_of_its_own(tmp_path: Path) -> None:
    """The copy's commands use its files. `fault` fails there, and names the original folder."""
    copy = tmp_path / "copy"
    make_copy(copy)
    code = "import bench.host.project as p, pydantic; print(p.ROOT)"
    for command in (
        [".venv/bin/python", "-c", code],
        ["/bin/sh", "-c", f".venv/bin/python - <<'END'\n{code}\nEND"],
    ):
        assert run(*command, cwd=copy).stdout.strip() == str(copy)
    own = copy / ".venv" / "bin" / "zerohttpd"
    run(own, "--version", cwd=copy.parent)
    for words in (["fault", "01"], ["fault", "14", "--hint", "1"]):
        done = run(own, *words, cwd=copy.parent, status=None)
        assert done.returncode != 0
        assert done.stderr.strip().endswith(f"in the original folder: {ROOT}")


def test_a_deleted_file_does_not_stop_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "project_files", lambda *_, **__: ["gone.txt", "Makefile"])
    make_copy(tmp_path)
    assert (tmp_path / "Makefile").read_bytes() == (ROOT / "Makefile").read_bytes()
    assert not (tmp_path / "gone.txt").exists()


def test_a_students_work_is_not_removed() -> None:
    """`make clean` keeps the folder of copies. git ignores it, so no copy contains another copy."""
    removed = [ROOT / word for word in run("make", "-n", "clean").stdout.split()[2:]]
    assert ROOT / "build" in removed
    assert not {COPIES, *COPIES.parents} & set(removed)
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"/{COPIES.relative_to(ROOT)}/" in ignored


def test_hints_and_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    for step in ("1", "2", "3", "answer"):
        assert make_fault(["07", "--hint", step]) == 0
        said = capsys.readouterr().out
        assert (fault("07").name in said) == (step == "answer")
    assert "+++ b/lib/" in said
    assert "https://" in said


def test_impossible_requests_are_reported(tmp_path: Path) -> None:
    for number in ("0", "99", "x"):
        with pytest.raises(UserError, match="no fault"):
            fault(number)
    (tmp_path / "mine").write_text("")
    with pytest.raises(UserError, match="exists already"):
        make_copy(tmp_path)
    copy, chosen = tmp_path / "copy", fault("05")
    make_copy(copy)
    with pytest.raises(UserError, match="edit them first"):
        renew(chosen, copy)
    apply(chosen.patch, copy)
    assert difference(copy).count("\n+") == chosen.patch.read_text().count("\n+")
    with pytest.raises(UserError, match="does not apply"):
        apply(chosen.patch, copy)


def test_each_experiment_is_declared_listed_and_documented(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind in ("patch", "toml"):
        assert sorted(path.stem for path in EXPERIMENTS.glob(f"*.{kind}")) == sorted(CHANGES)
    described = (ROOT / "docs" / "tutorial" / "experiments.md").read_text()
    assert main(["experiment"]) == 0
    listed = capsys.readouterr().out
    for name in CHANGES:
        chosen = study(name)
        assert set(chosen.subjects) <= set(discover())
        assert chosen.question.strip()
        assert chosen.answer.strip()
        assert f"`{name}`" in described
        assert name in listed


def test_each_optimisation_can_be_switched_off() -> None:
    library = (ROOT / "baselines" / "without.c").read_text()
    assert all(f'is_without("{name}")' in library for name in OPTIMISATIONS if name != "control")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHANGES))
def test_a_changed_server_is_still_right(name: str) -> None:
    chosen = study(name)
    folder = built(chosen)
    stamp = (folder / STAMP).stat().st_mtime_ns
    assert (built(chosen) / STAMP).stat().st_mtime_ns == stamp, "the server was built twice"
    for server in chosen.subjects:
        assert changed(name, [str(ROOT / server), "--port", "0"])[0] == str(folder / server)
        tests = [f"tests/e2e/{test}" for test in chosen.still]
        words = ("-q", "-p", "no:cacheprovider", "--server", server, "--bin-dir", folder, *tests)
        done = run(sys.executable, "-m", "pytest", *words)
        assert " passed" in done.stdout
