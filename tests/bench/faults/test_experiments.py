# SPDX-License-Identifier: MIT
"""Each experiment's patch applies and builds, and its server passes the tests that it names."""

import subprocess
import sys

import pytest

from bench.cli.cost_parts import TRICK_CELLS
from bench.cli.main import main
from bench.faults.copying import EXPERIMENTS, STAMP, built, experiment
from bench.host.project import ROOT
from bench.records.conditions import CHANGES, TRICKS
from bench.subjects.running import changed
from bench.subjects.subject import discover

LIMIT_SECONDS = 150


def test_what_is_known_of_them_is_there() -> None:
    for kind in ("patch", "toml"):
        assert sorted(path.stem for path in EXPERIMENTS.glob(f"*.{kind}")) == sorted(CHANGES)
    for name in CHANGES:
        chosen = experiment(name)
        assert set(chosen.servers) <= set(discover())
        assert chosen.question.strip()
        assert chosen.answer.strip()
    described = (ROOT / "docs" / "tutorial" / "experiments.md").read_text()
    assert all(f"`{name}`" in described for name in CHANGES)


def test_each_trick_is_measured_where_it_does_something() -> None:
    assert set(TRICK_CELLS) == set(TRICKS)
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
    chosen = experiment(name)
    folder = built(chosen)
    stamp = (folder / STAMP).stat().st_mtime_ns
    assert (built(chosen) / STAMP).stat().st_mtime_ns == stamp, "built twice"
    for server in chosen.servers:
        assert changed(name, [str(ROOT / server), "--port", "0"])[0] == str(folder / server)
        tests = [f"tests/e2e/{test}" for test in chosen.still]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("--server", server, "--bin-dir", str(folder), *tests),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout
