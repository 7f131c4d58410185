# SPDX-License-Identifier: MIT
"""The rooms of bench/: what `make lint` does not see of them."""

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
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


@pytest.mark.parametrize("room", ["bench", "lab", "lib", "tests"])
def test_no_room_is_crowded(room: str) -> None:
    """A .c and its .h are one module."""
    crowded = {}
    for folder in {file.parent for file in (ROOT / room).rglob("*.*")}:
        files = (file for file in folder.iterdir() if file.suffix in (".c", ".h", ".py"))
        modules = {file.stem for file in files} - {"__init__"}
        if len(modules) > MOST_MODULES:
            crowded[folder] = len(modules)
    assert crowded == {}


def _includes() -> dict[str, set[str]]:
    """What each module of lib/ includes of the others: "net/stop", not "net/stop.h"."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "lib").rglob("*.[ch]"):
        module = str(file.relative_to(ROOT / "lib").with_suffix(""))
        named = re.findall(r'^#include "(.+)\.h"', file.read_text(), re.MULTILINE)
        found.setdefault(module, set()).update(set(named) - {module})
    return found


def test_includes_run_down_and_in_no_circle() -> None:
    includes = _includes()
    floors = ["config", "proto", "app", "net"]
    for module, others in includes.items():
        height = floors.index(module.partition("/")[0])
        uphill = [one for one in others if floors.index(one.partition("/")[0]) > height]
        assert uphill == [], f"{module} includes what is above it"
    assert len(includes) > 30
    try:
        list(TopologicalSorter(includes).static_order())
    except CycleError as circle:
        pytest.fail(f"includes in a circle: {circle.args[1]}")
