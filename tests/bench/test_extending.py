# SPDX-License-Identifier: MIT
"""The additions of docs/how-to/extend-the-benchmark.md work in a copy: a condition, a figure, a
workload and a reference server. A sweep of the copy uses all four."""

import json
import re
import sys
from pathlib import Path

import pytest

from bench.host.project import ROOT

from .commands import bench, copied, run
from .whole_sweep import needs_a_sweep

pytestmark = needs_a_sweep
SERVERS = sorted(folder.name for folder in ROOT.glob("0[1-7]_*"))
COPIED = (
    *("bench", "lib", "ops", "baselines", "public", "templates", "redirects", *SERVERS, "epoll"),
    *("tests", "docs", "scripts", "pyproject.toml"),
)
MET = (
    "tests/bench/subjects/test_subjects.py",
    "tests/bench/subjects/test_references.py",
    "tests/bench/studies/test_study.py",
    "tests/bench/report/test_exports.py",
)
"""The project's tests that check an addition."""
BLOCK = re.compile(
    r"^```(?P<kind>\w+) ?(?P<file>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the project with the additions of the document."""
    root = copied(tmp_path / "project", *COPIED)
    for block in BLOCK.finditer((ROOT / "docs" / "how-to" / "extend-the-benchmark.md").read_text()):
        if block["kind"] == "diff":
            run("git", "apply", "-p1", "-", cwd=root, input=block["text"])
        elif block["file"]:
            (root / block["file"]).parent.mkdir(parents=True, exist_ok=True)
            (root / block["file"]).write_text(block["text"])
    return root


@pytest.mark.slow
def test_one_of_each_in_a_copy(copy: Path) -> None:
    words = "--servers epoll,loop --workloads missing,redirect --nice 0,5 --levels 5"
    words = (*words.split(), "--requests", "100", "--results", "results")
    assert "missing, niceness 5" in bench("sweep", *words, cwd=copy).stdout
    (folder,) = (copy / "results").iterdir()
    runs = json.loads((folder / "results.json").read_text())["runs"]
    assert {(one["subject"], one["workload"], one["nice"], one["state"]) for one in runs} == {
        ("epoll", "missing", 0, "held"),
        ("epoll", "missing", 5, "held"),
        ("epoll", "redirect", 0, "held"),
        ("epoll", "redirect", 5, "held"),
        ("loop", "redirect", 0, "held"),
        ("loop", "redirect", 5, "held"),
    }
    assert "nice" in (folder / "results.csv").read_text().partition("\n")[0].split(",")
    bench("report", folder, cwd=copy)
    (first, *_) = json.loads((folder / "report.json").read_text())["cells"]
    assert first["size"] > 100
    assert (folder / "chart_missing_nice5.svg").exists()
    chosen = ("-k", "loop or column or no_other", *MET)
    run(sys.executable, "-m", "pytest", "-q", *chosen, cwd=copy)
    for block in BLOCK.finditer((ROOT / "docs" / "how-to" / "extend-the-benchmark.md").read_text()):
        if block["file"]:
            assert block["text"].startswith("# SPDX-License-Identifier: MIT\n"), "lint requires it"
