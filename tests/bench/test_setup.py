# SPDX-License-Identifier: MIT
"""scripts/setup.sh: which checkout's command it leaves in .venv."""

import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from bench.host.project import ROOT

PACKAGES = Path(sysconfig.get_path("purelib"))
OURS = ("pyproject.toml", "scripts", "requirements", "bench", "lab")


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """Two of them, with what setup.sh reads; the first has a .venv, for which nothing is fetched:
    pip and setuptools are links to ours."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        for name in OURS:
            (folder / name).symlink_to(ROOT / name)
        # Not as a link: the script works in the folder above itself.
        (folder / "scripts").unlink()
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        for package in ("bench", "lab"):
            (folder / package).unlink()
            (folder / package).mkdir()
            (folder / package / "__init__.py").write_text("")
    venv.EnvBuilder(symlinks=True).create(one / ".venv")
    place = next((one / ".venv").glob("lib/python*/site-packages"))
    for tool in ("pip*", "setuptools*", "*distutils*"):
        for found in PACKAGES.glob(tool):
            (place / found.name).symlink_to(found)
    for stamp in (".complete", ".installed-bench"):
        shutil.copy(ROOT / ".venv" / stamp, one / ".venv")
    return one, other


def installed_by(folder: Path) -> str:
    """Where bench lies for who calls the command there, once setup.sh has run."""
    subprocess.run(["scripts/setup.sh", "read"], cwd=folder, check=True)
    assert (folder / ".venv" / "bin" / "zerohttpd").exists()
    python = folder / ".venv" / "bin" / "python"
    asked = [python, "-c", "import bench; print(bench.__file__)"]
    return subprocess.run(asked, cwd="/", check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "linked"])
def test_a_venv_of_another_checkout_runs_this_one(
    checkouts: tuple[Path, Path], copied: bool
) -> None:
    """Else `make bench` would measure the other's sources, and say nothing."""
    one, other = checkouts
    assert installed_by(one) == str(one / "bench" / "__init__.py")
    if copied:
        shutil.copytree(one / ".venv", other / ".venv", symlinks=True)
    else:
        (other / ".venv").symlink_to(one / ".venv")
    assert installed_by(other) == str(other / "bench" / "__init__.py")
    assert installed_by(one) == str(one / "bench" / "__init__.py")


def test_where_it_is_installed_nothing_is_done(checkouts: tuple[Path, Path]) -> None:
    """It runs before each `make bench`."""
    one, _ = checkouts
    installed_by(one)
    command = one / ".venv" / "bin" / "zerohttpd"
    before = command.stat().st_mtime_ns
    installed_by(one)
    assert command.stat().st_mtime_ns == before
