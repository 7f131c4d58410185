# SPDX-License-Identifier: MIT
"""Build the site that the tested servers serve: a copy of the project's site, with more files."""

import hashlib
import os
import shutil
import socket
import time
from pathlib import Path

from bench.host.project import toml_of

from .harness import limit
from .timing import wait_until

MB = 1 << 20
SECRET = b"this must never be seen from outside"
INSIDE = b"inside\n"
BIG_SIZE = 110 * MB
HUGE_SIZE = 5 * 1024 * MB
HUGE_MARK = b"at the far end"
# The time of the files: past, for strong validators; even, because some file systems round to 2 s.
MODIFIED = 1_700_000_000
DATA = toml_of(Path(__file__).with_name("site.toml"))


def eighty_kilobytes() -> bytes:
    """Return 80,000 bytes without repetition; the result is always the same."""
    blocks = (hashlib.sha256(str(i).encode()).digest() for i in range(2500))
    return b"".join(blocks)


def big_pattern(offset: int, size: int) -> bytes:
    """Return the content of the big file at an offset. Each megabyte has its number, then zeros."""
    numbers = range(offset // MB, (offset + size) // MB + 1)
    return b"".join(b"%08d" % n + bytes(MB - 8) for n in numbers)[offset % MB :][:size]


def build_project_site(root: Path, repository: Path) -> Path:
    """Copy the project's own site to `root`; return `root`."""
    for name in ("public", "templates"):
        shutil.copytree(repository / name, root / name, symlinks=True)
    shutil.copy(repository / "redirects", root)
    return root


def build_site(root: Path, repository: Path) -> Path:
    """Fill `root` with the project's site, a simpler template and more files; return `root`."""
    build_project_site(root, repository)
    with (root / "redirects").open("a", encoding="utf-8") as redirects:
        redirects.write(DATA["redirects"])
    (root / "templates" / "guestbook" / "index.html").write_text(DATA["template"], encoding="utf-8")
    folder = root / "public" / "t"
    folder.mkdir()
    _write_files(folder)
    _write_traps(root, folder)
    return root


def wait_until_settled(site: Path) -> None:
    """Wait until the servers may cache changed files: FILE_SETTLE_TIME in ops/limits.h."""
    files = [*site.glob("public/t/digits.txt"), *site.glob("templates/*/*")]
    changed = max(file.stat().st_ctime for file in files)
    settled = changed + limit("FILE_SETTLE_TIME") + 1  # the servers count whole seconds
    wait_until(lambda: time.time() > settled, "the files have settled")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (MODIFIED, MODIFIED))


def _write_files(folder: Path) -> None:
    for name in DATA["types"]:
        _write(folder / "types" / name, b"content of " + name.encode())
    _write(folder / "digits.txt", b"0123456789")
    _write(folder / "empty.txt", b"")
    _write(folder / "80k.bin", eighty_kilobytes())
    for name in DATA["inside"]:
        _write(folder / name, INSIDE)
    _write(folder / "sub" / "index.html", b"<!DOCTYPE html><title>sub</title>")
    _write(folder / "sub" / "page.html", b"<!DOCTYPE html><title>page</title>")
    with (folder / "big.bin").open("wb") as big:
        big.truncate(BIG_SIZE)
        for number in range(BIG_SIZE // MB):
            big.seek(number * MB)
            big.write(b"%08d" % number)
    with (folder / "huge.bin").open("wb") as huge:
        huge.seek(HUGE_SIZE - len(HUGE_MARK))
        huge.write(HUGE_MARK)


def _write_traps(root: Path, folder: Path) -> None:
    """Write files that must never be served, and the symbolic links of site.toml."""
    _write(root / "secret.txt", SECRET)
    _write(root / "public-secret" / "secret.txt", SECRET)
    for name, target in DATA["symbolic-links"].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target.replace("ROOT", str(root)))
    odd = folder / "odd"
    (odd / "folder-index" / "index.html").mkdir(parents=True)
    (odd / "fifo-index").mkdir()
    for name in ("fifo", "fifo.html", "fifo-index/index.html"):
        os.mkfifo(odd / name)
    here = Path.cwd()
    os.chdir(odd)  # the path of a Unix socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
