# SPDX-License-Identifier: MIT
"""Whole robustness tests, each in its own process."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.host.project import ROOT
from bench.records.torture import Record, load
from bench.torture.ground import MARK, why_no_network

from ..commands import run
from ..whole_sweep import Marked, marked, needs_a_sweep, results_in, wait_for

pytestmark = needs_a_sweep


class Torture(Marked):
    def __init__(self, results: Path, *words: str) -> None:
        super().__init__("torture", "--results", results, *words)
        self._results = results

    def content(self) -> dict[str, Any] | None:
        """Return the results that are written so far; None without a file."""
        return results_in(self._results, "torture.json")

    def record(self) -> Record:
        return load(next(self._results.glob("torture-*")))


@pytest.mark.slow
def test_a_robustness_test_stores_its_results(tmp_path: Path) -> None:
    words = ("--servers", "epoll,iterative", "--attacks", "connect-only,children-killed")
    table = tmp_path / "table.md"
    torture = Torture(tmp_path / "r", *words, "--seconds", "0.3", "--markdown", str(table))
    said = torture.end()
    record = torture.record()
    assert record.state == "complete"
    assert record.subjects == ["epoll", "iterative"]
    silent = [cell for cell in record.cells if cell.attack == "connect-only"]
    assert all(cell.before and cell.before.rate > 0 for cell in silent)
    assert all(cell.remarks.answered > 0 == cell.remarks.missing for cell in silent)
    others = [cell.reason for cell in record.cells if cell.attack == "children-killed"]
    assert others == ["has only one process"] * 2
    assert "every promise was kept" in said
    folder = next((tmp_path / "r").glob("torture-*"))
    assert {file.name for file in folder.iterdir()} == {
        "torture.json",
        "torture.html",
        "torture.md",
    }
    assert table.read_text() == (folder / "torture.md").read_text()


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_keeps_what_there_is(tmp_path: Path) -> None:
    torture = Torture(tmp_path, "--servers", "epoll,preforking", "--attacks", "slow-heads,flood")
    wait_for(lambda: (torture.content() or {}).get("cells"), "no result was written")
    torture.process.send_signal(signal.SIGINT)
    said = torture.end(130)
    assert torture.record().state == "interrupted"
    assert "The robustness test was interrupted" in said
    assert next(tmp_path.glob("*/torture.html")).stat().st_size > 1000


@pytest.mark.slow
def test_a_killed_test_leaves_no_process(tmp_path: Path) -> None:
    torture = Torture(tmp_path, "--servers", "epoll", "--attacks", "slow-heads", "--seconds", "9")
    wait_for(lambda: is_serving(torture.mark), "the server was not started")
    torture.process.kill()
    torture.end(-signal.SIGKILL)


def is_serving(mark: str) -> bool:
    """Return whether one of the processes with a mark is the server."""
    return any(words.startswith(str(ROOT / "epoll")) for _, words in marked(mark))


def test_the_end_of_the_time_is_reported(tmp_path: Path) -> None:
    words = ("--attacks", "connect-only,idle", "--seconds", "5", "--minutes", "0.1")
    torture = Torture(tmp_path, "--servers", "epoll,poll", *words)
    said = torture.end()
    record = torture.record()
    assert record.state == "out of time"
    assert [cell.reached for cell in record.cells][-1] is False
    assert "The time limit was reached before" in said


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_network()), reason=why_no_network())
def test_the_line_is_slow(tmp_path: Path) -> None:
    """A line of 8 Mbit/s allows 12 downloads of 80 KB per second; loopback allows thousands."""
    words = ("--servers", "epoll", "--attacks", "slow-line", "--seconds", "2")
    torture = Torture(tmp_path, *words)
    torture.end()
    crowd = torture.record().cells[0].crowd
    assert 0 < crowd.answers["good"] < 200
    assert crowd.answers["failed"] == 0


def test_without_root_there_is_no_line(tmp_path: Path) -> None:
    """Without root, the robustness test reports that there is no slow line, and continues. If root
    runs this test, another user's process checks only the message."""
    if why_no_network() == "" and MARK in os.environ:
        pytest.skip("these tests already run in a network namespace")
    if os.geteuid() != 0:
        torture = Torture(tmp_path, "--servers", "epoll", "--attacks", "slow-line")
        assert "network namespaces need root" in torture.end()
        return
    # Import first: another user may not enter this folder if it is below /root.
    code = "import os; from bench.torture.ground import why_no_network as w; os.setuid(65534); "
    said = run(sys.executable, "-c", code + "print(w())")
    assert said.stdout.strip() == "network namespaces need root"
