# SPDX-License-Identifier: MIT
"""Strangers: programs of others, declared in bench/strangers/NAME/stranger.toml.

The file names the command, how it is told its port and its Redis, which workloads it can serve,
and what must be installed; bench/strangers/nginx/ explains it.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.host.programs import find_program, search_path
from bench.host.project import ROOT, toml_of
from bench.records.errors import UserError

STRANGERS = ROOT / "bench" / "strangers"
BUILD = ROOT / "build" / "strangers"
BUILD_SECONDS = 300
_OTHERS = re.compile(r"^\.\./[^/]+/")
"""Of a file: it is that of another stranger."""
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class LeftOut(UserError):
    """Something that cannot be measured here; the message says why and what to install."""


@dataclass(frozen=True)
class Stranger:
    """What a stranger.toml says."""

    name: str
    programs: tuple[str, ...]
    """Those that must be installed."""
    install: str
    """Where they come from."""
    command: tuple[str, ...]
    workloads: frozenset[str]
    files: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    architecture: str | None = None
    """The server whose architecture it has."""
    stalled_by: str | None = None
    """How many silent clients shut out all others, see `bench.subjects.subject.Subject`."""
    folder: Path = field(default=Path(), compare=False)

    def prepare(self) -> None:
        """Look for what it needs and build it, if it must be. Raises LeftOut."""
        for program in self.programs:
            if not find_program(program):
                raise LeftOut(f"{self.name} is left out: install {self.install}")
        if self.build:
            BUILD.mkdir(parents=True, exist_ok=True)
            self._build(fill(self.build, {"BUILD": str(BUILD)}))

    def command_line(self, folder: Path, words: Mapping[str, str]) -> list[str]:
        """The command, with its files put into `folder`; `words` are those of the place."""
        known = {
            **limits_of((ROOT / "lib" / "config.h").read_text()),
            "ROOT": str(ROOT),
            "BUILD": str(BUILD),
            "FOLDER": str(folder),
            **words,
        }
        folder.chmod(0o755)  # one that gives up being root must still be able to read in it
        for name in self.files:
            copy = folder / _OTHERS.sub("", name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(fill([(self.folder / name).read_text()], known)[0])
        program, *rest = fill(self.command, known)
        return [find_program(program) or program, *rest]

    def _build(self, command: list[str]) -> None:
        where = {**os.environ, "PATH": search_path()}
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS,
                env=where,
            )
        except subprocess.TimeoutExpired:
            took = f"longer than {BUILD_SECONDS // 60} minutes"
            raise LeftOut(f"{self.name} is left out: its build took {took}") from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
            raise LeftOut(f"{self.name} is left out: its build failed ({said})")


def names() -> list[str]:
    """The strangers declared."""
    return sorted(file.parent.name for file in STRANGERS.glob("*/stranger.toml"))


def stranger(name: str, parent: Path = STRANGERS) -> Stranger:
    """What is declared about one."""
    folder = parent / name
    said = toml_of(folder / "stranger.toml")
    return Stranger(
        name=name,
        programs=tuple(said["programs"]),
        install=said["install"],
        command=tuple(said["command"]),
        workloads=frozenset(said["workloads"]),
        files=tuple(said.get("files", ())),
        build=tuple(said.get("build", ())),
        architecture=said.get("architecture"),
        stalled_by=said.get("stalled_by"),
        folder=folder,
    )


def limits_of(config: str) -> dict[str, str]:
    """The plain numbers among the definitions of lib/config.h, by name."""
    return dict(_LIMIT.findall(config))


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The texts with every @WORD@ replaced that is known."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), text) for text in texts]
