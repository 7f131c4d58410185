# SPDX-License-Identifier: MIT
"""Pack the files for the hosts.

The playbook calls `python -m bench.deploy.pack FOLDER`.
The program makes three archives, and replaces an archive only if its content has changed:
  - the project: the files in git, and new source files that all users may read;
  - for the load host, the installed Python packages of requirements/bench.txt;
  - for the hosts with an agent, the same packages except packages that only draw charts.

A host with these packages needs neither pip nor access to the package index. The packages are for
hosts with this machine's version of Python and type of processor; other hosts install their own.
"""

import fnmatch
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.records.inherited import forget_foreign_variables
from bench.records.store import Json

REQUIREMENTS = ROOT / "requirements" / "bench.txt"
ONLY_FOR_CHARTS = ("vl_convert*",)
"""Packages that only draw charts (90 % of the bytes). Only the host that runs the sweep draws
charts."""
SOURCE_FOLDERS = (
    *("[0-9][0-9]_*", "lib", "ops", "baselines", "bench", "public", "templates", "scripts"),
    *("course", "deploy", "requirements"),
)
SOURCE_FILES = ("Makefile", "redirects", "pyproject.toml")


def main(arguments: Sequence[str]) -> int:
    """Make the archives in the folder that `arguments` names; print their description as JSON."""
    forget_foreign_variables()
    folder = Path(arguments[0]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(json.dumps({"tree": pack_project(ROOT, folder), **pack_packages(folder)}))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def pack_project(root: Path, folder: Path) -> dict[str, str]:
    """Pack the project's files. Return the archive's path and a digest of its content."""
    files = sorted(project_files(root))
    if not files:
        raise UserError(f"other users cannot read any file in {root}; run: chmod -R go+rX {root}")
    digest = hashlib.sha256()
    for name in files:
        path = root / name
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name} {path.lstat().st_mode:o} {len(content)}\n".encode())
        digest.update(content)
    return _archive(folder / "project.tar.gz", digest.hexdigest(), ((root / n, n) for n in files))


def project_files(root: Path, *, only_public: bool = True) -> Iterator[str]:
    """Yield the files that belong to the project: the files in git, and new files. In a copy
    without a repository all files are new. A new file may be private. So with `only_public`, omit
    new files that are no sources or that not all users may read. Raises UserError."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-git-") as empty:
        where = ["-c", "safe.directory=*"]
        if not (root / ".git").exists():  # .gitignore also applies here
            _git(root, f"--git-dir={empty}", "init", "--quiet")
            where += [f"--git-dir={empty}", f"--work-tree={root}"]
        listed = [*where, "ls-files", "-z"]
        known = _git(root, *listed, "--cached").split("\0")[:-1]
        new = _git(root, *listed, "--others", "--exclude-standard").split("\0")[:-1]
    # Git lists a deleted file until the deletion is staged.
    yield from (name for name in known if (root / name).is_symlink() or (root / name).is_file())
    for name in new:
        if not only_public or (_is_source(name) and _is_public(root / name)):
            yield name


def _git(root: Path, *words: str) -> str:
    try:
        said = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"git is needed to list the project's files: {error}") from error
    if said.returncode:
        raise UserError(f"git could not list the project's files: {said.stderr.strip()}")
    return said.stdout


def _is_source(name: str) -> bool:
    folder, slash, _ = name.partition("/")
    if not slash:
        return name in SOURCE_FILES
    return any(fnmatch.fnmatch(folder, pattern) for pattern in SOURCE_FOLDERS)


def _is_public(path: Path) -> bool:
    """Return whether all users may read the file here, as they may read its copy on the hosts."""
    mode = path.lstat().st_mode
    return (stat.S_ISREG(mode) and mode & 0o044 == 0o044) or stat.S_ISLNK(mode)


def pack_packages(folder: Path) -> dict[str, Json]:
    """Pack the Python packages. Return the two archives, and the Python version and the processor
    of the hosts that can use them. Raises UserError."""
    python, machine = platform.python_version().rpartition(".")[0], platform.machine()
    fits = f"{python} {machine} {ONLY_FOR_CHARTS}\n".encode()
    digest = hashlib.sha256(fits + REQUIREMENTS.read_bytes()).hexdigest()
    archives = {kind: folder / f"packages-{kind}.tar.gz" for kind in ("load", "agent")}
    if not all(_is(archive, digest) for archive in archives.values()):
        installed = folder / f"packages.{os.getpid()}"
        shutil.rmtree(installed, ignore_errors=True)
        _install(installed)
        names = sorted(path.name for path in installed.iterdir() if path.name != "bin")
        small = [n for n in names if not any(fnmatch.fnmatch(n, p) for p in ONLY_FOR_CHARTS)]
        for archive, packed in zip(archives.values(), (names, small), strict=True):
            _archive(archive, digest, ((installed / name, name) for name in packed))
        shutil.rmtree(installed)
    packages = {kind: {"file": str(file), "digest": digest} for kind, file in archives.items()}
    return {"python": python, "machine": machine, "packages": packages}


def _install(target: Path) -> None:
    """Install the packages of REQUIREMENTS, which pins all versions, into a folder."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    pip += ["--no-user"]  # overrides `user = yes` in a pip.conf
    what = ["--no-deps", "--target", str(target), "--requirement", str(REQUIREMENTS)]
    said = subprocess.run(pip + what, capture_output=True, text=True)
    if said.returncode:
        raise UserError(f"pip could not get the packages for the hosts: {said.stderr.strip()}")


def _is(archive: Path, digest: str) -> bool:
    """Return whether the archive exists, is complete and has this content."""
    stamp = archive.with_suffix(".digest")
    return archive.exists() and stamp.exists() and stamp.read_text() == digest


def _archive(archive: Path, digest: str, members: Iterable[tuple[Path, str]]) -> dict[str, str]:
    """Make an archive unless it exists with this content. Return its path and digest."""
    if not _is(archive, digest):
        stamp = archive.with_suffix(".digest")
        stamp.unlink(missing_ok=True)
        new = archive.with_suffix(f".{os.getpid()}")
        with tarfile.open(new, "w:gz", compresslevel=1) as tar:
            for path, name in members:
                tar.add(path, name, filter=of_root)
        new.replace(archive)  # atomic: another process may be sending the archive
        stamp.write_text(digest)
    return {"file": str(archive), "digest": digest}


def of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive with root as owner and read permission for all users."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
