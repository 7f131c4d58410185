# SPDX-License-Identifier: MIT
"""What can be measured: the project's servers, their floors, and strangers.

Servers come from the folder listing, so an eighth is there by itself. The floor of a server, the
barest program of its architecture, is called `floor-epoll` and comes from floors/. Strangers
are declared, see bench.subjects.declared.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, Field

from bench.host.process import free_port
from bench.host.project import ROOT, declaration
from bench.records.conditions import FLOOR_PREFIX, Conditions
from bench.records.errors import UserError
from bench.records.figures import Kind
from bench.records.values import each_of
from bench.subjects import declared
from bench.subjects.declared import Keeps

_FOLDER = re.compile(r"\d\d_[A-Za-z0-9_-]+")
FLOORS = ROOT / "floors"
FLOOR_BUILD = ROOT / "build" / "floor"

FLOOR_ASKS: dict[str, tuple[str, ...]] = {
    "redirect": (),
    "moved": (),
    "hello": (),
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

START_SECONDS = 60.0
"""How long a server may take until it listens: one that is compiled at its start, on a fifth of a
core that others want, too, needs half of it."""

PROFILE_FILE = "pprof"
"""What a program of Go writes."""

NO_CONDITIONS = Conditions("")


@dataclass(frozen=True)
class Place:
    """Where and how a subject is to run."""

    redis_url: str
    folder: Path
    """A temporary one, empty, its own."""
    port: int = 0
    """0: any free one."""
    conditions: Conditions = NO_CONDITIONS
    """Under which it is asked. A server is told how many workers to have, a floor what to ask Redis
    and whether to keep connections. The rest is done around it, by `RunningServer` and others."""
    answer_bytes: int = 0
    """For floors: how long a whole answer shall be."""
    address: str = "127.0.0.1"
    """Where to listen."""
    profile: bool = False
    """Whether it shall write a profile of itself, as PROFILE_FILE in its folder."""


def _elsewhere(_: object) -> list[str]:
    raise AssertionError("this subject is on another host")


@dataclass(frozen=True)
class Subject:
    """Something that can be started where it is, and asked. Its command does not leave its host."""

    name: str
    kind: Kind
    command: Annotated[Callable[[Place], list[str]], Field(exclude=True)] = field(
        default=_elsewhere, compare=False, repr=False
    )
    architecture: str | None = None
    workloads: frozenset[str] | None = None
    """Those that it can serve; None: all."""
    announces: bool = True
    """Whether it takes port 0 and prints a `url` line when it listens; else it is asked."""
    ready: str = ""
    """A path that it answers with an error until it has started; "": it has when it listens."""
    start_seconds: float = START_SECONDS
    always_closes: bool = False
    """Whether it closes each connection after one response, whatever the client wishes."""
    executable: Path | None = None
    keeps: Keeps = "yes"
    """Whether it keeps a connection that a client wants to keep, see `declared.Keeps`."""
    warm_up: int = 0
    """Requests before those that count, where it needs more of them than others."""
    profiles_itself: bool = False
    """Whether it can write a profile of itself."""
    has_workers: bool = False
    """Whether --workers counts for it, as its folder says."""
    stalled_by: str | None = None
    """How many silent clients shut out all others, as its folder says (and the end-to-end tests
    try): "nobody", "one", as many as there are "workers". None: nobody has said."""

    def serves(self, workload: str) -> bool:
        """Whether it has it, by name."""
        return self.workloads is None or workload in self.workloads

    def can(self, conditions: Conditions) -> bool:
        """Whether it can be measured under some conditions."""
        if not self.serves(conditions.workload):
            return False
        if conditions.workers and not self.has_workers:
            return False
        if self.kind != "server" and (conditions.change or conditions.mode == "counted"):
            return False  # see `changed` and `counted` in bench.subjects.running
        if self.keeps == "HTTP/1.1" and conditions.generator == "ab" and conditions.server_keeps:
            return False
        if self.always_closes:
            return not conditions.server_keeps and not conditions.idle
        # A floor keeps all connections or none, and counts whoever asks as a visitor.
        return not (self.kind == "floor" and conditions.idle)


def select(
    names: Sequence[str] | None, floors: bool = False, programs: Path = ROOT
) -> list[Subject]:
    """The named subjects in the order given, each once; all servers for None. A server may be named
    by its folder too: 07_epoll is epoll. `floors`: and the floors of the servers among them.
    `programs`: where the servers' executables are.

    Raises UserError for one that is not known, not built, or lacks something it needs.
    """
    servers = discover()
    wanted = _known(names, servers, known_names(servers)[len(servers) :])
    if floors:
        chosen = [FLOOR_PREFIX + name for name in wanted if name in servers]
        wanted += [name for name in chosen if name not in wanted and _floor_source(name)]
    built = {name: programs / name for name in wanted if name in servers}
    if missing := [name for name, program in built.items() if not os.access(program, os.X_OK)]:
        raise UserError(f"not built yet: {', '.join(missing)}. Run: make all")
    return [_subject(name, built) for name in wanted]


def available(
    names: Sequence[str], floors: bool = False, programs: Path = ROOT
) -> tuple[list[Subject], dict[str, str]]:
    """Those of the named subjects that can be had here; and why the others cannot, by name."""
    here, left_out = [], {}
    for name in names:
        try:
            here += select([name], floors, programs)
        except declared.LeftOut as missing:
            left_out[name] = str(missing)
    return here, left_out


def server_names(names: Sequence[str] | None) -> list[str]:
    """The same, of the project's servers alone, built or not: their names."""
    return _known(names, discover(), [])


def _known(names: Sequence[str] | None, servers: Sequence[str], others: Sequence[str]) -> list[str]:
    if not servers:
        raise UserError("no servers here: no folder like 07_epoll/ with a main.c")
    wanted = [name[3:] if _FOLDER.fullmatch(name) else name for name in names or servers]
    return each_of("server", wanted, [*servers, *others])


def discover(root: Path = ROOT) -> list[str]:
    """The names of the project's servers: a folder `NN_name/` with a `main.c` is one, and `make
    all` builds it as `./name`."""
    folders = [main.parent.name for main in sorted(root.glob("[0-9][0-9]_*/main.c"))]
    return [name[3:] for name in folders if _FOLDER.fullmatch(name)]


def known_names(servers: Sequence[str]) -> list[str]:
    """All names that can be chosen."""
    floors = [FLOOR_PREFIX + name for name in servers if _floor_source(FLOOR_PREFIX + name)]
    return [*servers, *floors, *declared.names()]


def server_subject(name: str, program: Path) -> Subject:
    """One of the project's servers."""
    said = said_of(next(ROOT.glob(f"[0-9][0-9]_{name}"), ROOT / "none"))

    def command(place: Place) -> list[str]:
        # Its folder is given, since it may be built elsewhere than beside public/.
        where = ["--address", place.address, "--port", str(place.port), "--root", str(ROOT)]
        number = place.conditions.workers
        workers = ["--workers", str(number)] if number else []
        return [str(program), *where, "--redis", place.redis_url, *workers]

    return Subject(
        name=name,
        kind="server",
        command=command,
        architecture=name,
        always_closes=name == "iterative",
        executable=program,
        has_workers=bool(said.workers),
        stalled_by=said.stalled_by,
    )


class ServerFacts(BaseModel):
    """What a server's own tests.toml says of it, as far as it concerns a measurement."""

    workers: str = ""
    """What --workers counts; empty: nothing."""
    stalled_by: str = "nobody"


def said_of(folder: Path) -> ServerFacts:
    """What a server's folder says of it. Raises UserError if that cannot be read."""
    return declaration(ServerFacts, folder / "tests.toml")


def floor_subject(architecture: str) -> Subject:
    """The floor of a server. Raises LeftOut if there is none, or it is not built."""
    name = FLOOR_PREFIX + architecture
    source = _floor_source(name)
    if source is None:
        raise declared.LeftOut(f"{architecture} has no floor in {FLOORS.relative_to(ROOT)}/")
    program = FLOOR_BUILD / source.stem
    if not os.access(program, os.X_OK):
        raise declared.LeftOut(f"{name} is left out: it is not built yet. Run: make floor")

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
    said = stranger.said
    stranger.prepare()

    def command(place: Place) -> list[str]:
        words = {
            "ADDRESS": place.address,
            "PORT": str(place.port),
            "UPSTREAM_PORT": str(free_port(place.address)),
            "REDIS_URL": place.redis_url,
        }
        itself = [said.profile, str(place.folder / PROFILE_FILE)] if place.profile else []
        return [*stranger.command_line(place.folder, words), *itself]

    return Subject(
        name=name,
        kind="stranger",
        command=command,
        architecture=said.architecture,
        workloads=frozenset(said.workloads),
        announces=False,
        ready=said.ready,
        always_closes=said.keeps == "no",
        keeps=said.keeps,
        warm_up=said.warm_up,
        profiles_itself=bool(said.profile),
        stalled_by=said.stalled_by,
    )


def _subject(name: str, built: Mapping[str, Path]) -> Subject:
    if name in built:
        return server_subject(name, built[name])
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
