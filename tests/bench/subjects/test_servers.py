# SPDX-License-Identifier: MIT
"""Servers are found in the folder listing."""

from pathlib import Path

import pytest

from bench.records.errors import UserError
from bench.subjects.subject import discover, select


def test_an_eighth_is_found_by_itself(tmp_path: Path) -> None:
    for name in ("07_epoll", "01_iterative", "08_my-own", "lib", "09_empty", "docs_1"):
        (tmp_path / name).mkdir()
        if name != "09_empty":
            (tmp_path / name / "main.c").touch()
    assert discover(tmp_path) == ["iterative", "epoll", "my-own"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder in which all servers are built but one."""
    for name in discover():
        if name != "forking":
            (tmp_path / name).touch(mode=0o755)
    return tmp_path


def test_names_choose_and_order(programs: Path) -> None:
    found = select(["poll", "iterative", "poll"], programs=programs)
    assert [(one.name, one.executable) for one in found] == [
        ("poll", programs / "poll"),
        ("iterative", programs / "iterative"),
    ]


def test_unknown_names_are_answered_with_the_known(programs: Path) -> None:
    with pytest.raises(UserError, match=r"unknown servers: nobody, nothing\. Known: iterative"):
        select(["epoll", "nobody", "nothing"], programs=programs)


def test_what_is_not_built(programs: Path) -> None:
    with pytest.raises(UserError, match=r"not built yet: forking\. Run: make all"):
        select(None, programs=programs)
