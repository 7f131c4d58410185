# SPDX-License-Identifier: MIT
"""`make new` makes folders that build at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.cli.new import SKELETON, make
from bench.host.project import ROOT, toml_of
from bench.records.errors import UserError

from ..commands import run

ORIGINS = [SKELETON, *(file.parent.name for file in sorted(ROOT.glob("0[1-7]_*/main.c")))]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the files that a server needs to be built."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("lib", "ops", "course"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for folder in ROOT.glob("0[1-7]_*"):
        shutil.copytree(folder, tmp_path / folder.name)
    return tmp_path


@pytest.mark.slow
def test_each_origin_makes_a_folder_that_builds(project: Path) -> None:
    names = []
    for number, origin in enumerate(ORIGINS, 10):
        name = f"mine-{number}"
        folder = make(f"{number}_{name}", origin, project)
        names.append(name)
        assert f'.name = "{name}"' in (folder / "main.c").read_text()
        assert f" * {name}: " in (folder / "main.c").read_text()
        source = project / ("course/own" if origin == SKELETON else origin)
        assert toml_of(folder / "tests.toml") == toml_of(source / "tests.toml"), "its kind"
    run("make", "-s", "-j2", *names, "CPPFLAGS=-Werror", cwd=project)
    for name in names:
        assert run(project / name, "--help").stdout.startswith(f"usage: {name} ")


@pytest.mark.parametrize(
    ("name", "origin", "why"),
    [
        ("mine", SKELETON, "not a valid name"),
        ("08_../x", SKELETON, "not a valid name"),
        ("08_epoll", SKELETON, "exists already"),
        ("08_mine", "04_nobody", "04_nobody/main.c does not exist"),
    ],
)
def test_what_cannot_be_made_is_refused(project: Path, name: str, origin: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        make(name, origin, project)
