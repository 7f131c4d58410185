# SPDX-License-Identifier: MIT
"""Compiles the graded program: a copy of its folder, beside a copy of what it is linked with."""

import re
import shutil
import subprocess
from pathlib import Path

from bench.grade.sandbox import Limits, confined, give
from bench.host.project import ROOT
from bench.records.errors import UserError
from bench.subjects.subject import Subject, discover, server_subject

COMPILER_LIMITS = Limits(address_space=4 << 30, file_bytes=256 << 20)
COMPILE_SECONDS = 30.0
PARTS = ("Makefile", "pyproject.toml")
MOST_BYTES = 1 << 20
"""Of a folder that is graded: sources, and no more."""


class NotBuilt(Exception):
    """It does not compile; the message is the compiler's."""


def folder_of(name: str) -> Path:
    """The folder that is meant: a path, NN_name, or the name alone. Raises UserError."""
    for folder in (Path(name), ROOT / name, *ROOT.glob(f"[0-9][0-9]_{name}")):
        if (folder / "main.c").is_file():
            _require_sources(folder)
            return folder.resolve()
    there = ", ".join(file.parent.name for file in sorted(ROOT.glob("[0-9][0-9]_*/main.c")))
    raise UserError(f"no {name}/main.c here; there are: {there}")


def _require_sources(folder: Path) -> None:
    """Raises UserError where what is read with our rights leads elsewhere, or is large."""
    for path in (folder, folder / "main.c", folder / "tests.toml"):
        if path.is_symlink() or not (path.is_file() or path.is_dir() or not path.exists()):
            raise UserError(f"{path} is a link, or no file: what is graded must lie there")
    if sum(file.lstat().st_size for file in folder.rglob("*")) > MOST_BYTES:
        raise UserError(f"{folder} holds more than {MOST_BYTES >> 20} MB: that is no source")


def require_limits() -> None:
    """Raises UserError where this machine allows less than a program is graded with: else that
    would be taken for a fault of the program."""
    done = subprocess.run(confined(["true"], COMPILER_LIMITS), capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(
            f"no program can be graded here: {done.stderr.strip()}. If your own limits are below "
            "those of a grade (ulimit -Ha shows them), have them raised, or grade as root"
        )


class Built:
    """A copy of the project with this one server, below a folder."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Raises UserError for a folder that cannot be taken for a server's."""
        self._root = folder
        self._folder = source.name if source.name[:2].isdigit() else f"99_{source.name}"
        for name in PARTS:
            shutil.copy(ROOT / name, folder / name)
        shutil.copytree(ROOT / "lib", folder / "lib")
        # Links are copied as links: what they lead to is not read with our rights.
        try:
            shutil.copytree(source, folder / self._folder, symlinks=True)
        except (OSError, shutil.Error) as error:
            raise UserError(f"{source} cannot be copied: {error}") from error
        give(folder)
        found = discover(folder)
        if len(found) != 1:
            raise UserError(f"{source.name} is no name for a server: two digits, _, a word")
        self.name = found[0]

    def mentions(self, words: re.Pattern[str]) -> bool:
        """Whether the sources of the server, comments included, have text of this kind."""
        found = (self._root / self._folder).rglob("*.[ch]")
        sources = [file for file in found if file.is_file() and not file.is_symlink()]
        return any(words.search(source.read_text(errors="replace")) for source in sources)

    def make(
        self, flavour: str, flags: tuple[str, ...] = (), seconds: float = COMPILE_SECONDS
    ) -> tuple[Subject, str]:
        """Compile and link with what `make` has built of lib/ in build/FLAVOUR. Returns the server
        and what the compiler remarked. Raises NotBuilt, UserError."""
        archive = self._root / f"{flavour}.a"
        where = "release" if flavour == "release" else f"{flavour}/objects"
        built = ROOT / "build" / where / "libzerohttpd.a"
        if not built.exists():
            raise UserError(f"{built} is not there: `make grade` builds it first")
        shutil.copy(built, archive)
        give(archive)
        command = [
            *("make", "--no-print-directory", "-s", "-o", str(archive), f"ARCHIVE={archive}"),
            *(f"BUILD={flavour}", f"BIN={flavour}/bin", *flags, f"{flavour}/bin/{self.name}"),
        ]
        try:
            done = subprocess.run(
                confined(command, COMPILER_LIMITS, writes=[self._root]),
                cwd=self._root,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"the compiler was not done in {seconds:.0f} s") from None
        program = self._root / flavour / "bin" / self.name
        if done.returncode != 0 or not program.is_file():
            raise NotBuilt(done.stderr.strip() or "the compiler did not say why")
        return server_subject(self.name, program), done.stderr.strip()
