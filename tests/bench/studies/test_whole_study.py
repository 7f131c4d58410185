# SPDX-License-Identifier: MIT
"""Studies, measured for real: the example of the documentation, and one of the project over hosts
(this machine, with an agent each)."""

import re
import shutil
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.records.store import load
from bench.report.findings import peers
from bench.report.study import Study
from bench.studies.study import STUDIES, study

from ..commands import bench
from ..whole_sweep import hosts_file, needs_a_sweep

pytestmark = [
    needs_a_sweep,
    pytest.mark.skipif(not shutil.which("wrk"), reason="needs wrk"),
    pytest.mark.xdist_group("measure"),
]
NAME = "go-nginx-2013"
"""The shortest study; epoll at least can be measured on any machine."""
SHORTER = {"requests = 20000": "requests = 4000", "timeout = 60": "timeout = 15"}
"""The study's own figures: with a short accept queue some runs end at their time limit only."""


def shorter(folder: Path) -> Path:
    """Return a copy of the study that needs less time."""
    shutil.copy(STUDIES / f"{NAME}.published.csv", folder)
    text = (STUDIES / f"{NAME}.toml").read_text()
    for before, after in SHORTER.items():
        assert before in text
        text = text.replace(before, after)
    file = folder / f"{NAME}.toml"
    file.write_text(text)
    return file


@pytest.mark.slow
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    """It is measured, checked, read again and made into a page. The machine decides whether the
    limits are met."""
    page = (ROOT / "docs" / "how-to" / "benchmark.md").read_text()
    text = re.findall(r"^```toml my.toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "my.toml").write_text(text)
    words = [tmp_path / "my.toml", "--requests", "300", "--runs", "1"]
    done = bench("run", *words, "--results", tmp_path, status=None)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert re.search(r"^\d+ of 20 met$", done.stdout, re.MULTILINE), done.stdout
    (folder,) = tmp_path.glob("2*/")
    results = load(folder)
    assert {(run.subject, run.conditions.workload) for run in results.runs} == {
        (name, load) for name in ("preforking", "epoll") for load in ("redirect", "guestbook")
    }
    assert (len(results.runs), results.state) == (16, "complete")
    again = bench("report", "--targets", folder, status=None)
    assert (again.returncode, again.stdout) == (done.returncode, done.stdout[-len(again.stdout) :])
    bench("report", folder)
    resumed = bench("run", "--resume", folder, status=None)
    assert resumed.stderr == f"run: {folder} is complete: nothing to resume\n"


@pytest.mark.slow
def test_a_study_over_hosts(tmp_path: Path) -> None:
    words = ["peers", shorter(tmp_path), "--no-install", "--hosts", hosts_file(tmp_path)]
    done = bench(*words, "--results", tmp_path, status=None)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    (folder,) = tmp_path.glob("2*/")
    results = load(folder)
    assert results.state == "complete"
    assert [host.role for host in results.hosts] == ["load", "server", "redis"]
    (kept,) = results.studies
    assert kept.name == NAME
    assert kept.published
    wanted, measured = set(study(NAME).subjects), {run.subject for run in results.runs}
    assert measured | set(results.left_out) == wanted
    assert not measured & set(results.left_out)
    assert set(results.peers) == measured - {"epoll"}
    epoll = next(run for run in results.runs if run.subject == "epoll")
    assert epoll.reason is None
    assert epoll.wrk
    assert epoll.wrk.statuses == {"200": epoll.requests}
    tables = peers.tables(Study(results), kept)
    assert [table.scenario.cores for table in tables] == ["one", "all"]
    for table in tables:
        assert {row.subject for row in table.rows} == wanted
        assert all(row.now.get("cpu") or row.now.why_not for row in table.rows)
        # Each table has its published rate: with one core, or with all cores.
        then = {x.rate for row in table.rows for x in row.then if row.subject == "go-hello"}
        assert then == {{"one": 42745.15, "all": 128402.88}[table.scenario.cores]}
