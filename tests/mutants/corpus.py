# SPDX-License-Identifier: MIT
"""The corpus: each mutant replaces texts of one source file, and each text occurs once there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.host.project import toml_of

HERE = Path(__file__).parent
KINDS = {"blocking": "03_preforking", "threaded": "04_threading", "evented": "07_epoll"}
"""Each kind of server, and the server that is graded if a mutant names none."""


class Mutant(NamedTuple):
    name: str
    title: str
    """The fault in words, for the table."""
    file: str
    """The path in the project."""
    old: str
    new: str
    named: tuple[str, ...]
    """The findings that name this fault correctly."""
    kinds: tuple[str, ...]
    more: tuple[tuple[str, str], ...] = ()
    """Further replacements in the same file: old and new."""
    server: str = ""
    """The server that gets the fault; empty: the server of each kind in KINDS."""

    def changed(self, root: Path) -> str:
        """Return the file's text with the fault. Raise ValueError unless each old text occurs
        once."""
        text = (root / self.file).read_text(encoding="utf-8")
        for old, new in ((self.old, self.new), *self.more):
            if (count := text.count(old)) != 1:
                raise ValueError(f"{self.name}: {self.file} has {old!r} {count} times, not once")
            text = text.replace(old, new)
        return text

    def apply(self, root: Path) -> None:
        """Plant the fault in a copy of the project. Raise ValueError unless each old text occurs
        once."""
        (root / self.file).write_text(self.changed(root), encoding="utf-8")

    def server_of(self, kind: str) -> str:
        """Return the folder of the server that is graded for a kind."""
        return self.server or KINDS[kind]


def mutants() -> Iterator[Mutant]:
    for file in sorted(HERE.glob("*.toml")):
        data = toml_of(file)
        for entry in data["mutant"]:
            yield Mutant(**{**entry, "named": tuple(entry["named"]), "kinds": tuple(data["kinds"])})
