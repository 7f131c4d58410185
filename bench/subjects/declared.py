# SPDX-License-Identifier: MIT
"""Read the declarations of the reference servers, bench/references/NAME/`reference.toml`.

A declaration has the server's description, origin, command and workloads, the settings for a fair
comparison, and the expected processes and system calls. The declaration in bench/references/nginx/
explains all keys.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.host.process import last_line
from bench.host.programs import completed, find_program
from bench.host.project import ROOT, declaration
from bench.records.errors import UserError

REFERENCES = ROOT / "bench" / "references"
BUILD = ROOT / "build" / "references"
OUR_BUILD = {"BUILD": str(BUILD)}
BUILD_SECONDS = 300
LOOK_SECONDS = 20
_OTHERS = re.compile(r"^\.\./[^/]+/")
"""Matches `../NAME/`, the beginning of a file name in the folder of another reference server."""
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class LeftOut(UserError):
    """A server cannot be measured here. The message gives the reason and usually the fix."""


Keeps = Literal["yes", "HTTP/1.1", "no"]
"""Whether a server keeps a connection open at the client's request: in both versions of HTTP, only
in HTTP/1.1 (ab sends HTTP/1.0, wrk HTTP/1.1), or never."""


class Serving(BaseModel):
    """Facts about a serving reference server, which a test checks. The numbers are also in
    docs/reference/reference-servers.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: tuple[int, int]
    threads: tuple[int, int]
    """`processes` and `threads`: the minimum and the maximum number."""
    calls: tuple[str, ...]
    """System calls that identify the server's architecture."""


class Fetched(BaseModel):
    """Files that a build downloads from the registry of a language if they are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    """The name of the download; servers with the same name share the download."""
    megabytes: float
    there: tuple[str, ...]
    """A command that succeeds if the files exist; it runs offline in the server's folder."""


class Reference(BaseModel):
    """A declared reference server: the content of its `reference.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    folder: Path
    about: str
    language: str
    origin: str
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...]
    install: str = ""
    version: tuple[str, ...]
    files: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    build_seconds: int = BUILD_SECONDS
    fetches: tuple[Fetched, ...] = ()
    command: tuple[str, ...]
    profile: str = ""
    workloads: tuple[str, ...]
    keeps: Keeps
    closes: str = ""
    warm_up: int = 0
    ready: str = ""
    stalled_by: Literal["none", "one", "workers"] | None = None
    architecture: str | None = None
    resembles: tuple[str, ...]
    how: str
    settings: tuple[str, ...] = Field(min_length=1)
    """A line for each changed setting; without changes, a line says so."""
    serving: Serving

    @model_validator(mode="after")
    def _complete(self) -> "Reference":
        if not (self.packages or self.install):
            raise ValueError("packages or install is required to install the server")
        if (self.keeps == "yes") == bool(self.closes):
            raise ValueError('closes: required if keeps is not "yes", otherwise not allowed')
        return self

    @property
    def needs(self) -> str:
        """Return in words what the user must install."""
        where = "if Debian or Ubuntu has it, `make peers` asks and installs it"
        return self.install or f"{' '.join(self.packages)} ({where})"

    def lacks(self) -> bool:
        """Return whether one of the server's programs is missing."""
        return not all(_is_there(program) for program in fill(self.programs, OUR_BUILD))

    def to_fetch(self) -> dict[str, float]:
        """Return the missing downloads of the build: megabytes by name."""
        return {one.what: one.megabytes for one in self.fetches if not self._sees(one.there)}

    def prepare(self) -> None:
        """Build the server if necessary. Raise LeftOut if this is not possible."""
        if self.lacks():
            raise LeftOut(f"{self.name} is left out: install {self.needs}")
        if self.build:
            BUILD.mkdir(parents=True, exist_ok=True)
            self._build(fill(self.build, {**OUR_BUILD, "ROOT": str(ROOT)}))

    def command_line(self, folder: Path, words: Mapping[str, str]) -> list[str]:
        """Copy the server's files into `folder` and return its command. `words`: the values for the
        @WORDS@ in files and command."""
        ours = limits_of((ROOT / "lib" / "config.h").read_text()) | OUR_BUILD
        known = {**ours, "ROOT": str(ROOT), "FOLDER": str(folder), **words}
        folder.chmod(0o755)  # a server that drops root privileges must be able to read its files
        for name in self.files:
            copy = folder / _OTHERS.sub("", name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(fill([(self.folder / name).read_text()], known)[0])
        program, *rest = fill(self.command, known)
        return [find_program(program) or program, *rest]

    def _sees(self, command: Sequence[str]) -> bool:
        try:
            return completed(fill(command, OUR_BUILD), LOOK_SECONDS, self.folder).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _build(self, command: list[str]) -> None:
        try:
            done = completed(command, self.build_seconds, self.folder)
        except subprocess.TimeoutExpired:
            took = f"longer than {self.build_seconds // 60} minutes"
            raise LeftOut(f"{self.name} is left out: its build took {took}") from None
        if done.returncode != 0:
            why = f"its build failed ({last_line(done.stderr) or 'no error message'})"
            raise LeftOut(f"{self.name} is left out: {why}; it needs {self.needs}")


def _is_there(program: str) -> bool:
    """Return whether a program is installed, or whether a file matches a pattern `/...`."""
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return find_program(program) is not None


def names() -> list[str]:
    """Return the names of all declared reference servers."""
    return sorted(file.parent.name for file in REFERENCES.glob("*/reference.toml"))


def reference(name: str, parent: Path = REFERENCES) -> Reference:
    """Return the reference server `name`. Raise UserError if the declaration is not valid."""
    file = parent / name / "reference.toml"
    return declaration(Reference, file, name=name, folder=file.parent)


def limits_of(config: str) -> dict[str, str]:
    """Return the definitions in lib/config.h whose values are plain numbers, by name."""
    return dict(_LIMIT.findall(config))


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Return the texts, with a value in place of each known @WORD@."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), text) for text in texts]
