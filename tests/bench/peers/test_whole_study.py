# SPDX-License-Identifier: MIT
"""A study, measured for real with the installed servers over hosts: this machine, with an agent
each."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.host.project import ROOT
from bench.peers.study import STUDIES, study
from bench.records.store import load
from bench.report.findings import peers
from bench.report.study.study import Study

from ..whole_sweep import hosts_file

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / "epoll").exists()
        or not all(shutil.which(name) for name in ("ab", "wrk", "redis-server")),
        reason="needs ./epoll, ab, wrk and redis-server",
    ),
    pytest.mark.xdist_group("measure"),
]
NAME = "go-nginx-2013"
"""The shortest study; epoll at least can be measured on any machine."""
SECONDS = 600.0
SHORTER = {"requests = 20000": "requests = 4000", "timeout = 60": "timeout = 15"}
"""The study's own figures: with a short accept queue some runs end at their time limit only."""
MEASURE = """
import sys
from pathlib import Path
from bench.cli.main import main
from bench.peers import study
for function in (study.names, study.study, study.chosen):
    function.__defaults__ = (Path(sys.argv[1]),)
sys.exit(main(sys.argv[2:]))
"""


def shorter(folder: Path) -> Path:
    """Return a folder with a copy of the study that needs less time."""
    shutil.copytree(STUDIES / NAME, folder / NAME)
    file = folder / NAME / "study.toml"
    text = file.read_text()
    for before, after in SHORTER.items():
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    return folder


@pytest.mark.slow
def test_a_study_over_hosts(tmp_path: Path) -> None:
    words = ["peers", NAME, "--no-install", "--hosts", str(hosts_file(tmp_path))]
    studies = shorter(tmp_path / "studies")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, studies, *words, "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
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
        # Each has a published figure: a rate of one core, and another one of all.
        then = {x.rate for row in table.rows for x in row.then if row.subject == "go-hello"}
        assert then == {{"one": 42745.15, "all": 128402.88}[table.scenario.cores]}
