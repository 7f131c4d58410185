# SPDX-License-Identifier: MIT
"""The version that distinguishes two checkouts."""

from pathlib import Path

import pytest

from bench.deploy.pack import SOURCE_FILES, SOURCE_FOLDERS
from bench.host.project import SOURCES, digest_of

FILES = (
    "bench/cell.py",
    "bench/host/accounting.py",
    "bench/report/study.py",
    "bench/load/wrk.lua",
    "bench/studies/now.toml",
    "bench/strangers/go/main.go",
    "floors/floor.h",
    "lib/config.h",
    "lib/net/server.c",
    "07_epoll/main.c",
    "Makefile",
    "course/experiments/no-cache.patch",
    "public/files/small.txt",
    "redirects",
    "templates/guestbook/index.html",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("changed", FILES)
def test_a_change_anywhere_is_another_version(changed: str, project: Path) -> None:
    """Any change is another version: a host that counts CPU time differently must not be
    accepted."""
    before = digest_of(project)
    assert digest_of(project) == before
    (project / changed).write_text("changed")
    assert digest_of(project) != before


def test_what_python_compiled_is_no_other_version(project: Path) -> None:
    """Compiled Python files change no version: otherwise a host that has imported more would be
    refused."""
    before = digest_of(project)
    for folder in ("bench", "bench/studies", "bench/strangers", "floors"):
        (project / folder / "__pycache__").mkdir()
        (project / folder / "__pycache__" / "study.cpython-313.pyc").write_bytes(b"\0")
    assert digest_of(project) == before


def test_what_is_asked_of_other_hosts_is_sent_to_them() -> None:
    """New files that git does not know are sent to the hosts: otherwise their version would never
    match."""
    for pattern in SOURCES:
        top = pattern.split("/", maxsplit=1)[0]
        assert top in {*SOURCE_FILES, *SOURCE_FOLDERS, "*"}
