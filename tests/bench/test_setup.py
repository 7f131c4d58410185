# SPDX-License-Identifier: MIT
"""scripts/setup.sh installs the command of this checkout in .venv."""

import hashlib
import re
import shutil
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from bench.host.project import ROOT

from .commands import run

PACKAGES = Path(sysconfig.get_path("purelib"))
OURS = ("pyproject.toml", "scripts", "requirements", "bench", "lab")


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """Return two checkouts with the files that setup.sh reads. The first has a .venv that needs no
    download, because pip and setuptools are links."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        for name in OURS:
            (folder / name).symlink_to(ROOT / name)
        # A copy: through a link, a script would work in the original checkout.
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
    """Run setup.sh in a checkout, and return the path of the bench that its command uses."""
    run("scripts/setup.sh", "read", cwd=folder)
    assert (folder / ".venv" / "bin" / "zerohttpd").exists()
    python = folder / ".venv" / "bin" / "python"
    return run(python, "-c", "import bench; print(bench.__file__)", cwd=Path("/")).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "linked"])
def test_a_venv_of_another_checkout_runs_this_one(
    checkouts: tuple[Path, Path], copied: bool
) -> None:
    """After setup.sh, a copied or linked .venv runs this checkout, and not another checkout. If the
    .venv was copied, a second call of setup.sh in the first checkout changes nothing."""
    one, other = checkouts
    assert installed_by(one) == str(one / "bench" / "__init__.py")
    before = (one / ".venv" / "bin" / "zerohttpd").stat().st_mtime_ns
    if copied:
        shutil.copytree(one / ".venv", other / ".venv", symlinks=True)
    else:
        (other / ".venv").symlink_to(one / ".venv")
    assert installed_by(other) == str(other / "bench" / "__init__.py")
    assert installed_by(one) == str(one / "bench" / "__init__.py")
    after = (one / ".venv" / "bin" / "zerohttpd").stat().st_mtime_ns
    assert after == before or not copied


def wheel(folder: Path) -> Path:
    """Write a package with one module, `tiny`, and return its path."""
    path = folder / "tiny-1-py3-none-any.whl"
    info = "tiny-1.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("tiny.py", "")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "tiny.py,,\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["user = yes", "target = {}"])
def test_pip_installs_into_venv_whatever_its_configuration_says(
    checkouts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """setup.sh installs into .venv although a pip.conf names another folder. 3 s each."""
    one, _ = checkouts
    package = wheel(tmp_path)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    (one / "requirements").unlink()
    (one / "requirements").mkdir()
    (one / "requirements" / "bench.txt").write_text(f"tiny==1 --hash=sha256:{digest}\n")
    elsewhere = tmp_path / "elsewhere"
    lines = f"[global]\nno-index = yes\n[install]\n{setting}\n"
    (tmp_path / "pip.conf").write_text(lines.format(elsewhere))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    installed_by(one)
    (found,) = (one / ".venv").glob("lib/python*/site-packages/tiny.py")
    assert found.is_file()
    assert not elsewhere.exists()


def test_groups_can_be_installed_together() -> None:
    """No two groups pin a package to different versions, because pip installs them in one call."""
    pins: dict[str, set[str]] = {}
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        found = re.findall(r"^([\w.-]+)==(\S+)( ; .*)?", file.read_text(), re.MULTILINE)
        for name, version, marker in found:
            pins.setdefault(f"{name}{marker.strip(chr(92)).strip()}", set()).add(version)
    assert len(pins) > 50
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}
