# SPDX-License-Identifier: MIT
"""The rules for the project's structure that `make lint` does not check."""

import ast
import re
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import distributions
from pathlib import Path

import pytest

from bench.host.project import ROOT

from .commands import run

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
def test_results_of_other_users_are_read_without_the_instrument(
    command: str, tmp_path: Path
) -> None:
    results = str(RECORDED / "version3.json")
    more = {"compare": [results], "report": ["--output", str(tmp_path / "report.html")]}
    program = [sys.executable, "-c", READ, *command.split(), results, *more.get(command, [])]
    done = run(*program)
    packages = set(done.stdout.rpartition("packages:")[2].split())
    assert packages <= READERS


def _trees(*packages: str) -> dict[str, ast.Module]:
    """Return the modules of packages by name, without the programs of reference servers."""
    files = [
        f
        for package in packages
        for f in (ROOT / package).rglob("*.py")
        if "references" not in f.parts
    ]
    return {
        ".".join(f.relative_to(ROOT).with_suffix("").parts): ast.parse(f.read_text()) for f in files
    }


def _imported(tree: ast.Module) -> set[str]:
    """Return the names that a module imports; "from a import b" gives a.b, a module or a name."""
    nodes = [*ast.walk(tree)]
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return names | {
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def test_no_folder_is_crowded() -> None:
    """No folder has too many modules (a .c and its .h count once). No module imports too many other
    modules. No two classes have the same name."""
    for package in ("bench", "lab", "lib", "tests"):
        for folder in {file.parent for file in (ROOT / package).rglob("*.*")}:
            files = (file for file in folder.iterdir() if file.suffix in (".c", ".h", ".py"))
            assert len({file.stem for file in files} - {"__init__"}) <= 20, folder
    trees, classes = _trees("bench", "lab"), Counter[str]()
    for name, tree in trees.items():
        ours = {one if one in trees else one.rpartition(".")[0] for one in _imported(tree)}
        assert len(ours & trees.keys()) <= 12, f"{name} imports too many modules"
        classes.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == set()


def test_docstrings_of_functions_say_what_they_do() -> None:
    """No docstring of a function begins with one of these words, which begin fragments. 0.5 s."""
    words = {
        *("Whether", "Its", "What", "Those", "Which", "Why"),
        *("How", "By", "Of", "In", "Everything"),
    }
    assert [
        f"{module}.{node.name}: {text}"
        for module, tree in _trees("bench", "lab").items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for text in [ast.get_docstring(node) or "no text"]
        if text.split()[0] in words
    ] == []


def test_packages_that_are_imported_are_asked_for() -> None:
    """The requirements list each imported package, even if another listed package needs it."""
    names = {
        name.partition(".")[0] for tree in _trees("bench").values() for name in _imported(tree)
    }
    lists = "".join(
        (ROOT / f"requirements/{name}.in").read_text() for name in ("bench", "site", "similar")
    )
    asked = {name.lower() for name in re.findall(r"^[\w-]+", lists, re.MULTILINE)}
    # Before Python 3.11 packages_distributions() knows only packages with a top_level.txt.
    packages = {
        file.parts[0].removesuffix(".py"): one.metadata["Name"].lower().replace("_", "-")
        for one in distributions()
        for file in one.files or []
        if file.suffix in (".py", ".so")
    }
    needed = names - {"bench", "lab", *sys.stdlib_module_names, "tomllib"}  # or tomli
    assert {packages.get(name, name) for name in needed} <= asked


def _includes() -> dict[str, set[str]]:
    """Return the other modules that each module of lib/ includes, for example "process/stop"."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "lib").rglob("*.[ch]"):
        module = str(file.relative_to(ROOT / "lib").with_suffix(""))
        named = re.findall(r'^#include ["<](.+)\.h[">]', file.read_text(), re.MULTILINE)
        ours = {name for name in named if (ROOT / "lib" / f"{name}.h").exists()}
        found.setdefault(module, set()).update(ours - {module})
    return found


# The layers of lib/ that each layer may include, in addition to itself. ops.h declares functions
# that lib/plain/ and ops/ define.
BELOW = {
    "config": set[str](),
    "calls": set[str](),
    "ops": {"calls"},
    "proto": {"config"},
    "app": {"config", "ops", "proto", "process"},
    "process": {"config", "ops"},
    "net": {"calls", "config", "ops", "proto", "app", "process"},
    "plain": {"config", "ops", "proto", "app", "process", "net"},
}


def test_includes_run_down_and_in_no_circle() -> None:
    includes = _includes()
    for module, others in includes.items():
        layer = module.partition("/")[0]
        higher = [o for o in others if o.partition("/")[0] not in BELOW[layer] | {layer}]
        assert higher == [], f"{module} includes a layer that is not below it"
    assert len(includes) > 30
    try:
        list(TopologicalSorter(includes).static_order())
    except CycleError as circle:
        pytest.fail(f"circular includes: {circle.args[1]}")
