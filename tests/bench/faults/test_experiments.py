# SPDX-License-Identifier: MIT
"""Each experiment's patch applies and builds, and its server passes the tests that it names."""

import sys

import pytest

from bench.cli.main import main
from bench.faults.copying import STAMP, built
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, TRICKS
from bench.studies.study import EXPERIMENTS, study
from bench.subjects.running import changed
from bench.subjects.subject import discover

from ..commands import run


def test_what_is_known_of_them_is_there() -> None:
    for kind in ("patch", "toml"):
        assert sorted(path.stem for path in EXPERIMENTS.glob(f"*.{kind}")) == sorted(CHANGES)
    for name in CHANGES:
        chosen = study(name)
        assert set(chosen.subjects) <= set(discover())
        assert chosen.question.strip()
        assert chosen.answer.strip()
    described = (ROOT / "docs" / "tutorial" / "experiments.md").read_text()
    assert all(f"`{name}`" in described for name in CHANGES)


def test_each_optimisation_can_be_switched_off() -> None:
    library = (ROOT / "floors" / "without.c").read_text()
    assert all(f'is_without("{name}")' in library for name in TRICKS if name != "control")


def test_the_list_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in CHANGES)
    assert main(["experiment", "none-such"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHANGES))
def test_a_changed_server_is_still_right(name: str) -> None:
    chosen = study(name)
    folder = built(chosen)
    stamp = (folder / STAMP).stat().st_mtime_ns
    assert (built(chosen) / STAMP).stat().st_mtime_ns == stamp, "built twice"
    for server in chosen.subjects:
        assert changed(name, [str(ROOT / server), "--port", "0"])[0] == str(folder / server)
        tests = [f"tests/e2e/{test}" for test in chosen.still]
        words = ("-q", "-p", "no:cacheprovider", "--server", server, "--bin-dir", folder, *tests)
        done = run(sys.executable, "-m", "pytest", *words)
        assert " passed" in done.stdout
