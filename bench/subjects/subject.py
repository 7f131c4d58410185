# SPDX-License-Identifier: MIT
"""The servers under test: the project's servers, their baselines, and reference servers.

The project's servers are found by their folders, so a new server needs no entry here. The names for
epoll: `baseline-epoll` is the minimal server of its architecture, in baselines/; `plain-epoll` is
the server without the second storey, built by `make plain`.

`bench/references/NAME/reference.toml` declares a reference server: its description, origin, command
and workloads, the settings for a fair comparison, and the expected processes and system calls. The
declaration of nginx explains all keys.
"""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.host.process import free_port, last_line
from bench.host.project import ROOT, completed, declaration, find_program
from bench.records.conditions import BASELINE_PREFIX, PLAIN_PREFIX, Conditions
from bench.records.errors import UserError
from bench.records.figures import Kind
from bench.records.values import each_of

_FOLDER = re.compile(r"\d\d_[A-Za-z0-9_-]+")
BASELINES = ROOT / "baselines"
BASELINE_BUILD = ROOT / "build" / "baselines"
PLAIN_BUILD = ROOT / "build" / "plain"

BASELINE_ASKS: dict[str, tuple[str, ...]] = {
    "redirect": (),
    "moved": (),
    "hello": (),
    "small": (),
    "large": (),
    "link": ("GET link:guestbook",),
    "guestbook": (
        "INCR visitor_count",
        "LLEN guestbook_remarks",
        "LRANGE guestbook_remarks -50 -1",
    ),
    "sign": ("RPUSH guestbook_remarks One_of_many_-_Load_generator",),
}
"""The Redis commands that a baseline sends for each workload: the servers' commands, but with a
remark without spaces. Baselines have no workload for sorting."""

START_SECONDS = 60.0
"""The time limit for a server to listen. With a fifth of a busy core, a server that is compiled at
its start needs half of this time."""
PROFILE_FILE = "pprof"
EVERY = "all"
"""The word for all servers of the project, also servers that are not measured by default."""
NO_CONDITIONS = Conditions("")
Keeps = Literal["yes", "HTTP/1.1", "no"]
"""Whether a server keeps a connection open at the client's request: in both versions of HTTP, only
in HTTP/1.1 (ab sends HTTP/1.0, wrk HTTP/1.1), or never."""


class LeftOut(UserError):
    """A server cannot be measured here. The message gives the reason and usually the fix."""


@dataclass(frozen=True)
class Place:
    """The environment and the settings of a running server under test."""

    redis_url: str
    folder: Path  # The folder for this server's own files: its configuration and its profile.
    port: int = 0  # 0: any free port.
    conditions: Conditions = NO_CONDITIONS
    """The command of a server depends on the number of workers; the command of a baseline depends
    on the workload and keep-alive. Other code applies the other conditions."""
    answer_bytes: int = 0  # The length in bytes that a baseline's whole response must have.
    address: str = "127.0.0.1"
    profile: bool = False  # Whether the server writes its own profile, PROFILE_FILE in its folder.


def _elsewhere(_: object) -> list[str]:
    raise AssertionError("this server is on another host")


@dataclass(frozen=True)
class Subject:
    """A server under test. Its command is known only on its host."""

    name: str
    kind: Kind
    command: Annotated[Callable[[Place], list[str]], Field(exclude=True)] = field(
        default=_elsewhere, compare=False, repr=False
    )
    architecture: str | None = None
    workloads: frozenset[str] | None = None  # The workloads that the server serves; None: all.
    announces: bool = True
    """Whether the server accepts port 0 and prints a `url` line when it listens. If not,
    `RunningServer` repeatedly tries to connect to the server's port."""
    ready: str = ""
    """A path that returns an error until the server is ready; "": ready as soon as it listens."""
    start_seconds: float = START_SECONDS
    executable: Path | None = None
    keeps: Keeps = "yes"
    warm_up: int = 0  # The number of warm-up requests; 0 means the usual number.
    profiles_itself: bool = False
    has_workers: bool = False
    """Whether the option --workers has an effect, as the server's folder declares."""
    stalled_by: str | None = None
    """The number of silent clients that block all other clients: "one"; "workers" (the number of
    workers); or "none" if no number blocks them. None: unknown."""

    def serves(self, workload: str) -> bool:
        """Return whether the server serves the workload of this name."""
        return self.workloads is None or workload in self.workloads

    def can(self, conditions: Conditions) -> bool:
        """Return whether the server can be measured under these conditions."""
        if not self.serves(conditions.workload):
            return False
        if conditions.workers and not self.has_workers:
            return False
        if self.kind != "server" and (conditions.change or conditions.mode == "counted"):
            return False  # see `changed` and `counted` in bench.subjects.running
        if self.keeps == "HTTP/1.1" and conditions.generator == "ab" and conditions.server_keeps:
            return False
        if self.keeps == "no":
            return not conditions.server_keeps and not conditions.idle
        # Not with idle clients: a baseline keeps all connections or none, and always asks Redis.
        return not (self.kind == "baseline" and conditions.idle)


# ---- Choose servers ----


def select(
    names: Sequence[str] | None,
    programs: Path = ROOT,
    left_out: dict[str, str] | None = None,
    unbuilt: list[str] | None = None,
) -> list[Subject]:
    """Return the servers under test with these names (see `chosen_names`). `programs`: the folder
    of the servers' executables. Raise UserError if a server is unknown, not built, or cannot be
    measured here (see `LeftOut`).

    If `unbuilt` is given, add the names of project servers that are not built, without an error. If
    `left_out` is given, omit each server that cannot be measured here, and add the reason by name.
    """
    servers, wanted = discover(), chosen_names(names)
    built = {name: programs / name for name in wanted if name in servers}
    built |= {PLAIN_PREFIX + name: PLAIN_BUILD / name for name in servers}
    missing = [x for x in wanted if x in built and not os.access(built[x], os.X_OK)]
    if unbuilt is not None:
        unbuilt += missing
    elif missing:
        raise UserError(f"not built yet: {', '.join(missing)}. Run: {make_command(missing)}")
    found = []
    for name in wanted:
        try:
            if name in built:
                found.append(server_subject(name, built[name]))
            elif name.startswith(BASELINE_PREFIX):
                found.append(baseline_subject(name.removeprefix(BASELINE_PREFIX)))
            else:
                found.append(reference_subject(name))
        except LeftOut as missing:
            if left_out is None:
                raise
            left_out[name] = str(missing)
    return found


def make_command(servers: Sequence[str]) -> str:
    """Return the command that builds these servers."""
    plain = all(name.startswith(PLAIN_PREFIX) for name in servers)
    return "make plain" if plain else "make all"


def chosen_names(names: Sequence[str] | None, baselines: bool = False) -> list[str]:
    """Return the names of servers under test in the order of `names`, each once. If `names` is
    None, return the project's servers that are measured by default. The name `all` means all the
    project's servers. The name of a folder is also valid: 07_epoll means epoll. `baselines`: add
    the baselines of the named project servers. Raise UserError if a server is unknown."""
    servers = discover()
    wanted = _known(names, servers, known_names(servers)[len(servers) :])
    theirs = [BASELINE_PREFIX + name for name in wanted if baselines and name in servers]
    return list(dict.fromkeys([*wanted, *filter(_baseline_source, theirs)]))


def server_names(names: Sequence[str] | None) -> list[str]:
    """Return the chosen names of project servers, built or not; None: the default servers."""
    return _known(names, discover(), [])


def _known(names: Sequence[str] | None, servers: Sequence[str], others: Sequence[str]) -> list[str]:
    if not servers:
        raise UserError("no servers found: no folder like 07_epoll/ with a main.c")
    if not names:
        return [name for name in servers if _facts_of(name).by_default]
    every = [each for name in names for each in (servers if name == EVERY else [name])]
    wanted = [name[3:] if _FOLDER.fullmatch(name) else name for name in every]
    return each_of("server", wanted, [*servers, *others])


def discover(root: Path = ROOT) -> list[str]:
    """Return the names of the project's servers. Each server is a folder `NN_name/` with a
    `main.c`; `make all` builds it as `./name`."""
    folders = [main.parent.name for main in sorted(root.glob("[0-9][0-9]_*/main.c"))]
    return [name[3:] for name in folders if _FOLDER.fullmatch(name)]


def known_names(servers: Sequence[str]) -> list[str]:
    """Return all names that can be chosen."""
    plain, baselines = ([start + x for x in servers] for start in (PLAIN_PREFIX, BASELINE_PREFIX))
    return [*servers, *plain, *filter(_baseline_source, baselines), *reference_names()]


# ---- Servers of the project, and baselines ----


def server_subject(name: str, program: Path) -> Subject:
    """Return the server of the project with this name and executable."""
    architecture = name.removeprefix(PLAIN_PREFIX)
    said = _facts_of(architecture)

    def command(place: Place) -> list[str]:
        # --root, because the executable and public/ may be in different folders.
        where = ["--address", place.address, "--port", str(place.port), "--root", str(ROOT)]
        number = place.conditions.workers
        workers = ["--workers", str(number)] if number else []
        return [str(program), *where, "--redis", place.redis_url, *workers]

    return Subject(
        name=name,
        kind="server",
        command=command,
        architecture=architecture,
        keeps="no" if architecture == "iterative" else "yes",
        executable=program,
        has_workers=bool(said.workers),
        stalled_by=said.stalled_by,
    )


class ServerFacts(BaseModel):
    """The part of a server's tests.toml that a measurement needs."""

    workers: str = ""  # The unit that --workers counts; empty: --workers has no effect.
    stalled_by: str = "none"
    by_default: bool = True
    """Whether the server is measured and tested if the user names no servers."""


def _facts_of(name: str) -> ServerFacts:
    return said_of(next(ROOT.glob(f"[0-9][0-9]_{name}"), ROOT / "none"))


def said_of(folder: Path) -> ServerFacts:
    """Return the facts in a folder's tests.toml. Raise UserError if the file is not valid."""
    return declaration(ServerFacts, folder / "tests.toml")


def baseline_subject(architecture: str) -> Subject:
    """Return the baseline of an architecture. Raise LeftOut if it is missing or not built."""
    name = BASELINE_PREFIX + architecture
    source = _baseline_source(name)
    if source is None:
        raise LeftOut(f"{architecture} has no baseline in {BASELINES.relative_to(ROOT)}/")
    program = BASELINE_BUILD / source.stem
    if not os.access(program, os.X_OK):
        raise LeftOut(f"{name} is left out: it is not built yet. Run: `make baselines`")

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
        kind="baseline",
        command=command,
        architecture=architecture,
        workloads=frozenset(BASELINE_ASKS),
        keeps="no" if architecture == "iterative" else "yes",
        executable=program,
    )


def _baseline_source(name: str) -> Path | None:
    return next(BASELINES.glob(f"[0-9][0-9]_{name.removeprefix(BASELINE_PREFIX)}.c"), None)


def _redis_words(place: Place) -> list[str]:
    """Return a baseline's options for Redis: address, first commands, commands of a request."""
    asks = BASELINE_ASKS.get(place.conditions.workload, ())
    if not asks:
        return []
    where, greetings = redis_for_baseline(place.redis_url)
    options = [*(("--greet", one) for one in greetings), *(("--ask", one) for one in asks)]
    return ["--redis", where, *(word for option in options for word in option)]


def redis_for_baseline(url: str) -> tuple[str, list[str]]:
    """Return HOST:PORT or unix:PATH of a Redis, and the first commands of a connection. Raise
    UserError for a user name or password with a space, because baselines split commands there."""
    if url.startswith("unix:"):
        return url.replace("unix://", "unix:", 1), []
    parts = urlsplit(url)
    secrets = [unquote(word) for word in (parts.username, parts.password) if word]
    if any(" " in word for word in secrets):
        raise UserError("baselines cannot use a Redis password with spaces: omit --baselines")
    greetings = [" ".join(["AUTH", *secrets])] if secrets else []
    database = parts.path.strip("/")
    if database not in ("", "0"):
        greetings.append(f"SELECT {database}")
    return f"{parts.hostname}:{parts.port or 6379}", greetings


# ---- Reference servers ----

REFERENCES = ROOT / "bench" / "references"
BUILD = ROOT / "build" / "references"
OUR_BUILD = {"BUILD": str(BUILD)}
BUILD_SECONDS = 300
LOOK_SECONDS = 20
_OTHERS = re.compile(r"^\.\./[^/]+/")
"""Matches `../NAME/`, the beginning of a file name in the folder of another reference server."""
_WORD = re.compile(r"@([A-Z_]+)@")
_LIMIT = re.compile(r"^#define\s+([A-Z_]+)\s+(\d+)\s*(?:/\*.*)?$", re.MULTILINE)


class Serving(BaseModel):
    """Facts about a reference server under load, which a test checks. They are also in
    docs/reference/reference-servers.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: tuple[int, int]
    threads: tuple[int, int]  # `processes` and `threads`: the minimum and the maximum number.
    calls: tuple[str, ...]  # System calls that identify the server's architecture.


class Fetched(BaseModel):
    """Files that a build downloads from the registry of a language if they are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str  # The name of the download; servers with the same name share the download.
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
        where = "`make peers` installs what Debian or Ubuntu has"
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

    def command_line(self, place: Place) -> list[str]:
        """Copy the server's files into the folder of `place` and return the server's command."""
        known = {
            **limits_of((ROOT / "lib" / "config.h").read_text()),
            **OUR_BUILD,
            "ROOT": str(ROOT),
            "FOLDER": str(place.folder),
            "ADDRESS": place.address,
            "PORT": str(place.port),
            "UPSTREAM_PORT": str(free_port(place.address)),
            "REDIS_URL": place.redis_url,
        }
        place.folder.chmod(0o755)  # a server that drops root privileges must be able to read it
        for name in self.files:
            copy = place.folder / _OTHERS.sub("", name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(fill([(self.folder / name).read_text()], known)[0])
        program, *rest = fill(self.command, known)
        itself = [self.profile, str(place.folder / PROFILE_FILE)] if place.profile else []
        return [find_program(program) or program, *rest, *itself]

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


def reference_names() -> list[str]:
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


def reference_subject(name: str) -> Subject:
    """Build and return a reference server. Raise LeftOut if a program is missing or the build
    fails."""
    said = reference(name)
    said.prepare()
    return Subject(
        name=name,
        kind="reference",
        command=said.command_line,
        architecture=said.architecture,
        workloads=frozenset(said.workloads),
        announces=False,
        ready=said.ready,
        keeps=said.keeps,
        warm_up=said.warm_up,
        profiles_itself=bool(said.profile),
        stalled_by=said.stalled_by,
    )
