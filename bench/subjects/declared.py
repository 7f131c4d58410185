# SPDX-License-Identifier: MIT
"""Strangers: programs of others, declared in bench/strangers/NAME/stranger.toml.

The file says what it is and where it comes from, the command, how it is told its port and its
Redis, which workloads it can serve, what was set for fairness, and what the kernel shows of it
while it serves; bench/strangers/nginx/ explains it.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from bench.host.process import last_line
from bench.host.programs import find_program, search_path
from bench.host.project import ROOT, declaration
from bench.records.errors import UserError

STRANGERS = ROOT / "bench" / "strangers"
BUILD = ROOT / "build" / "strangers"
OUR_BUILD = {"BUILD": str(BUILD)}
BUILD_SECONDS = 300
LOOK_SECONDS = 20
_OTHERS = re.compile(r"^\.\./[^/]+/")
"""Of a file: it is that of another stranger."""
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class LeftOut(UserError):
    """Something that cannot be measured here; the message says why and what to install."""


Keeps = Literal["yes", "HTTP/1.1", "no"]
"""Whether it keeps a connection that a client wants to keep: of both versions of HTTP, of the newer
one alone (ab speaks 1.0, wrk 1.1), of none."""


class Serving(BaseModel):
    """What the kernel shows of a stranger while it serves: what docs/peers.md says of it, in
    figures that a test compares with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: tuple[int, int]
    """At least and at most, of all its processes."""
    threads: tuple[int, int]
    """The same, of all processes together; one without threads of its own counts one."""
    calls: tuple[str, ...]
    """System calls that it makes while it serves: the ones that give its architecture away."""


class Fetched(BaseModel):
    """What a build fetches from the registry of its language, unless it is there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    """Whoever else names it shares it."""
    megabytes: float
    there: tuple[str, ...]
    """A command, in the stranger's folder, that ends well where it is there. It fetches nothing."""


class Declaration(BaseModel):
    """A stranger.toml, word for word; bench/strangers/nginx/stranger.toml explains it."""

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
    stalled_by: Literal["nobody", "one", "workers"] | None = None
    architecture: str | None = None
    resembles: tuple[str, ...]
    how: str
    settings: tuple[str, ...] = ()
    serving: Serving | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Declaration":
        if not (self.packages or self.install):
            raise ValueError("neither packages nor install says where it comes from")
        if (self.keeps == "yes") == bool(self.closes):
            raise ValueError("closes: to be said where it does not keep, and only there")
        return self


@dataclass(frozen=True)
class Stranger:
    """A declared stranger, and where its files lie."""

    name: str
    said: Declaration
    folder: Path = field(default=Path(), compare=False)

    @property
    def install(self) -> str:
        """What to install, in words."""
        named = " ".join(self.said.packages)
        where = "where Debian or Ubuntu has it, make peers asks and does it"
        return self.said.install or f"{named} ({where})"

    @property
    def version(self) -> list[str]:
        """The command that prints its version."""
        return fill(self.said.version, OUR_BUILD)

    def lacks(self) -> bool:
        """Whether one of its programs is not here."""
        return not all(_is_there(program) for program in fill(self.said.programs, OUR_BUILD))

    def to_fetch(self) -> dict[str, float]:
        """What its build would fetch: megabytes, by what it is."""
        return {one.what: one.megabytes for one in self.said.fetches if not self._sees(one.there)}

    def prepare(self) -> None:
        """Look for what it needs and build it, if it must be. Raises LeftOut."""
        if self.lacks():
            raise LeftOut(f"{self.name} is left out: install {self.install}")
        if self.said.build:
            BUILD.mkdir(parents=True, exist_ok=True)
            self._build(fill(self.said.build, {**OUR_BUILD, "ROOT": str(ROOT)}))

    def command_line(self, folder: Path, words: Mapping[str, str]) -> list[str]:
        """The command, with its files put into `folder`; `words` are those of the place."""
        known = {
            **limits_of((ROOT / "lib" / "config.h").read_text()),
            "ROOT": str(ROOT),
            **OUR_BUILD,
            "FOLDER": str(folder),
            **words,
        }
        folder.chmod(0o755)  # one that gives up being root must still be able to read in it
        for name in self.said.files:
            copy = folder / _OTHERS.sub("", name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(fill([(self.folder / name).read_text()], known)[0])
        program, *rest = fill(self.said.command, known)
        return [find_program(program) or program, *rest]

    def _sees(self, command: Sequence[str]) -> bool:
        try:
            return self._run(fill(command, OUR_BUILD), LOOK_SECONDS).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _run(self, command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        where = {**os.environ, "PATH": search_path()}
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=seconds, env=where
        )

    def _build(self, command: list[str]) -> None:
        try:
            done = self._run(command, self.said.build_seconds)
        except subprocess.TimeoutExpired:
            took = f"longer than {self.said.build_seconds // 60} minutes"
            raise LeftOut(f"{self.name} is left out: its build took {took}") from None
        if done.returncode != 0:
            said = last_line(done.stderr) or "it did not say why"
            needs = f"; it needs {self.install}"
            raise LeftOut(f"{self.name} is left out: its build failed ({said}){needs}")


def _is_there(program: str) -> bool:
    """Whether a program is installed; or, for a path, which may be a pattern, such a file."""
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return find_program(program) is not None


def names() -> list[str]:
    """The strangers declared."""
    return sorted(file.parent.name for file in STRANGERS.glob("*/stranger.toml"))


def stranger(name: str, parent: Path = STRANGERS) -> Stranger:
    """What is declared about one. Raises UserError where the file lacks something."""
    file = parent / name / "stranger.toml"
    return Stranger(name, declaration(Declaration, file), file.parent)


def limits_of(config: str) -> dict[str, str]:
    """The plain numbers among the definitions of lib/config.h, by name."""
    return dict(_LIMIT.findall(config))


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The texts with every @WORD@ replaced that is known."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), text) for text in texts]
