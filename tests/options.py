# SPDX-License-Identifier: MIT
"""The options that choose what is tested; e2e/conftest.py uses them.

pytest loads this file before it reads its command line (addopts in pyproject.toml). A conftest.py
is loaded later: `--server epoll` would then be an unknown option and a test file, because there is
a file ./epoll.

The tests start programs of the project and git: these do not inherit the user's variables.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.records.inherited import forget_foreign_variables

forget_foreign_variables()
REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Report each failure when it happens, so that an interrupted run has reported it."""
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests if only a commit is tested."""
    is_named = config.args_source != pytest.Config.ArgsSource.TESTPATHS
    if not config.getoption("--commit") or is_named or config.getoption("keyword"):
        return
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    items[:] = [item for item in items if item.get_closest_marker("slow") is None]
    config.hook.pytest_deselected(items=slow)


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
        "default: in one server with blocking I/O and one with an event loop",
    )
    group.addoption(
        "--commit",
        action="store_true",
        help="leave out the tests with the mark slow, unless files or -k name what to run",
    )
    group.addoption(
        "--bin-dir",
        default=str(REPOSITORY),
        metavar="DIR",
        help="folder of the executables (build/debug, build/tsan for the sanitizers); "
        "default: the top folder",
    )
