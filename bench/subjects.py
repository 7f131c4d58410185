"""What a sweep can measure: the project's servers, their floors, and strangers.

Servers come from the folder listing, so an eighth is there by itself. The floor of a server, the
barest program of its architecture, is called `floor-epoll` and comes from bench/floor/. Strangers
are declared in bench/strangers/NAME/stranger.toml, which names the command, how it is told its port
and its Redis, and the workloads that it can serve.
"""

import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench.errors import UserError
from bench.measure import subjects as declared
from bench.measurement import Kind
from bench.servers import Server, discover, require_built

FLOOR_PREFIX = "floor-"
FLOOR_WORKLOADS = frozenset({"redirect", "small"})
"""What a canned answer stands for: little work and no wait."""

STRANGERS = declared.STRANGERS


@dataclass(frozen=True)
class Place:
    """Where and how a subject is to run."""

    port: int
    """0: any free one, where it says itself which."""
    redis_url: str
    folder: Path
    """A temporary one, empty, its own."""
    keep_alive: bool = False
    answer_bytes: int = 0
    """For floors: how long a whole answer shall be."""


@dataclass(frozen=True)
class Subject:
    """Something that can be started and asked."""

    name: str
    kind: Kind
    command: Callable[[Place], list[str]] = field(compare=False, repr=False)
    architecture: str | None = None
    workloads: frozenset[str] | None = None
    """Those that it can serve; None: all."""
    announces: bool = True
    """Whether it takes port 0 and prints a `url` line when it listens; else it is asked."""
    always_closes: bool = False
    """Whether it closes each connection after one response, whatever the client wishes."""
    executable: Path | None = None

    def can(self, workload: str, keep_alive: bool) -> bool:
        """Whether it can serve a workload in this way."""
        return (self.workloads is None or workload in self.workloads) and not (
            keep_alive and self.always_closes
        )


def select(names: Sequence[str] | None, floors: bool = False) -> list[Subject]:
    """The named subjects in the order given, each once; all servers for None. `floors`: and the
    floors of the servers among them.

    Raises UserError for one that is not known, not built, or lacks something it needs.
    """
    servers = {server.name: server for server in discover()}
    if not servers:
        raise UserError("no servers here: no folder like 07_epoll/ with a main.c")
    wanted = list(dict.fromkeys(names or servers))
    if floors:
        chosen = [FLOOR_PREFIX + name for name in wanted if name in servers]
        wanted += [name for name in chosen if name not in wanted and _has_floor(name)]
    unknown = [name for name in wanted if name not in known_names(servers)]
    if unknown:
        raise UserError(
            f"unknown server{'s' if len(unknown) > 1 else ''}: {', '.join(unknown)}. "
            f"Known: {', '.join(known_names(servers))}"
        )
    require_built(servers[name] for name in wanted if name in servers)
    return [_subject(name, servers) for name in wanted]


def known_names(servers: Iterable[str]) -> list[str]:
    """All names that can be chosen."""
    servers = list(servers)
    floors = [FLOOR_PREFIX + name for name in servers if _has_floor(FLOOR_PREFIX + name)]
    return [*servers, *floors, *strangers()]


def strangers() -> list[str]:
    """The strangers declared."""
    return sorted(file.parent.name for file in STRANGERS.glob("*/stranger.toml"))


def server_subject(server: Server) -> Subject:
    """One of the project's servers."""

    def command(place: Place) -> list[str]:
        return [str(server.executable), "--port", str(place.port), "--redis", place.redis_url]

    return Subject(
        name=server.name,
        kind="server",
        command=command,
        architecture=server.name,
        always_closes=server.name == "iterative",
        executable=server.executable,
    )


def _subject(name: str, servers: dict[str, Server]) -> Subject:
    if name in servers:
        return server_subject(servers[name])
    return _floor(name) if name.startswith(FLOOR_PREFIX) else _stranger(name)


def _has_floor(name: str) -> bool:
    return any(declared.FLOORS.glob(f"[0-9][0-9]_{name.removeprefix(FLOOR_PREFIX)}.c"))


def _floor(name: str) -> Subject:
    architecture = name.removeprefix(FLOOR_PREFIX)
    program = declared.BUILD / "floor" / architecture
    if not os.access(program, os.X_OK):
        raise UserError(f"not built yet: {name}. Run: make floor")

    def command(place: Place) -> list[str]:
        words = [str(program), "--port", str(place.port), "--bytes", str(place.answer_bytes)]
        return [*words, "--keep-alive"] if place.keep_alive else words

    return Subject(
        name=name,
        kind="floor",
        command=command,
        architecture=architecture,
        workloads=FLOOR_WORKLOADS,
        always_closes=architecture == "iterative",
        executable=program,
    )


def _stranger(name: str) -> Subject:
    try:
        made = declared.stranger(name)
    except declared.LeftOut as reason:
        raise UserError(str(reason)) from reason
    words = tomllib.loads((STRANGERS / name / "stranger.toml").read_text())

    def command(place: Place) -> list[str]:
        redis = urlsplit(place.redis_url)
        at = f"{redis.hostname}:{redis.port}"
        return made.command(declared.Place(place.port, at, place.folder, place.keep_alive))

    return Subject(
        name=name,
        kind="stranger",
        command=command,
        architecture=words.get("architecture"),
        workloads=frozenset(words["workloads"]),
        announces=False,
    )
