# SPDX-License-Identifier: MIT
"""Servers are found in the folder listing."""

from pathlib import Path

import pytest

from bench.records.errors import UserError
from bench.subjects.servers import discover, require_built, select


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("07_epoll", "01_iterative", "08_my-own", "lib", "09_empty", "docs_1"):
        (tmp_path / name).mkdir()
        if name != "09_empty":
            (tmp_path / name / "main.c").touch()
    return tmp_path


def test_an_eighth_is_found_by_itself(project: Path) -> None:
    assert [s.name for s in discover(project)] == ["iterative", "epoll", "my-own"]


def test_names_choose_and_order(project: Path) -> None:
    known = discover(project)
    assert [s.name for s in select(known, ["my-own", "iterative", "my-own"])] == [
        "my-own",
        "iterative",
    ]
    assert select(known, None) == known


def test_unknown_names_are_answered_with_the_known(project: Path) -> None:
    with pytest.raises(UserError, match=r"apache, nginx\. Known: iterative, epoll, my-own"):
        select(discover(project), ["epoll", "apache", "nginx"])


def test_what_is_not_built(project: Path) -> None:
    servers = discover(project)
    (project / "epoll").touch(mode=0o755)
    with pytest.raises(UserError, match="iterative, my-own"):
        require_built(servers)
    require_built(select(servers, ["epoll"]))
