"""What can be measured.

The seven and their floors come from the folder listing, so an eighth is there by itself: it is
`08_name/main.c`, its floor `bench/floor/08_name.c`. Every other program is a stranger and declared
in `bench/strangers/NAME/stranger.toml` (bench/strangers/nginx/ explains the file).
"""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import UserError
from bench.servers import ROOT, discover

FLOORS = ROOT / "bench" / "floor"
STRANGERS = ROOT / "bench" / "strangers"
BUILD = ROOT / "build"
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class LeftOut(Exception):
    """A subject that cannot be measured here; the message says why and what to install."""


@dataclass(frozen=True)
class Place:
    """Where and how a subject is to run."""

    port: int
    redis: str
    """host:port"""
    folder: Path
    """A temporary one, empty, its own."""
    keep_alive: bool


@dataclass(frozen=True)
class Subject:
    """A program that can be started and asked."""

    name: str
    command: Callable[[Place], list[str]] = field(compare=False)
    kind: str = "server"
    """server, floor or stranger."""
    always_closes: bool = False
    """Whether it closes after each response, even when asked to keep the connection."""


def server(name: str, programs: Path = ROOT) -> Subject:
    """One of the project's servers. Raises UserError if there is none, or it is not built."""
    known = [s.name for s in discover()]
    if name not in known:
        raise UserError(f"unknown server: {name}. Known: {', '.join(known)}")
    program = programs / name
    if not os.access(program, os.X_OK):
        raise UserError(f"not built yet: {name}. Run: make all")

    def command(place: Place) -> list[str]:
        options = {
            "--port": str(place.port),
            "--redis": f"redis://{place.redis}",
            "--root": str(ROOT),
        }
        return [str(program), *(word for pair in options.items() for word in pair)]

    return Subject(name, command, always_closes=name == "iterative")


def servers(programs: Path = ROOT) -> list[Subject]:
    """All of the project's servers, in the order of their folders."""
    return [server(s.name, programs) for s in discover()]


def floor_of(subject: Subject, answer_bytes: int) -> Subject:
    """The floor of a server, with answers as long as the server's. Raises LeftOut."""
    source = next(FLOORS.glob(f"[0-9][0-9]_{subject.name}.c"), None)
    if source is None:
        raise LeftOut(f"{subject.name} has no floor in {FLOORS.relative_to(ROOT)}/")
    program = BUILD / "floor" / source.stem
    if not os.access(program, os.X_OK):
        raise LeftOut(f"the floor of {subject.name} is not built. Run: make floor")

    def command(place: Place) -> list[str]:
        words = [str(program), "--port", str(place.port), "--bytes", str(answer_bytes)]
        return [*words, "--keep-alive"] if place.keep_alive else words

    return Subject(f"floor of {subject.name}", command, "floor", subject.always_closes)


def stranger(name: str) -> Subject:
    """A declared stranger, built if it must be. Raises LeftOut if something it needs is missing."""
    folder = STRANGERS / name
    declared = tomllib.loads((folder / "stranger.toml").read_text())
    for program in declared["programs"]:
        if not shutil.which(program, path=_search_path()):
            raise LeftOut(f"{name} is left out: install {declared['install']}")
    limits = limits_of((ROOT / "lib" / "config.h").read_text())
    if "build" in declared:
        _build(name, folder, fill(declared["build"], {"BUILD": _build_folder()}))

    def command(place: Place) -> list[str]:
        words = {
            **limits,
            "PORT": str(place.port),
            "REDIS": place.redis,
            "ROOT": str(ROOT),
            "FOLDER": str(place.folder),
            "BUILD": _build_folder(),
        }
        for file in declared.get("files", []):
            (place.folder / file).write_text(fill([(folder / file).read_text()], words)[0])
        program, *rest = fill(declared["command"], words)
        return [shutil.which(program, path=_search_path()) or program, *rest]

    return Subject(name, command, "stranger")


def limits_of(config: str) -> dict[str, str]:
    """The plain numbers among the definitions of lib/config.h, by name."""
    return dict(_LIMIT.findall(config))


def fill(texts: Sequence[str], words: dict[str, str]) -> list[str]:
    """The texts with every @WORD@ replaced that is known."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), text) for text in texts]


def _build(name: str, folder: Path, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, env=_environment()
        )
    except subprocess.TimeoutExpired:
        raise LeftOut(f"{name} is left out: its build took longer than 5 minutes") from None
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
        raise LeftOut(f"{name} is left out: its build failed ({said})")


def _build_folder() -> str:
    folder = BUILD / "strangers"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _search_path() -> str:
    # Debian puts nginx where an ordinary user's shell does not look; Go's own installer, too.
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/go/bin"])


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _search_path()}
