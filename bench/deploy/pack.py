"""What is sent to the hosts: `python -m bench.deploy.pack FOLDER`, called by the playbook.

Three archives, made anew only when their content has changed:
  - the project: all files that git would keep;
  - the Python packages of requirements/bench.txt, installed, for the load host;
  - the same without those that only draw charts, for the hosts that run an agent.

With the packages a host needs neither pip nor a way to the package index. They fit the hosts that
have this Python (3.11, say) on this kind of processor; any other installs its own.
"""

import fnmatch
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.errors import UserError
from bench.servers import ROOT

REQUIREMENTS = ROOT / "requirements" / "bench.txt"
ONLY_FOR_CHARTS = ("altair*", "narwhals*", "vl_convert*")
"""Nine tenths of the bytes. Charts are drawn where the sweep runs."""


def main() -> int:
    """Make the archives in the folder given; print what they are, as JSON."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(json.dumps({"tree": pack_project(ROOT, folder), **pack_packages(folder)}))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def pack_project(root: Path, folder: Path) -> dict[str, str]:
    """The archive of the project's files: its path, and a digest of what is in it."""
    files = sorted(project_files(root))
    digest = hashlib.sha256()
    for name in files:
        path = root / name
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name} {path.lstat().st_mode:o} {len(content)}\n".encode())
        digest.update(content)
    return _archive(folder / "project.tar.gz", digest.hexdigest(), ((root / n, n) for n in files))


def project_files(root: Path) -> Iterator[str]:
    """The files that belong to the project, whether committed or not: all that git does not
    ignore. Raises UserError."""
    if (root / ".git").exists():
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
        said = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if said.returncode:
            raise UserError(f"git could not list the project's files: {said.stderr.strip()}")
        names: Iterable[str] = filter(None, said.stdout.split("\0"))
    else:
        names = _not_ignored(root)
    # What was deleted is listed until that is committed.
    return (name for name in names if (root / name).is_symlink() or (root / name).is_file())


def _not_ignored(root: Path) -> Iterator[str]:
    """The same for a copy without git. Knows the two kinds of patterns that .gitignore has here:
    /name for the top folder, and name for any."""
    patterns = [line.rstrip("/") for line in (root / ".gitignore").read_text().split()]
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if not any(
            fnmatch.fnmatch("/" + parts[0], pattern)
            or any(fnmatch.fnmatch(part, pattern) for part in parts)
            for pattern in patterns
        ):
            yield "/".join(parts)


def pack_packages(folder: Path) -> dict[str, object]:
    """The two archives of Python packages, and for which hosts they are good. Raises UserError."""
    python, machine = platform.python_version().rpartition(".")[0], platform.machine()
    kind = f"{python} {machine} {ONLY_FOR_CHARTS}\n".encode()
    digest = hashlib.sha256(kind + REQUIREMENTS.read_bytes()).hexdigest()
    load, agent = folder / "packages-load.tar.gz", folder / "packages-agent.tar.gz"
    if not (_is(load, digest) and _is(agent, digest)):
        installed = folder / f"packages.{os.getpid()}"
        shutil.rmtree(installed, ignore_errors=True)
        _install(installed)
        names = sorted(path.name for path in installed.iterdir() if path.name != "bin")
        small = [n for n in names if not any(fnmatch.fnmatch(n, p) for p in ONLY_FOR_CHARTS)]
        _archive(load, digest, ((installed / name, name) for name in names))
        _archive(agent, digest, ((installed / name, name) for name in small))
        shutil.rmtree(installed)
    return {
        "python": python,
        "machine": machine,
        "packages": {
            "load": {"file": str(load), "digest": digest},
            "agent": {"file": str(agent), "digest": digest},
        },
    }


def _install(target: Path) -> None:
    """Everything is pinned in the file, so nothing has to be looked for."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    what = ["--no-deps", "--target", str(target), "--requirement", str(REQUIREMENTS)]
    said = subprocess.run(pip + what, capture_output=True, text=True)
    if said.returncode:
        raise UserError(f"pip could not get the packages for the hosts: {said.stderr.strip()}")


def _is(archive: Path, digest: str) -> bool:
    """Whether the archive is there, whole, with this content."""
    stamp = archive.with_suffix(".digest")
    return archive.exists() and stamp.exists() and stamp.read_text() == digest


def _archive(archive: Path, digest: str, members: Iterable[tuple[Path, str]]) -> dict[str, str]:
    """Make an archive, unless it is there already."""
    if not _is(archive, digest):
        stamp = archive.with_suffix(".digest")
        stamp.unlink(missing_ok=True)
        new = archive.with_suffix(f".{os.getpid()}")
        with tarfile.open(new, "w:gz", compresslevel=6) as tar:
            for path, name in members:
                tar.add(path, name, filter=_of_root)
        new.replace(archive)  # whole at any moment, for whoever sends it just now
        stamp.write_text(digest)
    return {"file": str(archive), "digest": digest}


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Everything belongs to root on the hosts, and everybody there may read it."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


if __name__ == "__main__":
    sys.exit(main())
