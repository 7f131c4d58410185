# SPDX-License-Identifier: MIT
"""What can be measured: the project's servers, their floors, and strangers.

Servers come from the folder listing, so an eighth is there by itself. The floor of a server, the
barest program of its architecture, is called `floor-epoll` and comes from floors/. Strangers
are declared, see bench.subjects.declared.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bench.host.project import ROOT
from bench.records.conditions import FLOOR_PREFIX, Conditions
from bench.records.errors import UserError
from bench.records.figures import Kind
from bench.subjects import declared
from bench.subjects.servers import Server, discover, named, require_built, require_known

FLOORS = ROOT / "floors"
FLOOR_BUILD = ROOT / "build" / "floor"

FLOOR_ASKS: dict[str, tuple[str, ...]] = {
    "redirect": (),
    "small": (),
    "large": (),
    "link": ("GET link:guestbook",),
    "guestbook": (
        "LRANGE guestbook_remarks -50 -1",
        "INCR visitor_count",
        "LLEN guestbook_remarks",
    ),
    "sign": ("RPUSH guestbook_remarks One_of_many_-_Load_generator",),
}
"""The workloads that a canned answer can stand for, and what Redis is asked for each: the commands
of the servers, word for word, but for the blanks in a remark. Sorting has no floor."""


NO_CONDITIONS = Conditions("")


@dataclass(frozen=True)
class Place:
    """Where and how a subject is to run."""

    port: int
    """0: any free one, where it says itself which."""
    redis_url: str
    folder: Path
    """A temporary one, empty, its own."""
    conditions: Conditions = NO_CONDITIONS
    """Under which it is asked. Of a server they change nothing; a floor is told what to ask Redis,
    and whether to keep connections."""
    answer_bytes: int = 0
    """For floors: how long a whole answer shall be."""
    address: str = "127.0.0.1"
    """Where to listen."""


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
    stalled_by: str | None = None
    """How many silent clients shut out all others, see `bench.subjects.servers`. None: nobody has
    said."""

    def can(self, workload: str, keep_alive: bool, idle: int = 0) -> bool:
        """Whether it can serve a workload in this way, beside so many idle connections."""
        if self.workloads is not None and workload not in self.workloads:
            return False
        if self.always_closes:
            return not keep_alive and not idle
        # A floor keeps all connections or none, and counts whoever asks as a visitor.
        return not (self.kind == "floor" and idle)


def select(
    names: Sequence[str] | None, floors: bool = False, programs: Path = ROOT
) -> list[Subject]:
    """The named subjects in the order given, each once; all servers for None. `floors`: and the
    floors of the servers among them. `programs`: where the servers' executables are.

    Raises UserError for one that is not known, not built, or lacks something it needs.
    """
    built = [replace(server, executable=programs / server.name) for server in discover()]
    servers = named(built)
    wanted = list(dict.fromkeys(names or servers))
    if floors:
        chosen = [FLOOR_PREFIX + name for name in wanted if name in servers]
        wanted += [name for name in chosen if name not in wanted and _floor_source(name)]
    require_known(wanted, known_names(servers))
    require_built(servers[name] for name in wanted if name in servers)
    return [_subject(name, servers) for name in wanted]


def known_names(servers: Iterable[str]) -> list[str]:
    """All names that can be chosen."""
    servers = list(servers)
    floors = [FLOOR_PREFIX + name for name in servers if _floor_source(FLOOR_PREFIX + name)]
    return [*servers, *floors, *declared.names()]


def server_subject(server: Server) -> Subject:
    """One of the project's servers."""

    def command(place: Place) -> list[str]:
        # Its folder is given, since it may be built elsewhere than beside public/.
        where = ["--address", place.address, "--port", str(place.port), "--root", str(ROOT)]
        number = place.conditions.workers
        workers = ["--workers", str(number)] if number else []
        return [str(server.executable), *where, "--redis", place.redis_url, *workers]

    return Subject(
        name=server.name,
        kind="server",
        command=command,
        architecture=server.name,
        always_closes=server.name == "iterative",
        executable=server.executable,
        stalled_by=server.stalled_by,
    )


def floor_subject(architecture: str) -> Subject:
    """The floor of a server. Raises LeftOut if there is none, or it is not built."""
    name = FLOOR_PREFIX + architecture
    source = _floor_source(name)
    if source is None:
        raise declared.LeftOut(f"{architecture} has no floor in {FLOORS.relative_to(ROOT)}/")
    program = FLOOR_BUILD / source.stem
    if not os.access(program, os.X_OK):
        raise declared.LeftOut(f"not built yet: {name}. Run: make floor")

    def command(place: Place) -> list[str]:
        return [
            str(program),
            *("--address", place.address),
            *("--port", str(place.port)),
            *("--bytes", str(place.answer_bytes)),
            *(["--keep-alive"] if place.conditions.server_keeps else []),
            *_redis_words(place),
        ]

    return Subject(
        name=name,
        kind="floor",
        command=command,
        architecture=architecture,
        workloads=frozenset(FLOOR_ASKS),
        always_closes=architecture == "iterative",
        executable=program,
    )


def stranger_subject(name: str) -> Subject:
    """A declared stranger, built if it must be. Raises LeftOut if something it needs is missing."""
    stranger = declared.stranger(name)
    stranger.prepare()

    def command(place: Place) -> list[str]:
        words = {
            "ADDRESS": place.address,
            "PORT": str(place.port),
            "REDIS_URL": place.redis_url,
        }
        return stranger.command_line(place.folder, words)

    return Subject(
        name=name,
        kind="stranger",
        command=command,
        architecture=stranger.architecture,
        workloads=stranger.workloads,
        announces=False,
        stalled_by=stranger.stalled_by,
    )


def _subject(name: str, servers: dict[str, Server]) -> Subject:
    if name in servers:
        return server_subject(servers[name])
    if name.startswith(FLOOR_PREFIX):
        return floor_subject(name.removeprefix(FLOOR_PREFIX))
    return stranger_subject(name)


def _floor_source(name: str) -> Path | None:
    return next(FLOORS.glob(f"[0-9][0-9]_{name.removeprefix(FLOOR_PREFIX)}.c"), None)


def _redis_words(place: Place) -> list[str]:
    """How a floor is told its Redis, what to say first, and what to ask for each request."""
    asks = FLOOR_ASKS.get(place.conditions.workload, ())
    if not asks:
        return []
    where, greetings = redis_for_floor(place.redis_url)
    return [
        *("--redis", where),
        *(word for greeting in greetings for word in ("--greet", greeting)),
        *(word for ask in asks for word in ("--ask", ask)),
    ]


def redis_for_floor(url: str) -> tuple[str, list[str]]:
    """HOST:PORT or unix:PATH, and the commands that begin a connection. A floor takes its commands
    as words between blanks. Raises UserError for a name or password that has some."""
    if url.startswith("unix:"):
        return url.replace("unix://", "unix:", 1), []
    parts = urlsplit(url)
    secrets = [unquote(word) for word in (parts.username, parts.password) if word]
    if any(" " in word for word in secrets):
        raise UserError(
            "the floors take no password of Redis with blanks in it: leave out --floors"
        )
    greetings = [" ".join(["AUTH", *secrets])] if secrets else []
    database = parts.path.strip("/")
    if database not in ("", "0"):
        greetings.append(f"SELECT {database}")
    return f"{parts.hostname}:{parts.port or 6379}", greetings
