# SPDX-License-Identifier: MIT
"""Results for reports: recorded results of real sweeps, and generated results."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.records.results import Results
from bench.records.store import load
from bench.report.charts.catalogue import catalogue
from bench.report.page.page import render
from bench.report.study import Study

from .made import everything, several_hosts

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> Results:
    return load(RECORDED / f"{name}.json")


def plain(text: str) -> str:
    """Return a text with plain spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def rendered(results: Results) -> str:
    """Return the HTML page of a report on these results."""
    study = Study(results)
    return render(study, catalogue(study))


def single_server() -> Results:
    """Return the recorded results of version 1, with only one server."""
    results = recorded("version1")
    results.runs = [run for run in results.runs if run.subject == "epoll"]
    results.servers = ["epoll"]
    return results


SOURCES: dict[str, Callable[[], Results]] = {
    "version1": lambda: recorded("version1"),
    "version1_failed": lambda: recorded("version1_failed"),
    "version2": lambda: recorded("version2"),
    "version3": lambda: recorded("version3"),
    "study2013": lambda: recorded("study2013"),
    "single": single_server,
    "everything": everything,
    "hosts": several_hosts,
}


@pytest.fixture(scope="session")
def pages(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Callable[[str], Path]:
    """Return a function that returns the page of a source, rendered once for all processes."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if hasattr(pytestconfig, "workerinput") else own) / "pages"
    folder.mkdir(exist_ok=True)

    def page_of(source: str) -> Path:
        path = folder / f"{source}.html"
        with (folder / f"{source}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_text(rendered(SOURCES[source]()), encoding="utf-8")
        return path

    return page_of
