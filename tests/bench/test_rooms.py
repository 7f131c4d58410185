# SPDX-License-Identifier: MIT
"""The structure of bench/, as far as `make lint` does not check it."""

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import distributions
from pathlib import Path

import pytest

from bench.host.project import ROOT, toml_of

MOST_MODULES = 20
"""Modules in a folder; a longer list is hard to read."""
MOST_DOORS = 12
"""Modules that a module may import, or packages that a package may import."""
BY_NAME = re.compile(r"\b(import_module|__import__|run_module|run_path)\b")
READ = """
import sys
from bench.cli.main import main
assert main(sys.argv[1:]) in (0, 1)
packages = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("bench.")}
print("packages:", *sorted(packages))
"""
READERS = {"bench.cli", "bench.records", "bench.readers", "bench.report"}
RECORDED = ROOT / "tests" / "bench" / "report" / "recorded"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "compare", "report --targets"])
def test_somebody_elses_results_are_read_without_the_instrument(
    command: str, tmp_path: Path
) -> None:
    results = str(RECORDED / "version3.json")
    more = {"compare": [results], "report": ["--output", str(tmp_path / "report.html")]}
    program = [sys.executable, "-c", READ, *command.split(), results, *more.get(command, [])]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rooms = set(done.stdout.rpartition("packages:")[2].split())
    assert rooms <= READERS


@pytest.mark.parametrize("room", ["bench", "lab", "lib", "tests"])
def test_no_room_is_crowded(room: str) -> None:
    """No package has too many modules; a .c and its .h are one module."""
    crowded = {}
    for folder in {file.parent for file in (ROOT / room).rglob("*.*")}:
        files = (file for file in folder.iterdir() if file.suffix in (".c", ".h", ".py"))
        modules = {file.stem for file in files} - {"__init__"}
        if len(modules) > MOST_MODULES:
            crowded[folder] = len(modules)
    assert crowded == {}


def _packages() -> dict[str, str]:
    """Return which packages have installed each module. (Before Python 3.11
    packages_distributions() knows only those with a top_level.txt.)"""
    return {
        file.parts[0].removesuffix(".py"): one.metadata["Name"]
        for one in distributions()
        for file in one.files or []
        if file.suffix in (".py", ".so")
    }


def test_packages_that_are_imported_are_asked_for() -> None:
    """Each imported package is required directly: another package may stop needing it."""
    trees = [ast.parse(file.read_text()) for file in (ROOT / "bench").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    own = {"bench", "lab", *sys.stdlib_module_names, "tomllib"}  # or tomli
    others = {name.partition(".")[0] for name in names} - own
    lists = "".join(
        (ROOT / f"requirements/{name}.in").read_text() for name in ("bench", "site", "similar")
    )
    asked = re.findall(r"^[\w-]+", lists, re.MULTILINE)
    packages = _packages()  # tomli is there for older Pythons only
    needed = {packages.get(name, name).lower() for name in others}
    assert {name.replace("_", "-") for name in needed} <= {name.lower() for name in asked}


def _module(file: Path, root: Path) -> str:
    """Return its name: "bench.host.quota"; for a package's __init__ that of the package."""
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> set[str]:
    """Return what a module imports, both as a module ("from a import b" may mean a.b) and as a
    name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def doors(root: Path, room: str) -> dict[str, set[str]]:
    """Return the modules of a package, each with its modules that it imports."""
    trees = {_module(f, root): ast.parse(f.read_text()) for f in (root / room).rglob("*.py")}
    return {
        name: {
            one if one in trees else one.rpartition(".")[0]
            for one in _imported(tree)
            if one in trees or one.rpartition(".")[0] in trees
        }
        for name, tree in trees.items()
    }


def class_names() -> dict[str, list[str]]:
    """Return the classes of bench/ and lab/, each with the modules that have one of that name. The
    programs of reference servers are not included."""
    found: dict[str, list[str]] = {}
    for file in (file for room in ("bench", "lab") for file in (ROOT / room).rglob("*.py")):
        if "strangers" not in file.parts:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(_module(file, ROOT))
    return found


def test_no_name_of_a_class_means_two_things() -> None:
    found = class_names()
    assert found["Plan"] == ["bench.records.plan"]
    assert found["LabPlan"] == ["lab.plan"]
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def _too_many(found: Mapping[str, set[str]]) -> dict[str, int]:
    return {name: len(others) for name, others in found.items() if len(others) > MOST_DOORS}


def test_every_folder_of_modules_is_a_package() -> None:
    """Every folder of modules is a package, or the import contracts would not check it. Programs of
    reference servers are in other languages and never imported."""
    folders = {file.parent for room in ("bench", "lab") for file in (ROOT / room).rglob("*.py")}
    programs = ROOT / "bench" / "strangers"
    plain = [f for f in folders if not (f / "__init__.py").exists() and programs not in f.parents]
    assert plain == []


def test_every_room_but_the_command_line_knows_no_lab() -> None:
    contracts = toml_of(ROOT / "pyproject.toml")["tool"]["importlinter"]["contracts"]
    named = next(one for one in contracts if one["name"] == "Only the command line imports the lab")
    rooms = {f"bench.{init.parent.name}" for init in (ROOT / "bench").glob("*/__init__.py")}
    assert set(named["source_modules"]) == rooms - {"bench.cli"}


@pytest.mark.parametrize("room", ["bench", "lab"])
def test_no_module_has_more_than_a_dozen_doors(room: str) -> None:
    found = doors(ROOT, room)
    assert found[f"{room}.__main__"]
    assert _too_many(found) == {}


def test_no_package_imports_more_than_a_dozen_others() -> None:
    rooms: dict[str, set[str]] = {}
    for module, others in doors(ROOT, "bench").items():
        room, *behind = (".".join(name.split(".")[:2]) for name in (module, *others))
        rooms.setdefault(room, set()).update({*behind} - {room})
    assert _too_many(rooms) == {}


def test_modules_are_loaded_by_their_names_in_the_table_of_commands_alone() -> None:
    """Only the table of commands loads modules by name: the contracts see no such import."""
    files = (file for room in ("bench", "lab") for file in (ROOT / room).rglob("*.py"))
    found = [_module(file, ROOT) for file in files if BY_NAME.search(file.read_text())]
    assert found == ["bench.cli.main"]


def test_one_door_too_many_is_seen(tmp_path: Path) -> None:
    room = tmp_path / "bench"
    room.mkdir()
    names = [f"door{number}" for number in range(MOST_DOORS + 1)]
    for name in names:
        (room / f"{name}.py").write_text("KEY = 1\n")
    lines = [f"from bench import {names[0]}", *(f"from bench.{n} import KEY" for n in names[1:])]
    (room / "hall.py").write_text("\n".join([*lines, "import bench.door1", "import os"]))
    assert _too_many(doors(tmp_path, "bench")) == {"bench.hall": MOST_DOORS + 1}


def _includes() -> dict[str, set[str]]:
    """Return what each module of lib/ includes of the others: "process/stop", not
    "process/stop.h"."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "lib").rglob("*.[ch]"):
        module = str(file.relative_to(ROOT / "lib").with_suffix(""))
        named = re.findall(r'^#include ["<](.+)\.h[">]', file.read_text(), re.MULTILINE)
        ours = {name for name in named if (ROOT / "lib" / f"{name}.h").exists()}
        found.setdefault(module, set()).update(ours - {module})
    return found


# The layers of lib/ that each layer may include, in addition to itself. ops.h declares what
# plain.c and ops/ define.
BELOW = {
    "config": set[str](),
    "calls": set[str](),
    "ops": {"calls"},
    "proto": {"config"},
    "app": {"config", "ops", "proto"},
    "process": {"config", "ops"},
    "net": {"calls", "config", "ops", "proto", "app", "process"},
    "plain": {"config", "ops", "proto", "app", "process", "net"},
}


def test_includes_run_down_and_in_no_circle() -> None:
    includes = _includes()
    for module, others in includes.items():
        floor = module.partition("/")[0]
        uphill = [o for o in others if o.partition("/")[0] not in BELOW[floor] | {floor}]
        assert uphill == [], f"{module} includes a layer that is not below it"
    assert len(includes) > 30
    try:
        list(TopologicalSorter(includes).static_order())
    except CycleError as circle:
        pytest.fail(f"circular includes: {circle.args[1]}")
