# SPDX-License-Identifier: MIT
"""The options that choose what is tested (e2e/conftest.py uses most of them); the order of tests.

pytest loads this file before it reads its command line (addopts in pyproject.toml). A conftest.py
is loaded too late: for `--server epoll`, pytest would report an unknown option, and take the server
./epoll for a test file.

The tests start git and the project's programs without the variables of scripts/foreign-variables.
"""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from bench.records.inherited import forget_foreign_variables
from bench.subjects.subject import discover

forget_foreign_variables()
REPOSITORY = Path(__file__).resolve().parents[1]
WAITING = {REPOSITORY / "tests" / "e2e", REPOSITORY / "tests" / "bench" / "grade"}
"""Tests of servers and of the grader mostly wait for clocks; other tests mostly compute."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Reject unknown servers. Report each failure when it happens, so that an interrupted run
    reports it, too."""
    known = discover(REPOSITORY)
    if unknown := [name for name in config.getoption("--server") if name not in known]:
        raise pytest.UsageError(
            f"--server: no such server: {', '.join(unknown)}; there are: {', '.join(known)}"
        )
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NameFailures(terminal), "name-failures")


class NameFailures:
    """Writes a line for each test that fails, below the dots."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.write_line(f"\n{report.when} of {report.nodeid} failed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --commit and without files or -k, leave out slow tests. Order the tests for xdist."""
    is_named = config.args_source != pytest.Config.ArgsSource.TESTPATHS
    if config.getoption("--commit") and not is_named and not config.getoption("keyword"):
        config.hook.pytest_deselected(items=[item for item in items if _is_slow(item)])
        items[:] = [item for item in items if not _is_slow(item)]
    _mix(items)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _group(item: pytest.Item) -> str:
    """Return the test's group, which xdist runs in one process; without a group, the test's ID."""
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else item.nodeid


def _mix(items: list[pytest.Item]) -> None:
    """Spread tests that wait and tests that compute evenly over the run, so that the processors are
    always busy. Large groups of each come first. The slow tests begin in the first four fifths of
    the run, so that no slow test runs last."""
    slow = {_group(item) for item in items if _is_slow(item)}
    kinds: dict[tuple[bool, bool], Counter[str]] = defaultdict(Counter)
    for item in items:
        waits = not WAITING.isdisjoint(item.path.parents)
        kinds[waits, _group(item) in slow][_group(item)] += 1
    places = {
        group: ((0.8 if is_slow else 1) * place / len(sizes), group)
        for (_, is_slow), sizes in kinds.items()
        for place, (group, _) in enumerate(sizes.most_common())
    }
    items.sort(key=lambda item: places[_group(item)])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("servers")
    group.addoption(
        "--server",
        action="append",
        default=[],
        metavar="NAME",
        help="test this server only (may be given several times); default: every server found",
    )
    group.addoption(
        "--every-server",
        action="store_true",
        help="test the code that all servers share (HTTP syntax, pages, files) in each of them; "
        "default: in one server with blocking I/O and one with an event loop, or in one server "
        "for each way of waiting for Redis",
    )
    group.addoption(
        "--commit",
        action="store_true",
        help="leave out the tests with the mark slow, unless files or -k are given",
    )
    group.addoption(
        "--bin-dir",
        default=str(REPOSITORY),
        metavar="DIR",
        help="folder of the executables (build/debug, build/tsan for the sanitizers); "
        "default: the top folder",
    )
