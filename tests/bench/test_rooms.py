# SPDX-License-Identifier: MIT
"""The rooms of bench/: what `make lint` does not see of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.project import ROOT

MOST_MODULES = 20
"""In a folder; more nobody takes in at a glance."""
READ = """
import sys
from bench.cli.main import main
assert main(sys.argv[1:]) in (0, 1)
rooms = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("bench.")}
print("rooms:", *sorted(rooms))
"""
READERS = {"bench.cli", "bench.records", "bench.readers", "bench.report"}
RECORDED = ROOT / "tests" / "bench" / "report" / "recorded"


@pytest.mark.parametrize("command", ["report", "compare"])
def test_somebody_elses_results_are_read_without_the_instrument(
    command: str, tmp_path: Path
) -> None:
    words = [str(RECORDED / "version3.json")]
    words += words if command == "compare" else ["--output", str(tmp_path / "report.html")]
    program = [sys.executable, "-c", READ, command, *words]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rooms = set(done.stdout.rpartition("rooms:")[2].split())
    assert rooms <= READERS


def test_no_room_is_crowded() -> None:
    for folder in {file.parent for file in (ROOT / "bench").rglob("*.py")}:
        modules = [file.name for file in folder.glob("*.py") if file.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES, f"{folder}: {len(modules)}"
