# SPDX-License-Identifier: MIT
"""Read the declarations of the reference servers, bench/references/NAME/`reference.toml`.

A declaration has the server's description and origin, its command with the port and Redis, its
workloads, the settings for a fair comparison, and its expected processes and system calls.
bench/references/nginx/ explains all keys.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from bench.host.process import last_line
from bench.host.programs import completed, find_program
from bench.host.project import ROOT, declaration
from bench.records.errors import UserError
from bench.records.results import Peer

REFERENCES = ROOT / "bench" / "references"
BUILD = ROOT / "build" / "references"
OUR_BUILD = {"BUILD": str(BUILD)}
BUILD_SECONDS = 300
LOOK_SECONDS = 20
_OTHERS = re.compile(r"^\.\./[^/]+/")
"""Matches a file name in the folder of another reference server."""
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class LeftOut(UserError):
    """A server cannot be measured here; the message says why and what to install."""


Keeps = Literal["yes", "HTTP/1.1", "no"]
"""Whether a server keeps a connection if the client asks for it: with both versions of HTTP, only
with HTTP/1.1 (ab speaks 1.0, wrk 1.1), or never."""


class Serving(BaseModel):
    """The facts that a test checks while a reference server serves;
    docs/reference/reference-servers.md has the same numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: tuple[int, int]
    """The minimum and maximum number of its processes."""
    threads: tuple[int, int]
    """The minimum and maximum number of threads of all processes; each process has at least one."""
    calls: tuple[str, ...]
    """System calls that identify its architecture."""


class Fetched(BaseModel):
    """A download of a build from the registry of its language, unless it is already there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    """Its name; servers that use the same name share the download."""
    megabytes: float
    there: tuple[str, ...]
    """A command in the server's folder that succeeds if it is there. It downloads nothing."""


class Declaration(BaseModel):
    """The content of a `reference.toml`; the one in bench/references/nginx/ explains all keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    settings: tuple[str, ...] = ()
    serving: Serving | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Declaration":
        if not (self.packages or self.install):
            raise ValueError("packages or install is required: where does the server come from?")
        if (self.keeps == "yes") == bool(self.closes):
            raise ValueError('closes: required if keeps is not "yes", otherwise not allowed')
        return self


@dataclass(frozen=True)
class Reference:
    """A declared reference server and the folder of its files."""

    name: str
    said: Declaration
    folder: Path = field(default=Path(), compare=False)

    @property
    def install(self) -> str:
        """Describe what to install."""
        named = " ".join(self.said.packages)
        where = "if Debian or Ubuntu has it, make peers asks and installs it"
        return self.said.install or f"{named} ({where})"

    @property
    def version(self) -> list[str]:
        """Return the command that prints the server's version."""
        return fill(self.said.version, OUR_BUILD)

    def lacks(self) -> bool:
        """Return whether one of the server's programs is missing."""
        return not all(_is_there(program) for program in fill(self.said.programs, OUR_BUILD))

    def to_fetch(self) -> dict[str, float]:
        """Return the megabytes that the build would download, by item."""
        return {one.what: one.megabytes for one in self.said.fetches if not self._sees(one.there)}

    def prepare(self) -> None:
        """Build the server if necessary. Raise LeftOut if a program is missing or this fails."""
        if self.lacks():
            raise LeftOut(f"{self.name} is left out: install {self.install}")
        if self.said.build:
            BUILD.mkdir(parents=True, exist_ok=True)
            self._build(fill(self.said.build, {**OUR_BUILD, "ROOT": str(ROOT)}))

    def command_line(self, folder: Path, words: Mapping[str, str]) -> list[str]:
        """Return the command, after its files are copied into `folder`; `words` has the values of
        this run."""
        known = {
            **limits_of((ROOT / "lib" / "config.h").read_text()),
            "ROOT": str(ROOT),
            **OUR_BUILD,
            "FOLDER": str(folder),
            **words,
        }
        folder.chmod(0o755)  # a server that drops root privileges must be able to read it
        for name in self.said.files:
            copy = folder / _OTHERS.sub("", name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(fill([(self.folder / name).read_text()], known)[0])
        program, *rest = fill(self.said.command, known)
        return [find_program(program) or program, *rest]

    def _sees(self, command: Sequence[str]) -> bool:
        try:
            return completed(fill(command, OUR_BUILD), LOOK_SECONDS, self.folder).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _build(self, command: list[str]) -> None:
        try:
            done = completed(command, self.said.build_seconds, self.folder)
        except subprocess.TimeoutExpired:
            took = f"longer than {self.said.build_seconds // 60} minutes"
            raise LeftOut(f"{self.name} is left out: its build took {took}") from None
        if done.returncode != 0:
            said = last_line(done.stderr) or "no error message"
            needs = f"; it needs {self.install}"
            raise LeftOut(f"{self.name} is left out: its build failed ({said}){needs}")


def _is_there(program: str) -> bool:
    """Return whether a program is installed, or whether a file matches an absolute pattern."""
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return find_program(program) is not None


def names() -> list[str]:
    """Return the names of all declared reference servers."""
    return sorted(file.parent.name for file in REFERENCES.glob("*/reference.toml"))


def reference(name: str, parent: Path = REFERENCES) -> Reference:
    """Return the reference server of this name. Raise UserError if its declaration is not valid."""
    file = parent / name / "reference.toml"
    return Reference(name, declaration(Declaration, file), file.parent)


def limits_of(config: str) -> dict[str, str]:
    """Return the definitions of lib/config.h that are plain numbers, by name."""
    return dict(_LIMIT.findall(config))


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Return the texts after each known @WORD@ is replaced."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), text) for text in texts]


def peer(name: str) -> Peer:
    """Return the declaration of a reference server, for the results."""
    said = reference(name).said
    return Peer.model_validate(said.model_dump(include=set(Peer.model_fields)))
