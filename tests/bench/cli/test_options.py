# SPDX-License-Identifier: MIT
"""Wrong values on the command line are rejected. Takes less than a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.main import main
from bench.faults import copying
from bench.timeline.command import make

WRONG = {
    "sweep --levels abc": "bench: --levels: 'abc' is not a number; give e.g. 20,100,500",
    "sweep --levels 20,1.5": "bench: --levels: '1.5' is not a whole number; give e.g. 20,100,500",
    "sweep --runs 0": "bench: --runs: '0' is not above 0; give e.g. 3",
    "sweep --idle x": "bench: --idle: 'x' is not a number",
    "hosts --inventory /dev/null --levels abc": "bench: ",
    "sweep --probe x": "bench: --probe: unknown probe: x. Known: closed, parked, ",
    "measure --only nothing": "measure: unknown part: nothing. Known: redirect, ",
    "measure --servers apache": "measure: unknown server: apache. Known: ",
    "measure --requests x": "measure: --requests: 'x' is not a number; give e.g. 8000",
    "cost --runs x": "cost: --runs: 'x' is not a number; give e.g. 5",
    "experiment edge --runs x": "experiment: --runs: 'x' is not a number; give e.g. 7",
    "run measure --only nothing": "run: unknown part: nothing. Known: redirect, ",
    "torture --seconds x": "torture: --seconds: 'x' is not a number from 0.3 to 60; give e.g. 0.8",
    "serve epoll --port x": "serve: --port: 'x' is not a port number from 0 to 65535",
    "report . --capacity x": "report: --capacity: 'x' is not a number; give e.g. 4,40,400",
    "report nothere": "report: the file or folder nothere does not exist; give the folder of a",
    "peers --list x": "peers: unknown study: x. Known: ",
}


@pytest.mark.parametrize("words", WRONG)
def test_the_message_names_the_option_and_the_value(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    said = capsys.readouterr()
    assert said.err.startswith(WRONG[words])
    assert "Making a page" not in said.out


def test_a_timeline_of_one_server_does_not_replace_that_of_all(tmp_path: Path) -> None:
    every = make(None, "eight", tmp_path, recorded=True)
    one = make(["epoll"], "eight", tmp_path, recorded=True)
    assert (every.name, one.name) == ("eight.html", "eight-epoll.html")


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        *(("07_epoll/main.c", True), ("lib/config.h", True), ("Makefile", True)),
        *((".ci/run", True), ("08_mine/main.c", False), ("notes/private", False)),
    ],
)
def test_a_copy_has_the_folders_of_the_project_only(name: str, copied: bool) -> None:
    assert copying._is_own(name) == copied
